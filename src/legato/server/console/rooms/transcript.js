/** A conversation, live. May know: a session's story. Decides: what stands below the last row: words being said, and questions. */

import { el, framed, show } from "../parts/dom.js";
import { agentTag } from "../parts/pieces.js";
import { GrowingProse } from "../parts/prose.js";
import { Composer } from "./composer.js";
import { RowList } from "./list.js";
import { requestCard } from "./request.js";

export class Transcript {
  constructor(room) {
    this.room = room;
    this.live = el("div", { class: "live" });
    this.requests = el("div", { class: "requests" });
    this.spoken = new WeakMap(); // words that are being said -> how they are drawn
    this.cards = new Map(); // request id -> { card, digest }
    this.footer = el("div", { class: "below-rows" }, this.live, this.requests);
    this.rows = new RowList(
      { session: room.id, palette: room.palette, generation: () => room.ledger.generation, onFork: (facts) => room.fork(facts) },
      this.footer,
    );
    this.composer = new Composer(room.ledger, () => this.rows.list.showEnd());
    this.element = el("section", { class: "view view-transcript", "aria-label": "Transcript" }, this.rows.element, this.composer.element);
    this.drawLive = framed(() => this.#live());
  }

  close() {
    this.rows.close();
  }

  arrive(place) {
    if (place.query.at === undefined) return;
    this.rows.list.pinned = false;
    requestAnimationFrame(() => this.rows.showPosition(Number(place.query.at)));
  }

  update(what) {
    if (what === "live") return this.drawLive();
    this.rows.update(this.room.story);
    this.#live();
    if (what !== "facts") this.#requests();
    return this.composer.update();
  }

  focusRequest() {
    const card = this.requests.querySelector(".request");
    if (!card) return false;
    card.focus();
    card.scrollIntoView({ block: "nearest" });
    return true;
  }

  #live() {
    const { live, detail } = this.room.ledger;
    const speaking = live.filter((words) => words.text.trim());
    const waits = detail?.status === "running" && speaking.length === 0;
    show(
      this.live,
      speaking.map((words) =>
        el(
          "article",
          {
            class: `row row-reply live-words ${this.room.palette.of(words.agent)}`,
            "aria-busy": "true",
            "aria-label": `${words.agent} is speaking`,
          },
          el("div", { class: "who" }, agentTag(this.room.palette, words.agent)),
          this.#drawn(words),
        ),
      ),
      waits &&
        el(
          "p",
          { class: "working" },
          el("span", { class: "beat", "aria-hidden": "true" }),
          `${this.room.story.active || detail.agent} is at work`,
        ),
    );
  }

  #drawn(words) {
    if (!this.spoken.has(words)) this.spoken.set(words, new GrowingProse());
    const drawn = this.spoken.get(words);
    drawn.show(words.text);
    return drawn.element;
  }

  /** One card per request; one that somebody is answering stays as it is. */
  #requests() {
    const pending = this.room.ledger.detail?.pending ?? [];
    const now = new Set(pending.map((request) => `${request.id} ${request.digest}`));
    for (const [name, card] of this.cards) {
      if (now.has(name)) continue;
      const focused = card.contains(document.activeElement);
      card.remove();
      if (focused && !this.focusRequest()) this.rows.list.element.focus({ preventScroll: true });
      this.cards.delete(name);
    }
    for (const request of pending) {
      const name = `${request.id} ${request.digest}`;
      if (this.cards.has(name)) continue;
      const card = requestCard(request, {
        session: this.room.id,
        palette: this.room.palette,
        onAnswered: () => this.room.ledger.refresh(),
      });
      this.cards.set(name, card);
      this.requests.append(card);
    }
  }
}
