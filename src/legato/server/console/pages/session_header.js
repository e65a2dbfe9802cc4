/** The header of a session: its id, status and figures, and a menu. */

import { createIcon } from "../components/icons.js";
import { showError } from "../components/notices.js";
import { agentTag, saveFile, statusPill } from "../components/widgets.js";
import { el, setChildren } from "../lib/dom.js";
import { formatAge, formatDateTime, formatNumber, pluralize } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";

export class SessionHeader {
  constructor(page) {
    this.page = page;
    this.heading = el("h1", { tabindex: "-1" }, el("bdi", null, page.id));
    this.state = el("div", { class: "session-state" });
    this.figures = el("p", { class: "figures soft" });
    const replay = { class: "button small replay-link", href: routeTo("sessions", page.id, "replay"), title: "Replay (r)" };
    const fork = { class: "small", type: "button", title: "Fork after the last fact", onclick: () => page.fork() };
    this.element = el(
      "header",
      { class: "session-header" },
      el("a", { class: "plain back", href: routeTo("sessions"), "aria-label": "Back to the sessions" }, createIcon("back")),
      el("div", { class: "session-title" }, el("div", { class: "title-line" }, this.heading, this.state), this.figures),
      el(
        "div",
        { class: "session-actions" },
        el("a", replay, createIcon("play"), "Replay"),
        el("button", fork, createIcon("fork"), "Fork"),
        this.#createMenu(),
      ),
    );
  }

  update() {
    const { replayState, conversation, palette, ledger } = this.page;
    const state = replayState ?? ledger.detail;
    const agent = replayState ? replayState.agent : conversation.activeAgent || state?.agent;
    setChildren(
      this.state,
      state?.status && statusPill(state.status),
      agent && palette && agentTag(palette, agent),
      replayState && el("span", { class: "chip" }, "at this point"),
    );
    if (ledger.detail) this.#drawFigures(ledger.detail, ledger.facts.length);
  }

  #drawFigures({ workflow, opened, origin, within, losses }, length) {
    setChildren(
      this.figures,
      `${workflow} · ${pluralize(length, "fact")}`,
      el("span", { title: formatDateTime(opened) }, ` · started ${formatStart(opened)}`),
      origin && [
        origin.kind === "copy" ? " · copied from " : " · forked from ",
        sessionLink(origin.session, origin.at - 1),
        ` at ${formatNumber(origin.at)}`,
      ],
      within && [" · child session of ", sessionLink(within)],
      losses?.length > 0 && el("span", { class: "warn-ink", title: losses.join("\n") }, ` · ${pluralize(losses.length, "loss", "losses")}`),
    );
  }

  #createMenu() {
    const { page } = this;
    const where = `${page.ledger.url}/export?as=`;
    const item = (words, work, tone = "") => {
      const chosen = () => {
        menu.open = false;
        work();
      };
      return el("button", { type: "button", class: `menu-item ${tone}`, onclick: chosen }, words);
    };
    const menu = el(
      "details",
      { class: "menu" },
      el("summary", { class: "button small", "aria-label": "More", title: "More" }, createIcon("more")),
      el(
        "div",
        { class: "menu-items" },
        item("Export as JSON", () => saveFile(`${where}json`, `${page.id}.json`).catch(showError)),
        item("Export as Markdown", () => saveFile(`${where}markdown`, `${page.id}.md`).catch(showError)),
        item("Stop the work in progress", () => page.stop()),
        item("Delete…", () => page.delete(), "bad-ink"),
      ),
    );
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.firstElementChild.focus();
      event.stopPropagation();
    });
    menu.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
    });
    return menu;
  }
}

function sessionLink(session, at) {
  return el(
    "a",
    { href: at === undefined ? routeTo("sessions", session) : routeTo("sessions", session, { at: Math.max(0, at) }) },
    session,
  );
}

function formatStart(at) {
  const age = formatAge(at);
  return age === "now" ? "just now" : /min|d$/.test(age) ? `${age} ago` : age;
}
