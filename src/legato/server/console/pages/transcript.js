/** The live transcript: rows, replies that are still streaming, pending requests, and the message field. */

import { GrowingText } from "../components/formatted_text.js";
import { agentTag } from "../components/widgets.js";
import { el, oncePerFrame, setChildren } from "../lib/dom.js";
import { Composer } from "./composer.js";
import { requestCard } from "./request_card.js";
import { RowList } from "./row_list.js";

export class Transcript {
  constructor(page) {
    this.page = page;
    this.liveElement = el("div", { class: "live" });
    this.requests = el("div", { class: "requests" });
    this.growingTexts = new WeakMap(); // delta -> its GrowingText
    this.cards = new Map(); // request id and digest -> card
    this.footer = el("div", { class: "below-rows" }, this.liveElement, this.requests);
    this.rows = new RowList(
      { session: page.id, palette: page.palette, generation: () => page.ledger.generation, onFork: (facts) => page.fork(facts) },
      this.footer,
    );
    this.composer = new Composer(page.ledger, () => this.rows.list.scrollToEnd());
    this.element = el("section", { class: "view view-transcript", "aria-label": "Transcript" }, this.rows.element, this.composer.element);
    this.scheduleDrawLive = oncePerFrame(() => this.#drawLive());
  }

  close() {
    this.rows.close();
  }

  showRoute(route) {
    if (route.query.at === undefined) return;
    this.rows.list.isAtEnd = false;
    requestAnimationFrame(() => this.rows.showPosition(Number(route.query.at)));
  }

  update(what) {
    if (what === "deltas") return this.scheduleDrawLive();
    this.rows.update(this.page.conversation);
    this.#drawLive();
    if (what !== "facts") this.#drawRequests();
    return this.composer.update();
  }

  focusRequest() {
    const card = this.requests.querySelector(".request");
    if (!card) return false;
    card.focus();
    card.scrollIntoView({ block: "nearest" });
    return true;
  }

  #drawLive() {
    const { deltas, detail } = this.page.ledger;
    const visible = deltas.filter((delta) => delta.text.trim());
    const isWaiting = detail?.status === "running" && visible.length === 0;
    setChildren(
      this.liveElement,
      visible.map((delta) =>
        el(
          "article",
          {
            class: `row row-reply live-words ${this.page.palette.classOf(delta.agent)}`,
            "aria-busy": "true",
            "aria-label": `${delta.agent} is replying`,
          },
          el("div", { class: "who" }, agentTag(this.page.palette, delta.agent)),
          this.#renderText(delta),
        ),
      ),
      isWaiting &&
        el(
          "p",
          { class: "working" },
          el("span", { class: "beat", "aria-hidden": "true" }),
          `${this.page.conversation.activeAgent || detail.agent} is working`,
        ),
    );
  }

  #renderText(delta) {
    if (!this.growingTexts.has(delta)) this.growingTexts.set(delta, new GrowingText());
    const text = this.growingTexts.get(delta);
    text.update(delta.text);
    return text.element;
  }

  /** Show one card per request. Existing cards stay, so that half-filled forms are kept. */
  #drawRequests() {
    const pending = this.page.ledger.detail?.pending ?? [];
    const now = new Set(pending.map((request) => `${request.id} ${request.digest}`));
    for (const [name, card] of this.cards) {
      if (now.has(name)) continue;
      const hadFocus = card.contains(document.activeElement);
      card.remove();
      if (hadFocus && !this.focusRequest()) this.rows.list.element.focus({ preventScroll: true });
      this.cards.delete(name);
    }
    for (const request of pending) {
      const name = `${request.id} ${request.digest}`;
      if (this.cards.has(name)) continue;
      const card = requestCard(request, {
        session: this.page.id,
        palette: this.page.palette,
        onAnswered: () => this.page.ledger.refresh(),
      });
      this.cards.set(name, card);
      this.requests.append(card);
    }
  }
}
