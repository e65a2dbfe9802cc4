/** One session: its head, its views, and what can be done with the whole of it. May know: everything about one session. Decides: which view is shown. */

import { Ledger } from "../model/ledger.js";
import { Story, wordsOf } from "../model/story.js";
import { ask } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { ago, count, counted, moment } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { bind } from "../parts/keys.js";
import { announce, confirmed, failure, notice, tellFailure } from "../parts/notices.js";
import { agentTag, saved, statusPill, tabs } from "../parts/pieces.js";
import { go, to } from "../parts/routes.js";
import { GraphView } from "./graph.js";
import { Replay } from "./replay.js";
import { Seen } from "./seen.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";
import { UsageView } from "./usage.js";

const VIEWS = [["transcript", "Transcript"], ["graph", "Graph"], ["timeline", "Timeline"], ["seen", "Seen"], ["usage", "Usage"]];
const LINES = { lost: "Reconnecting…", gone: "This conversation is no longer there.", connecting: "Connecting…", open: "" };

export class SessionRoom {
  constructor(page, id) {
    this.page = page;
    this.id = id;
    this.title = id;
    this.views = {};
    this.shown = "";
    this.ready = false;
    this.ledger = new Ledger(id, (what) => this.#changed(what));
    this.story = new Story();
    this.head = el("header", { class: "session-head" });
    this.heading = el("h1", { tabindex: "-1" }, el("bdi", null, id));
    this.state = el("div", { class: "session-state" });
    this.then = null; // what a replay is at
    this.line = el("p", { class: "line-state", role: "status", hidden: true });
    this.nav = el("div", { class: "session-nav" });
    this.body = el("div", { class: "session-body" });
    this.side = el("aside", { class: "session-side", "aria-label": "Handoff graph" });
    this.element = el("div", { class: "session" }, this.head, this.line, this.nav, el("div", { class: "session-main" }, this.body, this.side));
    show(this.body, el("p", { class: "loading" }, "Reading the ledger…"));
    this.#drawHead();
    this.unbind = this.#keys();
    this.opened = this.#open();
  }

  close() {
    this.ledger.close();
    this.unbind.forEach((one) => one());
    for (const view of Object.values(this.views)) view.close?.();
  }

  async #open() {
    await this.ledger.open();
    const { detail, failure: failed } = this.ledger;
    if (failed || !detail) {
      show(this.body, failure(failed, () => this.page.reload()));
      return;
    }
    this.workflow = this.page.workflow(detail.workflow);
    this.palette = this.page.palette(detail.workflow);
    this.handoffTools = new Set((this.workflow?.handoffs ?? []).map((edge) => edge.tool));
    this.story = Story.of(this.ledger.facts, this.ledger.facts.length, this.handoffTools);
    for (const agent of this.story.agents) this.palette.of(agent);
    this.graph = new GraphView(this.workflow, this.palette);
    this.graph.update(this.story);
    this.ready = true;
    this.#drawHead();
    if (this.place) this.arrive(this.place);
  }

  /** Be at a place within the session. */
  arrive(place) {
    this.place = place;
    const wanted = place.steps[2] ?? "transcript";
    const view = VIEWS.some(([name]) => name === wanted) || wanted === "replay" ? wanted : "transcript";
    if (!this.ready) return;
    if (view !== this.shown) {
      this.views[this.shown]?.leave?.();
      this.shown = view;
      this.views[view] ??= this.#made(view);
      this.element.dataset.view = view;
      show(this.body, this.views[view].element);
      if (view !== "graph") show(this.side, this.graph.element);
      this.views[view].update?.("all");
    }
    this.#drawNav();
    this.views[view].arrive?.(place);
  }

