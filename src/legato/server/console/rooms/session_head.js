/** What stands above a session's views. May know: one session. Decides: what is told of it at a glance, and what is in its menu. */

import { el, show } from "../parts/dom.js";
import { ago, count, counted, moment } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { tellFailure } from "../parts/notices.js";
import { agentTag, saved, statusPill } from "../parts/pieces.js";
import { to } from "../parts/routes.js";

export class SessionHead {
  constructor(room) {
    this.room = room;
    this.heading = el("h1", { tabindex: "-1" }, el("bdi", null, room.id));
    this.state = el("div", { class: "session-state" });
    this.figures = el("p", { class: "figures soft" });
    const replay = { class: "button small replay-link", href: to("sessions", room.id, "replay"), title: "Replay (r)" };
    const fork = { class: "small", type: "button", title: "Fork from where it is now", onclick: () => room.fork() };
    this.element = el(
      "header",
      { class: "session-head" },
      el("a", { class: "plain back", href: to("sessions"), "aria-label": "Back to the sessions" }, icon("back")),
      el("div", { class: "session-title" }, el("div", { class: "title-line" }, this.heading, this.state), this.figures),
      el(
        "div",
        { class: "session-actions" },
        el("a", replay, icon("play"), "Replay"),
        el("button", fork, icon("fork"), "Fork"),
        this.#menu(),
      ),
    );
  }

  update() {
    const { then, story, palette, ledger } = this.room;
    const now = then ?? ledger.detail;
    const agent = then ? then.agent : story.active || now?.agent;
    show(
      this.state,
      now?.status && statusPill(now.status),
      agent && palette && agentTag(palette, agent),
      then && el("span", { class: "chip" }, "then"),
    );
    if (ledger.detail) this.#figures(ledger.detail, ledger.facts.length);
  }

  #figures({ workflow, opened, origin, within, losses }, length) {
    show(
      this.figures,
      `${workflow} · ${counted(length, "fact")}`,
      el("span", { title: moment(opened) }, ` · begun ${begun(opened)}`),
      origin && [
        origin.kind === "copy" ? " · copied from " : " · forked from ",
        link(origin.session, origin.at - 1),
        ` at ${count(origin.at)}`,
      ],
      within && [" · works for ", link(within)],
      losses?.length > 0 && el("span", { class: "warn-ink", title: losses.join("\n") }, ` · ${counted(losses.length, "loss", "losses")}`),
    );
  }

  #menu() {
    const { room } = this;
    const where = `${room.ledger.where}/export?as=`;
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
      el("summary", { class: "button small", "aria-label": "More", title: "More" }, icon("more")),
      el(
        "div",
        { class: "menu-items" },
        item("Export as JSON", () => saved(`${where}json`, `${room.id}.json`).catch(tellFailure)),
        item("Export as Markdown", () => saved(`${where}markdown`, `${room.id}.md`).catch(tellFailure)),
        item("Stop what runs", () => room.stop()),
        item("Delete…", () => room.delete(), "bad-ink"),
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

function link(session, at) {
  return el("a", { href: at === undefined ? to("sessions", session) : to("sessions", session, { at: Math.max(0, at) }) }, session);
}

function begun(at) {
  const told = ago(at);
  return told === "now" ? "just now" : /min|d$/.test(told) ? `${told} ago` : told;
}
