/** Model input: each model request beside the conversation, with every item marked as included or left out. */

import { errorPanel } from "../components/notices.js";
import { VirtualList } from "../components/virtual_list.js";
import { agentTag, tabs } from "../components/widgets.js";
import { requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";
import { formatClock, formatCost, formatNumber, formatRange } from "../lib/format.js";
import { navigate, routeTo } from "../lib/routes.js";
import { itemElement } from "./model_input_items.js";
import { PARTS, renderPart } from "./model_input_parts.js";

export class ModelInput {
  constructor(page) {
    this.page = page;
    this.calls = [];
    this.selected = -1;
    this.explanation = null;
    this.list = new VirtualList({
      createRow: (index) => this.#callRow(index),
      rowKey: (index) => `${index} ${this.part}${index === this.selected ? " chosen" : ""}`,
      estimatedHeight: 54,
      role: "listbox",
      label: "Model requests",
      className: "calls",
    });
    this.list.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.header = el("div", { class: "input-head" });
    this.stepLinks = el("div", { class: "input-steps" });
    this.items = new VirtualList({
      createRow: (index) => itemElement(this.explanation.items[index], this.page, this.explanation),
      rowKey: (index) => `${this.explanation.n} ${index}`,
      estimatedHeight: 74,
      role: "list",
      label: "The conversation up to this request",
      className: "items",
    });
    this.counts = el("p", { class: "soft small-print" });
    this.request = el("div", { class: "input-request" });
    this.element = el(
      "section",
      { class: "view view-input", "aria-label": "Model input" },
      this.list.element,
      el(
        "div",
        { class: "input-main" },
        this.header,
        el(
          "div",
          { class: "input-sides" },
          el(
            "section",
            { class: "input-conversation", "aria-label": "The conversation, each item marked in or out" },
            el("h2", null, "The conversation"),
            this.counts,
            this.items.element,
          ),
          el("section", { class: "input-sent", "aria-label": "The request" }, this.request),
        ),
      ),
    );
  }

  close() {
    this.list.close();
    this.items.close();
  }

  async showRoute(route) {
    this.part = route.query.part ?? "context";
    if (this.generation !== this.page.ledger.generation) {
      this.generation = this.page.ledger.generation;
      this.calls = [];
      this.selected = -1;
    }
    const step = route.steps[3];
    if (!this.calls.length || this.calls.length < this.page.conversation.replyCount) await this.#loadCalls();
    const number = step === undefined ? this.calls.length - 1 : Number(step);
    if (this.calls.length === 0) return setChildren(this.header, el("p", { class: "soft" }, "No model has been requested yet."));
    if (number !== this.selected) await this.#select(Math.max(0, Math.min(this.calls.length - 1, number)));
    else this.#drawPart();
    return undefined;
  }

  update(what) {
    if (what === "facts" && this.calls.length < this.page.conversation.replyCount && this.page.isShown(this)) this.#loadCalls();
  }

  async #loadCalls() {
    try {
      this.calls = (await requestJson(`${this.page.ledger.url}/calls`)).calls;
      this.list.update(this.calls.length);
    } catch (error) {
      setChildren(
        this.header,
        errorPanel(error, () => this.#loadCalls()),
      );
    }
  }

  async #select(number) {
    this.selected = number;
    this.list.update(this.calls.length);
    this.list.scrollTo(number, false);
    this.list.element.setAttribute("aria-activedescendant", `call-${number}`);
    try {
      const explanation = await requestJson(`${this.page.ledger.url}/calls/${this.calls[number].n}`);
      if (this.selected !== number) return;
      this.explanation = explanation;
    } catch (error) {
      setChildren(
        this.header,
        errorPanel(error, () => this.#select(number)),
      );
      return;
    }
    this.#draw();
  }

  #draw() {
    const { explanation } = this;
    const { usage, after_handoff: handoff } = explanation;
    setChildren(
      this.header,
      el(
        "div",
        { class: "input-title" },
        el("h2", null, `Request ${explanation.n} `, agentTag(this.page.palette, explanation.agent)),
        el(
          "p",
          { class: "soft small-print" },
          [
            explanation.model,
            formatClock(explanation.at),
            `facts 0 to ${explanation.upto}`,
            `${formatNumber(usage.input)} tokens in (${formatNumber(usage.cached)} cached), ${formatNumber(usage.output)} out`,
            formatCost(usage.dollars, usage.unpriced),
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        handoff &&
          el(
            "p",
            { class: "small-print" },
            `The first request after ${handoff.source} handed over to ${handoff.target}`,
            explanation.resent ? `: ${formatRange(explanation.resent)} tokens were sent again` : "",
            ".",
          ),
        explanation.losses?.length > 0 &&
          el("p", { class: "small-print warn-ink" }, `Left out for the provider: ${explanation.losses.join("; ")}`),
      ),
      this.stepLinks,
    );
    const counts = { whole: 0, words: 0, no: 0 };
    for (const item of explanation.items) counts[item.shown]++;
    this.counts.textContent = [
      `${formatNumber(counts.whole)} in`,
      counts.words && `${formatNumber(counts.words)} text only`,
      counts.no && `${formatNumber(counts.no)} out`,
    ]
      .filter(Boolean)
      .join(", ");
    this.items.reset(explanation.items.length);
    if (explanation.items.length) this.items.scrollTo(explanation.items.length - 1, false);
    this.#drawPart();
  }

  /** Create a link to another request, with the same part selected. */
  #stepLink(number, label) {
    const isEnd = number < 0 || number >= this.calls.length;
    const href = routeTo("sessions", this.page.id, "seen", isEnd ? this.selected : number, { part: this.part });
    return el("a", { class: "button small", href, "aria-disabled": isEnd ? "true" : undefined }, label);
  }

  #drawPart() {
    if (!this.explanation) return;
    this.list.update(this.calls.length);
    setChildren(this.stepLinks, this.#stepLink(this.selected - 1, "Previous"), this.#stepLink(this.selected + 1, "Next"));
    setChildren(
      this.request,
      tabs(
        "Parts of the request",
        this.part,
        PARTS.map(([name, title]) => [name, routeTo("sessions", this.page.id, "seen", this.selected, { part: name }), title]),
      ),
      el("div", { class: "input-part" }, renderPart(this.part, this.explanation, this.page)),
    );
  }

  #callRow(index) {
    const call = this.calls[index];
    return el(
      "a",
      {
        class: `input-call ${this.page.palette.classOf(call.agent)}${index === this.selected ? " chosen" : ""}`,
        role: "option",
        id: `call-${index}`,
        tabindex: "-1",
        "aria-selected": String(index === this.selected),
        "aria-posinset": index + 1,
        "aria-setsize": this.calls.length,
        href: routeTo("sessions", this.page.id, "seen", index, { part: this.part }),
      },
      el("span", { class: "number" }, String(call.n)),
      el(
        "span",
        { class: "input-call-who" },
        agentTag(this.page.palette, call.agent),
        call.after_handoff && el("span", { class: "soft small-print" }, `from ${call.after_handoff.source}`),
      ),
      el("span", { class: "soft small-print tokens" }, formatNumber(call.usage.input)),
    );
  }

  #onKey(event) {
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.max(0, Math.min(this.calls.length - 1, this.selected + by));
    if (next !== this.selected) navigate("sessions", this.page.id, "seen", next, { part: this.part });
  }
}
