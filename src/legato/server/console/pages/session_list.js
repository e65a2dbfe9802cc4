/** The list of sessions, which is polled while the page is visible. */

import { createIcon } from "../components/icons.js";
import { STATUS_HINTS, statusPill } from "../components/widgets.js";
import { ApiError, requestJson } from "../lib/api.js";
import { debounce, el, focusedElement, setChildren } from "../lib/dom.js";
import { formatAge, formatNumber, pluralize, shorten } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";

const POLL_INTERVAL_MS = 4000;
const SESSIONS_PER_PAGE = 50;

export class SessionList {
  constructor(app, element) {
    this.app = app;
    this.rows = [];
    this.next = "";
    this.renderedRows = new Map(); // id -> { element, link, text }
    this.current = "";
    this.pollCount = 0;
    this.search = el("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search ids and messages",
      autocomplete: "off",
      title: "Search ids and messages (/)",
    });
    this.search.addEventListener(
      "input",
      debounce(() => this.poll(true), 250),
    );
    this.status = el(
      "select",
      { "aria-label": "Status" },
      el("option", { value: "" }, "any status"),
      Object.keys(STATUS_HINTS).map((status) => el("option", { value: status }, status)),
    );
    this.status.addEventListener("change", () => this.poll(true));
    this.list = el("ul", { class: "sessions" });
    this.note = el("p", { class: "soft sidebar-note", role: "status" });
    this.moreButton = el("button", { class: "more", type: "button", hidden: true, onclick: () => this.#loadMore() }, "Older sessions");
    this.scroller = el("div", { class: "sidebar-scroll" }, this.list, this.note, this.moreButton);
    setChildren(
      element,
      el(
        "div",
        { class: "sidebar-tools" },
        el(
          "div",
          { class: "sidebar-line" },
          el("h2", null, "Sessions"),
          el("a", { class: "button small", href: routeTo("begin"), title: "A new conversation (n)" }, createIcon("plus"), "New"),
        ),
        el("div", { class: "sidebar-line" }, this.search, this.status),
      ),
      this.scroller,
    );
    this.list.addEventListener("keydown", (event) => this.#onKey(event));
    new IntersectionObserver(
      (entries) => {
        if (entries.some((each) => each.isIntersecting)) this.#loadMore();
      },
      { root: this.scroller, rootMargin: "300px" },
    ).observe(this.moreButton);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.poll();
    });
    addEventListener("focus", () => this.poll());
  }

  /** Load the newest sessions now, and again every few seconds while the page is visible. */
  async poll(fromStart = false) {
    clearTimeout(this.timer);
    const call = ++this.pollCount;
    if (fromStart) this.scroller.scrollTop = 0;
    try {
      const page = await requestJson(this.#pageUrl(""));
      if (call !== this.pollCount) return;
      this.#addPage(page, fromStart);
      this.note.textContent = this.rows.length
        ? ""
        : this.next
          ? "Searching further…"
          : this.search.value || this.status.value
            ? "Nothing found."
            : "There are no sessions yet.";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (call === this.pollCount && !this.rows.length) this.note.textContent = error.message;
    }
    if (!document.hidden && call === this.pollCount) this.timer = setTimeout(() => this.poll(), POLL_INTERVAL_MS);
  }

  setCurrent(id) {
    this.current = id;
    for (const [each, { link }] of this.renderedRows) {
      if (each === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  removeSession(id) {
    this.rows = this.rows.filter((row) => row.id !== id);
    this.#draw();
    this.poll();
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  moveFocus(by) {
    const links = [...this.list.querySelectorAll("a")];
    const now = links.indexOf(focusedElement()?.closest("a"));
    const next =
      now < 0
        ? Math.max(
            0,
            links.findIndex((link) => link.hasAttribute("aria-current")),
          )
        : now + by;
    links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
  }

  #pageUrl(after) {
    const query = new URLSearchParams({ limit: String(SESSIONS_PER_PAGE) });
    if (this.search.value.trim()) query.set("search", this.search.value.trim());
    if (this.status.value) query.set("status", this.status.value);
    if (after) query.set("after", after);
    return `api/sessions?${query}`;
  }

  /** Replace the newest rows by this page. Older rows stay below it. */
  #addPage({ sessions, next }, fromStart) {
    const oldest = sessions.at(-1)?.updated ?? 0;
    const ids = new Set(sessions.map((row) => row.id));
    const below = fromStart || !next ? [] : this.rows.filter((row) => !ids.has(row.id) && row.updated <= oldest);
    if (!below.length) this.next = next;
    this.rows = [...sessions, ...below];
    this.#draw();
  }

  async #loadMore() {
    if (!this.next || this.isLoading) return;
    this.isLoading = true;
    try {
      const page = await requestJson(this.#pageUrl(this.next));
      this.rows.push(...page.sessions.filter((row) => !this.rows.some((each) => each.id === row.id)));
      this.next = page.next;
      this.#draw();
    } catch {
      /* it is tried again when the end of the list is visible again */
    } finally {
      this.isLoading = false;
    }
  }

  #draw() {
    this.moreButton.hidden = !this.next;
    const now = new Map();
    let place = this.list.firstElementChild;
    for (const row of this.rows) {
      const text = JSON.stringify(row) + formatAge(row.updated);
      let entry = this.renderedRows.get(row.id);
      if (!entry || entry.text !== text) {
        const link = entry?.link ?? el("a", { href: routeTo("sessions", row.id) });
        this.#fillRow(link, row);
        entry = { element: entry?.element ?? el("li", null, link), link, text };
        if (row.id === this.current) link.setAttribute("aria-current", "page");
      }
      now.set(row.id, entry);
      if (entry.element === place) place = place.nextElementSibling;
      else this.list.insertBefore(entry.element, place);
    }
    for (const [id, { element }] of this.renderedRows) if (!now.has(id)) element.remove();
    this.renderedRows = now;
  }

  #fillRow(link, row) {
    link.className = `session-row${row.damaged ? " damaged" : ""}`;
    setChildren(
      link,
      el(
        "span",
        { class: "session-row-top" },
        el("b", null, el("bdi", null, row.id)),
        el("time", { class: "soft", datetime: new Date(row.updated).toISOString() }, formatAge(row.updated)),
      ),
      el(
        "span",
        { class: "session-row-last" },
        row.damaged ||
          (row.last?.text
            ? [el("span", { class: "soft" }, `${row.last.author || "user"}: `), shorten(row.last.text, 90)]
            : el("span", { class: "soft" }, "no messages")),
      ),
      el(
        "span",
        { class: "session-row-foot" },
        statusPill(row.status),
        row.pending > 0 && el("span", { class: "badge" }, pluralize(row.pending, "request")),
        el("span", { class: "soft small-print" }, `${row.workflow} · ${formatNumber(row.facts)}`),
        row.within && el("span", { class: "soft small-print" }, `· child session of ${row.within}`),
        !row.served && el("span", { class: "soft small-print" }, "· not served here"),
      ),
    );
  }

  #onKey(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    this.moveFocus(by);
  }
}
