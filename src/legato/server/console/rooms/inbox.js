/** All that waits for a person, in all sessions. May know: the API's inbox. Decides: the order, and that a form somebody fills in stays. */

import { ask } from "../parts/api.js";
import { el, focused, show } from "../parts/dom.js";
import { bind } from "../parts/keys.js";
import { announce, failure } from "../parts/notices.js";
import { requestCard } from "./request.js";

const EVERY = 5000;

/** How much waits; looked at while somebody sees the page, and shown at the top of it. */
export class InboxCount {
  constructor(badge) {
    this.badge = badge;
    this.listeners = new Set();
    this.found = null;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.look();
    });
  }

  async look() {
    clearTimeout(this.timer);
    try {
      const before = this.found?.requests.length;
      this.found = await ask("api/inbox?limit=50", { exact: true });
      this.failed = null;
      if (before !== undefined && this.found.requests.length > before) announce("A new question is in the inbox");
    } catch (error) {
      if (error.status === undefined) throw error;
      this.failed = error;
    }
    const waiting = this.found?.requests.length ?? 0;
    this.badge.hidden = waiting === 0;
    this.badge.textContent = `${waiting}${this.found?.next ? "+" : ""}`;
    this.badge.setAttribute("aria-label", `${waiting} to answer`);
    for (const tell of this.listeners) tell();
    if (!document.hidden) this.timer = setTimeout(() => this.look(), EVERY);
  }
}

export class InboxRoom {
  constructor(page) {
    this.page = page;
    this.title = "Inbox";
    this.cards = new Map();
    this.older = [];
    this.heading = el("h1", { tabindex: "-1" }, "Inbox");
    this.note = el("p", { class: "soft", role: "status" });
    this.holder = el("div", { class: "requests" });
    this.more = el("button", { class: "more", type: "button", hidden: true, onclick: () => this.#more() }, "More");
    this.element = el("div", { class: "inbox" }, el("header", { class: "room-head" }, this.heading, this.note), this.holder, this.more);
    this.tell = () => this.#draw();
    page.inbox.listeners.add(this.tell);
    this.unbind = [bind("j", () => this.#move(1)), bind("k", () => this.#move(-1))];
    page.inbox.look();
    this.#draw();
  }

  close() {
    this.page.inbox.listeners.delete(this.tell);
    this.unbind.forEach((one) => one());
  }

  arrive() {}

  async #more() {
    const found = await ask(`api/inbox?limit=50&after=${encodeURIComponent(this.next)}`, { exact: true });
    this.older.push(...found.requests);
    this.next = found.next;
    this.#draw(true);
  }

  #draw(paged = false) {
    const { found, failed } = this.page.inbox;
    if (!found) return show(this.holder, failed && failure(failed, () => this.page.inbox.look()));
    if (!paged && !this.older.length) this.next = found.next;
    const requests = [...found.requests, ...this.older.filter((old) => !found.requests.some((each) => each.id === old.id))];
    const now = new Set();
    for (const request of requests) {
      const name = `${request.in} ${request.id} ${request.digest}`;
      now.add(name);
      if (this.cards.has(name)) continue;
      const card = requestCard(request, {
        session: request.in,
        palette: this.page.palette(request.workflow),
        titled: true,
        onAnswered: () => this.#answered(request),
      });
      this.cards.set(name, card);
      this.holder.append(card);
    }
    for (const [name, card] of this.cards) {
      if (now.has(name)) continue;
      const next = card.contains(document.activeElement) ? (card.nextElementSibling ?? card.previousElementSibling ?? this.heading) : null;
      card.remove();
      next?.focus({ preventScroll: true });
      this.cards.delete(name);
    }
    this.more.hidden = !this.next;
    this.note.textContent = requests.length
      ? `${requests.length}${this.next ? "+" : ""} to answer, in all conversations`
      : "Nothing waits for an answer.";
    return undefined;
  }

  #answered(request) {
    this.older = this.older.filter((old) => old.id !== request.id);
    this.page.inbox.look();
    this.page.shelf.look();
  }

  #move(by) {
    const cards = [...this.holder.querySelectorAll(".request")];
    const now = cards.indexOf(focused()?.closest(".request"));
    cards[Math.max(0, Math.min(cards.length - 1, now < 0 ? 0 : now + by))]?.focus();
  }
}
