/** All facts, one line each. May know: facts. Decides: which are listed, and what one of them shows in full. */

import { KINDS, told, whoOf } from "../model/telling.js";
import { el, settled, show } from "../parts/dom.js";
import { clock, count, counted, moment } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { jsonBlock } from "../parts/pieces.js";
import { settleAt, to } from "../parts/routes.js";
import { VirtualList } from "../parts/virtual.js";

export class Timeline {
  #settle;

  constructor(room) {
    this.room = room;
    this.facts = room.ledger.facts;
    this.shown = /** @type {number[] | null} */ (null); // positions that a filter lets through; null: all
    this.looked = 0; // how many facts the filter has seen
    this.chosen = -1;
    this.#settle = settled(() => settleAt("sessions", room.id, "timeline", this.chosen), 300);
    this.search = el("input", { type: "search", placeholder: "Find in facts", "aria-label": "Find in facts", autocomplete: "off" });
    this.search.addEventListener(
      "input",
      settled(() => this.#filter(), 120),
    );
    this.kind = el(
      "select",
      { "aria-label": "Kind of facts" },
      el("option", { value: "" }, "all facts"),
      Object.keys(KINDS).map((kind) => el("option", { value: kind }, kind)),
    );
    this.kind.addEventListener("change", () => this.#filter());
    this.summary = el("span", { class: "soft", role: "status" });
    this.list = new VirtualList({
      row: (index) => this.#row(index),
      name: (index) => `${this.#position(index)}${this.#position(index) === this.chosen ? " chosen" : ""}`,
      guess: 34,
      role: "listbox",
      label: "Facts",
      className: "facts",
    });
    this.list.element.addEventListener("keydown", (event) => this.#key(event));
    this.detail = el("aside", { class: "fact-detail", "aria-label": "The chosen fact" }, nothingChosen());
    this.element = el(
      "section",
      { class: "view view-timeline", "aria-label": "Timeline of facts" },
      el("div", { class: "tools-line" }, this.search, this.kind, this.summary),
      el("div", { class: "list-and-detail" }, this.list.element, this.detail),
    );
  }

  leave() {
    this.#settle.cancel();
  }

  close() {
    this.#settle.cancel();
    this.list.close();
  }

  arrive(place) {
    const wanted = place.steps[3] === undefined ? -1 : Number(place.steps[3]);
    if (wanted >= 0 && wanted !== this.chosen) requestAnimationFrame(() => this.#choose(wanted, true));
  }

  update(what) {
    if (what !== "facts" && what !== "reset" && what !== "all") return;
    if (what === "reset" || this.facts !== this.room.ledger.facts) {
      this.facts = this.room.ledger.facts;
      this.chosen = -1;
      show(this.detail, nothingChosen());
      this.#filter();
      return;
    }
    this.#look();
    this.#count();
  }

  #position(index) {
    return this.shown ? this.shown[index] : index;
  }

  #filter() {
    this.shown = this.search.value.trim() || this.kind.value ? [] : null;
    this.looked = 0;
    this.#look();
    this.list.reset(this.shown ? this.shown.length : this.facts.length);
    this.#count();
  }

  #look() {
    if (!this.shown) return;
    const words = this.search.value.trim().toLowerCase();
    const kinds = this.kind.value ? KINDS[this.kind.value] : null;
    for (; this.looked < this.facts.length; this.looked++) {
      const fact = this.facts[this.looked];
      if (kinds && !kinds.includes(fact.fact)) continue;
      if (words && !`${fact.position} ${fact.fact} ${whoOf(fact, this.facts)} ${told(fact, this.facts)}`.toLowerCase().includes(words))
        continue;
      this.shown.push(this.looked);
    }
  }

  #count() {
    this.list.update(this.shown ? this.shown.length : this.facts.length);
    this.summary.textContent = this.shown
      ? `${count(this.shown.length)} of ${counted(this.facts.length, "fact")}`
      : counted(this.facts.length, "fact");
  }

  #row(index) {
    const position = this.#position(index);
    const fact = this.facts[position];
    const who = whoOf(fact, this.facts);
    return el(
      "div",
      {
        class: `fact fact-${fact.fact}${position === this.chosen ? " chosen" : ""}`,
        role: "option",
        id: `fact-${position}`,
        "aria-selected": String(position === this.chosen),
        "aria-posinset": index + 1,
        "aria-setsize": this.list.count,
        onclick: () => this.#choose(position),
      },
      el("span", { class: "position" }, String(position)),
      el("span", { class: "time" }, clock(fact.at)),
      el("span", { class: "kind" }, fact.fact.replaceAll("_", " ")),
      el("span", { class: `whose ${who ? this.room.palette.of(who) : ""}` }, who),
      el("span", { class: "told" }, told(fact, this.facts)),
    );
  }

  #choose(position, middle = false) {
    if (!this.facts[position]) return;
    this.chosen = position;
    const index = this.shown ? this.shown.indexOf(position) : position;
    if (index >= 0) this.list.show(index, middle);
    this.list.element.setAttribute("aria-activedescendant", `fact-${position}`);
    this.#settle();
    this.list.update(this.list.count);
    this.#detailed(this.facts[position]);
  }

  #detailed(fact) {
    const isReply = (each) => each.fact === "model_replied";
    const replies = isReply(fact) ? this.facts.slice(0, fact.position).filter(isReply).length : -1;
    const { position, ...rest } = fact;
    show(
      this.detail,
      el("h2", null, `${fact.fact.replaceAll("_", " ")} `, el("span", { class: "soft" }, `#${position}`)),
      el("p", { class: "soft" }, moment(fact.at)),
      el(
        "div",
        { class: "buttons" },
        el("a", { class: "button small", href: to("sessions", this.room.id, { at: position }) }, "In the transcript"),
        replies >= 0 &&
          el("a", { class: "button small", href: to("sessions", this.room.id, "seen", replies) }, icon("eye"), "What was seen"),
        el("a", { class: "button small", href: to("sessions", this.room.id, "replay", position + 1) }, icon("play"), "Replay from here"),
        el("button", { class: "small", type: "button", onclick: () => this.room.fork(position + 1) }, icon("fork"), "Fork after it"),
      ),
      jsonBlock(JSON.stringify(rest), { label: "The fact" }),
    );
  }

  #key(event) {
    const index = this.shown ? this.shown.indexOf(this.chosen) : this.chosen;
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
    if (event.key === "f" && this.chosen >= 0) this.room.fork(this.chosen + 1);
    else if (next !== undefined && last >= 0) this.#choose(this.#position(Math.max(0, Math.min(last, next))));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const nothingChosen = () => el("p", { class: "soft" }, "Choose a fact to see all of it.");
