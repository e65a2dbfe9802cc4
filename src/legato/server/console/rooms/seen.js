/** What an agent saw: a call's request beside the conversation. May know: the API's calls. Decides: how in and out are told apart. */

import { ask } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { between, clock, count, dollars } from "../parts/format.js";
import { failure } from "../parts/notices.js";
import { agentTag, tabs } from "../parts/pieces.js";
import { go, to } from "../parts/routes.js";
import { VirtualList } from "../parts/virtual.js";
import { itemElement } from "./seen_items.js";
import { PARTS, partShown } from "./seen_parts.js";

export class Seen {
  constructor(room) {
    this.room = room;
    this.calls = [];
    this.chosen = -1;
    this.seen = null;
    this.list = new VirtualList({
      row: (index) => this.#call(index),
      name: (index) => `${index} ${this.part}${index === this.chosen ? " chosen" : ""}`,
      guess: 54,
      role: "listbox",
      label: "Model calls",
      className: "calls",
    });
    this.list.element.addEventListener("keydown", (event) => this.#key(event));
    this.head = el("div", { class: "seen-head" });
    this.steps = el("div", { class: "seen-steps" });
    this.items = new VirtualList({
      row: (index) => itemElement(this.seen.items[index], this.room, this.seen),
      name: (index) => `${this.seen.n} ${index}`,
      guess: 74,
      role: "list",
      label: "The conversation up to this call",
      className: "items",
    });
    this.sums = el("p", { class: "soft small-print" });
    this.request = el("div", { class: "seen-request" });
    this.element = el(
      "section",
      { class: "view view-seen", "aria-label": "What an agent saw" },
      this.list.element,
      el(
        "div",
        { class: "seen-main" },
        this.head,
        el(
          "div",
          { class: "seen-sides" },
          el(
            "section",
            { class: "seen-conversation", "aria-label": "The conversation, each part marked in or out" },
            el("h2", null, "The conversation"),
            this.sums,
            this.items.element,
          ),
          el("section", { class: "seen-sent", "aria-label": "The request" }, this.request),
        ),
      ),
    );
  }

  close() {
    this.list.close();
    this.items.close();
  }

  async arrive(place) {
    this.part = place.query.part ?? "frame";
    if (this.generation !== this.room.ledger.generation) {
      this.generation = this.room.ledger.generation;
      this.calls = [];
      this.chosen = -1;
    }
    const asked = place.steps[3];
    if (!this.calls.length || this.calls.length < this.room.story.replies) await this.#calls();
    const wanted = asked === undefined ? this.calls.length - 1 : Number(asked);
    if (this.calls.length === 0) return show(this.head, el("p", { class: "soft" }, "No model has been called yet."));
    if (wanted !== this.chosen) await this.#choose(Math.max(0, Math.min(this.calls.length - 1, wanted)));
    else this.#drawPart();
    return undefined;
  }

  update(what) {
    if (what === "facts" && this.calls.length < this.room.story.replies && this.room.isShown(this)) this.#calls();
  }

  async #calls() {
    try {
      this.calls = (await ask(`${this.room.ledger.where}/calls`)).calls;
      this.list.update(this.calls.length);
    } catch (error) {
      show(
        this.head,
        failure(error, () => this.#calls()),
      );
    }
  }

  async #choose(number) {
    this.chosen = number;
    this.list.update(this.calls.length);
    this.list.show(number, false);
    this.list.element.setAttribute("aria-activedescendant", `call-${number}`);
    try {
      const seen = await ask(`${this.room.ledger.where}/calls/${this.calls[number].n}`);
      if (this.chosen !== number) return;
      this.seen = seen;
    } catch (error) {
      show(
        this.head,
        failure(error, () => this.#choose(number)),
      );
      return;
    }
    this.#draw();
  }

  #draw() {
    const { seen } = this;
    const handoff = seen.after_handoff;
    show(
      this.head,
      el(
        "div",
        { class: "seen-title" },
        el("h2", null, `Call ${seen.n} `, agentTag(this.room.palette, seen.agent)),
        el(
          "p",
          { class: "soft small-print" },
          [
            seen.model,
            clock(seen.at),
            `saw the facts 0 to ${seen.upto}`,
            `${count(seen.usage.input)} tokens in (${count(seen.usage.cached)} cached), ${count(seen.usage.output)} out`,
            dollars(seen.usage.dollars, seen.usage.unpriced),
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        handoff &&
          el(
            "p",
            { class: "small-print" },
            `The first call after ${handoff.source} handed over to ${handoff.target}`,
            seen.resent ? `: ${between(seen.resent)} tokens were sent again for it` : "",
            ".",
          ),
        seen.losses?.length > 0 && el("p", { class: "small-print warn-ink" }, `Left out for the provider: ${seen.losses.join("; ")}`),
      ),
      this.steps,
    );
    const sums = { whole: 0, words: 0, no: 0 };
    for (const item of seen.items) sums[item.shown]++;
    this.sums.textContent = [`${count(sums.whole)} in`, sums.words && `${count(sums.words)} words only`, sums.no && `${count(sums.no)} out`]
      .filter(Boolean)
      .join(", ");
    this.items.reset(seen.items.length);
    if (seen.items.length) this.items.show(seen.items.length - 1, false);
    this.#drawPart();
  }

  /** Another call, in the same part of it. */
  #step(number, words) {
    const last = number < 0 || number >= this.calls.length;
    const href = to("sessions", this.room.id, "seen", last ? this.chosen : number, { part: this.part });
    return el("a", { class: "button small", href, "aria-disabled": last ? "true" : undefined }, words);
  }

  #drawPart() {
    if (!this.seen) return;
    this.list.update(this.calls.length);
    show(this.steps, this.#step(this.chosen - 1, "Previous"), this.#step(this.chosen + 1, "Next"));
    show(
      this.request,
      tabs(
        "Parts of the request",
        this.part,
        PARTS.map(([name, title]) => [name, to("sessions", this.room.id, "seen", this.chosen, { part: name }), title]),
      ),
      el("div", { class: "seen-part" }, partShown(this.part, this.seen, this.room)),
    );
  }

  #call(index) {
    const call = this.calls[index];
    return el(
      "a",
      {
        class: `seen-call ${this.room.palette.of(call.agent)}${index === this.chosen ? " chosen" : ""}`,
        role: "option",
        id: `call-${index}`,
        tabindex: "-1",
        "aria-selected": String(index === this.chosen),
        "aria-posinset": index + 1,
        "aria-setsize": this.calls.length,
        href: to("sessions", this.room.id, "seen", index, { part: this.part }),
      },
      el("span", { class: "number" }, String(call.n)),
      el(
        "span",
        { class: "seen-call-who" },
        agentTag(this.room.palette, call.agent),
        call.after_handoff && el("span", { class: "soft small-print" }, `from ${call.after_handoff.source}`),
      ),
      el("span", { class: "soft small-print tokens" }, count(call.usage.input)),
    );
  }

  #key(event) {
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.max(0, Math.min(this.calls.length - 1, this.chosen + by));
    if (next !== this.chosen) go("sessions", this.room.id, "seen", next, { part: this.part });
  }
}
