/** The timeline: all facts in one line each, with search and filters, and the selected fact in full. */

import { createIcon } from "../components/icons.js";
import { VirtualList } from "../components/virtual_list.js";
import { jsonBlock } from "../components/widgets.js";
import { debounce, el, setChildren } from "../lib/dom.js";
import { formatClock, formatDateTime, formatNumber, pluralize } from "../lib/format.js";
import { replaceRoute, routeTo } from "../lib/routes.js";
import { FACT_FILTERS, findAgent, summarizeFact } from "../model/fact_summary.js";

export class Timeline {
  #saveRoute;

  constructor(page) {
    this.page = page;
    this.facts = page.ledger.facts;
    this.matches = /** @type {number[] | null} */ (null); // the positions that match the filter; null without a filter
    this.filteredLength = 0; // how many facts were filtered so far
    this.selected = -1;
    this.#saveRoute = debounce(() => replaceRoute("sessions", page.id, "timeline", this.selected), 300);
    this.search = el("input", { type: "search", placeholder: "Find in facts", "aria-label": "Find in facts", autocomplete: "off" });
    this.search.addEventListener(
      "input",
      debounce(() => this.#applyFilter(), 120),
    );
    this.kind = el(
      "select",
      { "aria-label": "Filter by type" },
      el("option", { value: "" }, "all facts"),
      Object.keys(FACT_FILTERS).map((kind) => el("option", { value: kind }, kind)),
    );
    this.kind.addEventListener("change", () => this.#applyFilter());
    this.summary = el("span", { class: "soft", role: "status" });
    this.list = new VirtualList({
      createRow: (index) => this.#factRow(index),
      rowKey: (index) => `${this.#position(index)}${this.#position(index) === this.selected ? " chosen" : ""}`,
      estimatedHeight: 34,
      role: "listbox",
      label: "Facts",
      className: "facts",
    });
    this.list.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.detail = el("aside", { class: "fact-detail", "aria-label": "The selected fact" }, noSelection());
    this.element = el(
      "section",
      { class: "view view-timeline", "aria-label": "Timeline of facts" },
      el("div", { class: "tools-line" }, this.search, this.kind, this.summary),
      el("div", { class: "list-and-detail" }, this.list.element, this.detail),
    );
  }

  leave() {
    this.#saveRoute.cancel();
  }

  close() {
    this.#saveRoute.cancel();
    this.list.close();
  }

  showRoute(route) {
    const position = route.steps[3] === undefined ? -1 : Number(route.steps[3]);
    if (position >= 0 && position !== this.selected) requestAnimationFrame(() => this.#select(position, true));
  }

  update(what) {
    if (what !== "facts" && what !== "reset" && what !== "all") return;
    if (what === "reset" || this.facts !== this.page.ledger.facts) {
      this.facts = this.page.ledger.facts;
      this.selected = -1;
      setChildren(this.detail, noSelection());
      this.#applyFilter();
      return;
    }
    this.#filterNewFacts();
    this.#drawCount();
  }

  #position(index) {
    return this.matches ? this.matches[index] : index;
  }

  #applyFilter() {
    this.matches = this.search.value.trim() || this.kind.value ? [] : null;
    this.filteredLength = 0;
    this.#filterNewFacts();
    this.list.reset(this.matches ? this.matches.length : this.facts.length);
    this.#drawCount();
  }

  #filterNewFacts() {
    if (!this.matches) return;
    const words = this.search.value.trim().toLowerCase();
    const kinds = this.kind.value ? FACT_FILTERS[this.kind.value] : null;
    for (; this.filteredLength < this.facts.length; this.filteredLength++) {
      const fact = this.facts[this.filteredLength];
      if (kinds && !kinds.includes(fact.fact)) continue;
      if (
        words &&
        !`${fact.position} ${fact.fact} ${findAgent(fact, this.facts)} ${summarizeFact(fact, this.facts)}`.toLowerCase().includes(words)
      )
        continue;
      this.matches.push(this.filteredLength);
    }
  }

  #drawCount() {
    this.list.update(this.matches ? this.matches.length : this.facts.length);
    this.summary.textContent = this.matches
      ? `${formatNumber(this.matches.length)} of ${pluralize(this.facts.length, "fact")}`
      : pluralize(this.facts.length, "fact");
  }

  #factRow(index) {
    const position = this.#position(index);
    const fact = this.facts[position];
    const agent = findAgent(fact, this.facts);
    return el(
      "div",
      {
        class: `fact fact-${fact.fact}${position === this.selected ? " chosen" : ""}`,
        role: "option",
        id: `fact-${position}`,
        "aria-selected": String(position === this.selected),
        "aria-posinset": index + 1,
        "aria-setsize": this.list.count,
        onclick: () => this.#select(position),
      },
      el("span", { class: "position" }, String(position)),
      el("span", { class: "time" }, formatClock(fact.at)),
      el("span", { class: "kind" }, fact.fact.replaceAll("_", " ")),
      el("span", { class: `agent-name ${agent ? this.page.palette.classOf(agent) : ""}` }, agent),
      el("span", { class: "summary" }, summarizeFact(fact, this.facts)),
    );
  }

  #select(position, middle = false) {
    if (!this.facts[position]) return;
    this.selected = position;
    const index = this.matches ? this.matches.indexOf(position) : position;
    if (index >= 0) this.list.scrollTo(index, middle);
    this.list.element.setAttribute("aria-activedescendant", `fact-${position}`);
    this.#saveRoute();
    this.list.update(this.list.count);
    this.#drawDetail(this.facts[position]);
  }

  #drawDetail(fact) {
    const isReply = (each) => each.fact === "model_replied";
    const replies = isReply(fact) ? this.facts.slice(0, fact.position).filter(isReply).length : -1;
    const { position, ...rest } = fact;
    setChildren(
      this.detail,
      el("h2", null, `${fact.fact.replaceAll("_", " ")} `, el("span", { class: "soft" }, `#${position}`)),
      el("p", { class: "soft" }, formatDateTime(fact.at)),
      el(
        "div",
        { class: "buttons" },
        el("a", { class: "button small", href: routeTo("sessions", this.page.id, { at: position }) }, "In the transcript"),
        replies >= 0 &&
          el("a", { class: "button small", href: routeTo("sessions", this.page.id, "seen", replies) }, createIcon("eye"), "Model input"),
        el(
          "a",
          { class: "button small", href: routeTo("sessions", this.page.id, "replay", position + 1) },
          createIcon("play"),
          "Replay from here",
        ),
        el(
          "button",
          { class: "small", type: "button", onclick: () => this.page.fork(position + 1) },
          createIcon("fork"),
          "Fork after this fact",
        ),
      ),
      jsonBlock(JSON.stringify(rest), { label: "The fact" }),
    );
  }

  #onKey(event) {
    const index = this.matches ? this.matches.indexOf(this.selected) : this.selected;
    const last = this.list.count - 1;
    const next = {
      ArrowDown: index + 1,
      j: index + 1,
      ArrowUp: index - 1,
      k: index - 1,
      Home: 0,
      End: last,
      PageDown: index + 15,
      PageUp: index - 15,
    }[event.key];
    if (event.key === "f" && this.selected >= 0) this.page.fork(this.selected + 1);
    else if (next !== undefined && last >= 0) this.#select(this.#position(Math.max(0, Math.min(last, next))));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const noSelection = () => el("p", { class: "soft" }, "Select a fact to see all of its data.");