  #made(view) {
    if (view === "graph") return { element: el("section", { class: "view view-graph", "aria-label": "Handoff graph" }), update: () => show(this.views.graph.element, this.graph.element) };
    return new { transcript: Transcript, timeline: Timeline, seen: Seen, usage: UsageView, replay: Replay }[view](this);
  }

  isShown(view) {
    return this.views[this.shown] === view;
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  #changed(what) {
    if (!this.ready) {
      if (what === "facts" && this.ledger.length > this.ledger.facts.length) show(this.body, el("p", { class: "loading", role: "status" }, `Reading the ledger: ${count(this.ledger.facts.length)} of ${counted(this.ledger.length, "fact")}`));
      return;
    }
    if (what === "reset") this.story = new Story(this.handoffTools);
    if (what === "facts") this.#grow();
    if (what === "line") this.#drawLine();
    if (what === "detail") this.#drawHead();
    this.views[this.shown]?.update?.(what);
  }

  #grow() {
    const before = this.story.length;
    while (this.story.length < this.ledger.facts.length) this.story.add(this.ledger.facts[this.story.length]);
    for (const fact of this.ledger.facts.slice(Math.max(before, this.story.length - 8))) this.#announce(fact);
    if (this.shown !== "replay") this.graph.update(this.story);
    this.#drawFigures();
  }

  /** New words, for those who hear the page. */
  #announce(fact) {
    if (fact.fact === "answered") {
      const words = fact.items.filter((item) => item.item === "words" || item.item === "refusal").map((item) => item.text).join(" ");
      if (words) announce(`${fact.agent}: ${words}`);
    } else if (fact.fact === "said" && fact.author) announce(`${fact.author}: ${wordsOf(fact.content)}`);
    else if (fact.fact === "handed_off") announce(`${fact.source} handed over to ${fact.target}`);
    else if (fact.fact === "attempted" && fact.final) announce(`The model of ${fact.agent} failed`);
  }

  /** The story of the first facts: the live one, if that is all of them. */
  storyOf(length) {
    return length >= this.story.length ? this.story : Story.of(this.ledger.facts, length, this.handoffTools);
  }

  /** Show the graph and the status as of another story; null: as of now. */
  asOf(story, then = null) {
    this.graph.update(story ?? this.story);
    this.then = story ? { status: then?.status ?? "", agent: then?.agent || story.active } : null;
    this.#drawState();
  }

  // -- the head ------------------------------------------------------------------------------------------------------

  #drawHead() {
    const { detail } = this.ledger;
    if (detail) this.#askedFor(detail.pending.length);
    this.figures ??= el("p", { class: "figures soft" });
    if (!this.headDrawn) {
      this.headDrawn = true;
      show(this.head,
        el("a", { class: "plain back", href: to("sessions"), "aria-label": "Back to the sessions" }, icon("back")),
        el("div", { class: "session-title" }, el("div", { class: "title-line" }, this.heading, this.state), this.figures),
        el("div", { class: "session-actions" },
          el("a", { class: "button small replay-link", href: to("sessions", this.id, "replay"), title: "Replay (r)" }, icon("play"), "Replay"),
          el("button", { class: "small", type: "button", title: "Fork from here", onclick: () => this.fork() }, icon("fork"), "Fork"),
          this.#menu()));
    }
    this.#drawState();
    this.#drawFigures();
  }

  #drawState() {
    const now = this.then ?? this.ledger.detail;
    show(this.state, now && [now.status && statusPill(now.status), now.agent && this.palette && agentTag(this.palette, now.agent), this.then && el("span", { class: "chip" }, "then")]);
  }

  #drawFigures() {
    const { detail } = this.ledger;
    if (!detail) return;
    const origin = detail.origin;
    show(this.figures, detail.workflow, ` · ${counted(Math.max(this.ledger.facts.length, 0), "fact")}`, el("span", { title: moment(detail.opened) }, ` · begun ${ago(detail.opened)}`),
      origin && [" · forked from ", el("a", { href: to("sessions", origin.session, { at: Math.max(0, origin.at - 1) }) }, origin.session), ` at ${count(origin.at)}`],
      detail.losses?.length > 0 && el("span", { class: "warn-ink", title: detail.losses.join("\n") }, ` · ${counted(detail.losses.length, "loss", "losses")}`));
  }

  #askedFor(number) {
    if (this.asked !== undefined && number > this.asked) announce(`${counted(number, "question")} for you: ${this.ledger.detail.pending.at(-1).prompt}`);
    this.asked = number;
  }

  #menu() {
    const item = (words, work, tone = "") => el("button", { type: "button", class: `menu-item ${tone}`, onclick: () => { menu.open = false; work(); } }, words);
    const exported = (form) => () => saved(`${this.ledger.where}/export?as=${form}`, `${this.id}.${form === "json" ? "json" : "md"}`).catch(tellFailure);
    const menu = el("details", { class: "menu" }, el("summary", { class: "button small", "aria-label": "More", title: "More" }, icon("more")),
      el("div", { class: "menu-items" }, item("Export as JSON", exported("json")), item("Export as Markdown", exported("markdown")),
        item("Copy the id", () => navigator.clipboard?.writeText(this.id)),
        item("Stop what runs", () => this.#stop()), item("Delete…", () => this.#delete(), "bad-ink")));
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.firstElementChild.focus();
      event.stopPropagation();
    });
    menu.addEventListener("focusout", (event) => { if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false; });
    return menu;
  }

  #drawLine() {
    const told = LINES[this.ledger.line];
    this.line.hidden = !told;
    this.line.textContent = told;
    this.line.className = `line-state ${this.ledger.line}`;
  }

  #drawNav() {
    show(this.nav, tabs("Views of the session", this.shown, VIEWS.map(([name, title], index) => [name, name === "transcript" ? to("sessions", this.id) : to("sessions", this.id, name), title, `${title} (${index + 1})`])));
  }

  // -- what can be done ----------------------------------------------------------------------------------------------

  /** Branch off after so many facts (all, by default), and go there. */
  async fork(at) {
    try {
      const made = await ask(`${this.ledger.where}/fork`, { method: "POST", body: at === undefined ? {} : { at } });
      notice(`Forked from ${this.id}${at === undefined ? "" : ` after ${counted(at, "fact")}`}. This is the new conversation.`);
      this.page.shelf.look();
      go("sessions", made.id);
    } catch (error) {
      tellFailure(error);
    }
  }

  async #stop() {
    try {
      await ask(`${this.ledger.where}/cancel`, { method: "POST", body: {} });
    } catch (error) {
      tellFailure(error);
    }
    await this.ledger.refresh();
  }

  async #delete() {
    if (!await confirmed(`Delete “${this.id}”?`, `All ${counted(this.ledger.facts.length, "fact")} of it are erased for good. Forks of it stay.`, "Delete")) return;
    try {
      await ask(this.ledger.where, { method: "DELETE" });
    } catch (error) {
      tellFailure(error);
      return;
    }
    this.ledger.close();
    this.page.shelf.forget(this.id);
    notice(`${this.id} was deleted.`);
    go("sessions");
  }

  #keys() {
    const rows = () => (this.shown === "replay" ? this.views.replay.rows : this.shown === "transcript" ? this.views.transcript.rows : null);
    const view = (name) => () => go("sessions", this.id, ...(name === "transcript" ? [] : [name]));
    const replay = (work) => () => (this.shown === "replay" ? work(this.views.replay) : false);
    return [
      ...VIEWS.map(([name], index) => bind(String(index + 1), view(name))),
      bind("r", view("replay")),
      bind("c", () => { view("transcript")(); setTimeout(() => this.views.transcript?.composer.focus(), 0); }),
      bind("p", () => { view("transcript")(); setTimeout(() => this.views.transcript?.focusRequest(), 0); }),
      bind("x", () => { this.#stop(); }),
      bind("j", () => rows()?.move(1) ?? Boolean(rows())),
      bind("k", () => rows()?.move(-1) ?? Boolean(rows())),
      bind("f", () => { const at = rows()?.focused; if (at) this.fork(at.position + 1); else this.fork(); }),
      bind("v", () => { const at = rows()?.focused; go("sessions", this.id, "seen", ...(at && at.reply >= 0 ? [at.reply] : [])); }),
      bind("ArrowLeft", replay((each) => each.step(-1))),
      bind("ArrowRight", replay((each) => each.step(1))),
      bind(" ", (event) => (event.target.closest?.("button, a, summary") ? false : replay((each) => each.toggle())())),
    ];
  }
}
