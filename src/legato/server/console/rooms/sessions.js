/** The list of sessions. May know: the API's rows. Decides: when it looks again, and which rows it shows. */

import { Refused, ask } from "../parts/api.js";
import { el, focused, settled, show } from "../parts/dom.js";
import { ago, brief, count } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { STATUSES, statusPill } from "../parts/pieces.js";
import { to } from "../parts/routes.js";

const EVERY = 4000;
const PAGE = 50;

export class Shelf {
  constructor(page, element) {
    this.page = page;
    this.rows = [];
    this.next = "";
    this.drawn = new Map(); // id -> { element, row as text }
    this.current = "";
    this.search = el("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search ids and words",
      autocomplete: "off",
      title: "Search ids and words (/)",
    });
    this.search.addEventListener(
      "input",
      settled(() => this.look(true), 250),
    );
    this.status = el(
      "select",
      { "aria-label": "Status" },
      el("option", { value: "" }, "any status"),
      Object.keys(STATUSES).map((status) => el("option", { value: status }, status)),
    );
    this.status.addEventListener("change", () => this.look(true));
    this.list = el("ul", { class: "sessions" });
    this.note = el("p", { class: "soft shelf-note", role: "status" });
    this.more = el("button", { class: "more", type: "button", hidden: true, onclick: () => this.#more() }, "Older ones");
    this.scroller = el("div", { class: "shelf-scroll" }, this.list, this.note, this.more);
    show(
      element,
      el(
        "div",
        { class: "shelf-tools" },
        el(
          "div",
          { class: "shelf-line" },
          el("h2", null, "Sessions"),
          el("a", { class: "button small", href: to("begin"), title: "A new conversation (n)" }, icon("plus"), "New"),
        ),
        el("div", { class: "shelf-line" }, this.search, this.status),
      ),
      this.scroller,
    );
    this.list.addEventListener("keydown", (event) => this.#key(event));
    new IntersectionObserver(
      (seen) => {
        if (seen.some((each) => each.isIntersecting)) this.#more();
      },
      { root: this.scroller, rootMargin: "300px" },
    ).observe(this.more);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.look();
    });
    addEventListener("focus", () => this.look());
  }

  /** Look now, and from then on every few seconds while somebody sees the page. */
  async look(anew = false) {
    clearTimeout(this.timer);
    const asked = (this.asked = (this.asked ?? 0) + 1);
    if (anew) this.scroller.scrollTop = 0;
    try {
      const found = await ask(this.#where(""));
      if (asked !== this.asked) return;
      this.#take(found, anew);
      this.note.textContent = this.rows.length
        ? ""
        : this.next
          ? "Looking further…"
          : this.search.value || this.status.value
            ? "Nothing found."
            : "No conversations yet.";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (asked === this.asked && !this.rows.length) this.note.textContent = error.message;
    }
    if (!document.hidden && asked === this.asked) this.timer = setTimeout(() => this.look(), EVERY);
  }

  mark(id) {
    this.current = id;
    for (const [each, { link }] of this.drawn) {
      if (each === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  forget(id) {
    this.rows = this.rows.filter((row) => row.id !== id);
    this.#draw();
    this.look();
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  move(by) {
    const links = [...this.list.querySelectorAll("a")];
    const now = links.indexOf(focused()?.closest("a"));
    const next =
      now < 0
        ? Math.max(
            0,
            links.findIndex((link) => link.hasAttribute("aria-current")),
          )
        : now + by;
    links[Math.max(0, Math.min(links.length - 1, next))]?.focus();
  }

  #where(after) {
    const query = new URLSearchParams({ limit: String(PAGE) });
    if (this.search.value.trim()) query.set("search", this.search.value.trim());
    if (this.status.value) query.set("status", this.status.value);
    if (after) query.set("after", after);
    return `api/sessions?${query}`;
  }

  /** The newest page in place of what was at the top; older rows stay below it. */
  #take({ sessions, next }, anew) {
    const oldest = sessions.at(-1)?.updated ?? 0;
    const ids = new Set(sessions.map((row) => row.id));
    const below = anew || !next ? [] : this.rows.filter((row) => !ids.has(row.id) && row.updated <= oldest);
    if (!below.length) this.next = next;
    this.rows = [...sessions, ...below];
    this.#draw();
  }

  async #more() {
    if (!this.next || this.loading) return;
    this.loading = true;
    try {
      const found = await ask(this.#where(this.next));
      this.rows.push(...found.sessions.filter((row) => !this.rows.some((each) => each.id === row.id)));
      this.next = found.next;
      this.#draw();
    } catch {
      /* it is tried again when the end of the list is seen again */
    } finally {
      this.loading = false;
    }
  }

  #draw() {
    this.more.hidden = !this.next;
    const now = new Map();
    let place = this.list.firstElementChild;
    for (const row of this.rows) {
      const text = JSON.stringify(row) + ago(row.updated);
      let one = this.drawn.get(row.id);
      if (!one || one.text !== text) {
        const link = one?.link ?? el("a", { href: to("sessions", row.id) });
        this.#fill(link, row);
        one = { element: one?.element ?? el("li", null, link), link, text };
        if (row.id === this.current) link.setAttribute("aria-current", "page");
      }
      now.set(row.id, one);
      if (one.element === place) place = place.nextElementSibling;
      else this.list.insertBefore(one.element, place);
    }
    for (const [id, { element }] of this.drawn) if (!now.has(id)) element.remove();
    this.drawn = now;
  }

  #fill(link, row) {
    link.className = `session-row${row.damaged ? " damaged" : ""}`;
    show(
      link,
      el(
        "span",
        { class: "session-row-top" },
        el("b", null, el("bdi", null, row.id)),
        el("time", { class: "soft", datetime: new Date(row.updated).toISOString() }, ago(row.updated)),
      ),
      el(
        "span",
        { class: "session-row-last" },
        row.damaged ||
          (row.last?.text
            ? [el("span", { class: "soft" }, `${row.last.author || "user"}: `), brief(row.last.text, 90)]
            : el("span", { class: "soft" }, "nothing was said")),
      ),
      el(
        "span",
        { class: "session-row-foot" },
        statusPill(row.status),
        row.pending > 0 && el("span", { class: "badge" }, `${count(row.pending)} to answer`),
        el("span", { class: "soft small-print" }, `${row.workflow} · ${count(row.facts)}`),
        row.within && el("span", { class: "soft small-print" }, `· works for ${row.within}`),
        !row.served && el("span", { class: "soft small-print" }, "· not served here"),
      ),
    );
  }

  #key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    this.move(by);
  }
}
