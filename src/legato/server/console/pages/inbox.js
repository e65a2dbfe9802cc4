/** The inbox: the pending requests of all sessions. Cards with a half-filled form stay when the list changes. */

import { announce, errorPanel } from "../components/notices.js";
import { requestJson } from "../lib/api.js";
import { el, focusedElement, setChildren } from "../lib/dom.js";
import { pluralize } from "../lib/format.js";
import { bindKey } from "../lib/shortcuts.js";
import { requestCard } from "./request_card.js";

const POLL_INTERVAL_MS = 5000;

/** Polls the inbox while the page is visible, and shows the number of pending requests in the header. */
export class InboxPoller {
  constructor(badge) {
    this.badge = badge;
    this.listeners = new Set();
    this.result = null;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.poll();
    });
  }

  async poll() {
    clearTimeout(this.timer);
    try {
      const before = this.result?.requests.length;
      this.result = await requestJson("api/inbox?limit=50", { exact: true });
      this.error = null;
      if (before !== undefined && this.result.requests.length > before) announce("A new request is in the inbox");
    } catch (error) {
      if (error.status === undefined) throw error;
      this.error = error;
    }
    const waiting = this.result?.requests.length ?? 0;
    this.badge.hidden = waiting === 0;
    this.badge.textContent = `${waiting}${this.result?.next ? "+" : ""}`;
    this.badge.setAttribute("aria-label", pluralize(waiting, "pending request"));
    for (const listener of this.listeners) listener();
    if (!document.hidden) this.timer = setTimeout(() => this.poll(), POLL_INTERVAL_MS);
  }
}

export class InboxPage {
  constructor(app) {
    this.app = app;
    this.title = "Inbox";
    this.cards = new Map();
    this.older = [];
    this.heading = el("h1", { tabindex: "-1" }, "Inbox");
    this.note = el("p", { class: "soft", role: "status" });
    this.cardsElement = el("div", { class: "requests" });
    this.moreButton = el("button", { class: "more", type: "button", hidden: true, onclick: () => this.#loadMore() }, "More");
    this.element = el(
      "div",
      { class: "inbox" },
      el("header", { class: "page-head" }, this.heading, this.note),
      this.cardsElement,
      this.moreButton,
    );
    this.onInboxChange = () => this.#draw();
    app.inbox.listeners.add(this.onInboxChange);
    this.unbind = [bindKey("j", () => this.#moveFocus(1)), bindKey("k", () => this.#moveFocus(-1))];
    app.inbox.poll();
    this.#draw();
  }

  close() {
    this.app.inbox.listeners.delete(this.onInboxChange);
    this.unbind.forEach((unbind) => unbind());
  }

  showRoute() {}

  async #loadMore() {
    const page = await requestJson(`api/inbox?limit=50&after=${encodeURIComponent(this.next)}`, { exact: true });
    this.older.push(...page.requests);
    this.next = page.next;
    this.#draw(true);
  }

  #draw(hasNewPage = false) {
    const { result, error } = this.app.inbox;
    if (!result) return setChildren(this.cardsElement, error && errorPanel(error, () => this.app.inbox.poll()));
    if (!hasNewPage && !this.older.length) this.next = result.next;
    const requests = [...result.requests, ...this.older.filter((old) => !result.requests.some((each) => each.id === old.id))];
    const now = new Set();
    for (const request of requests) {
      const name = `${request.in} ${request.id} ${request.digest}`;
      now.add(name);
      if (this.cards.has(name)) continue;
      const card = requestCard(request, {
        session: request.in,
        palette: this.app.palette(request.workflow),
        titled: true,
        onAnswered: () => this.#onAnswered(request),
      });
      this.cards.set(name, card);
      this.cardsElement.append(card);
    }
    for (const [name, card] of this.cards) {
      if (now.has(name)) continue;
      const next = card.contains(document.activeElement) ? (card.nextElementSibling ?? card.previousElementSibling ?? this.heading) : null;
      card.remove();
      next?.focus({ preventScroll: true });
      this.cards.delete(name);
    }
    this.moreButton.hidden = !this.next;
    this.note.textContent = requests.length
      ? `${requests.length}${this.next ? "+" : ""} pending in all sessions`
      : "There are no pending requests.";
    return undefined;
  }

  #onAnswered(request) {
    this.older = this.older.filter((old) => old.id !== request.id);
    this.app.inbox.poll();
    this.app.sessionList.poll();
  }

  #moveFocus(by) {
    const cards = [...this.cardsElement.querySelectorAll(".request")];
    const now = cards.indexOf(focusedElement()?.closest(".request"));
    cards[Math.max(0, Math.min(cards.length - 1, now < 0 ? 0 : now + by))]?.focus();
  }
}
