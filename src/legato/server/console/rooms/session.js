/** One session: its views, and what can be done with the whole of it. May know: all about one session. Decides: which view is shown. */

import { Ledger } from "../model/ledger.js";
import { Story, wordsOf } from "../model/story.js";
import { ask } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { count, counted } from "../parts/format.js";
import { bind } from "../parts/keys.js";
import { announce, confirmed, failure, notice, tellFailure } from "../parts/notices.js";
import { tabs } from "../parts/pieces.js";
import { go, read, to } from "../parts/routes.js";
import { GraphView } from "./graph.js";
import { Replay } from "./replay.js";
import { Seen } from "./seen.js";
import { SessionHead } from "./session_head.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";
import { UsageView } from "./usage.js";

const VIEWS = [
  ["transcript", "Transcript"],
  ["graph", "Graph"],
  ["timeline", "Timeline"],
  ["seen", "Seen"],
  ["usage", "Usage"],
];
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
    this.graph = /** @type {any} */ (null); // a GraphView, once the ledger has been read
    this.then = /** @type {{ status: string, agent: string } | null} */ (null); // the status and the agent that a replay is at
    this.head = new SessionHead(this);
    this.heading = this.head.heading;
    this.line = el("p", { class: "line-state", role: "status", hidden: true });
    this.nav = el("div", { class: "session-nav" });
    this.body = el("div", { class: "session-body" });
    this.side = el("aside", { class: "session-side", "aria-label": "Handoff graph" });
    this.element = el(
      "div",
      { class: "session" },
      this.head.element,
      this.line,
      this.nav,
      el("div", { class: "session-main" }, this.body, this.side),
    );
    show(this.body, el("p", { class: "loading" }, "Reading the ledger…"));
    this.unbind = /** @type {(() => void)[]} */ (this.#keys());
    const looked = () => this.ready && this.ledger.line !== "gone" && this.ledger.refresh();
    addEventListener("focus", looked);
    this.unbind.push(() => removeEventListener("focus", looked));
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
      show(
        this.body,
        failure(failed, () => this.page.reload()),
      );
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
    this.head.update();
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
    if (view === "graph")
      return {
        element: el("section", { class: "view view-graph", "aria-label": "Handoff graph" }),
        update: () => show(this.views.graph.element, this.graph.element),
      };
    return new { transcript: Transcript, timeline: Timeline, seen: Seen, usage: UsageView, replay: Replay }[view](this);
  }

  isShown(view) {
    return this.views[this.shown] === view;
  }

  // -- what happens --------------------------------------------------------------------------------------------------

  #changed(what) {
    if (!this.ready) {
      if (what === "facts" && this.ledger.length > this.ledger.facts.length)
        show(
          this.body,
          el(
            "p",
            { class: "loading", role: "status" },
            `Reading the ledger: ${count(this.ledger.facts.length)} of ${counted(this.ledger.length, "fact")}`,
          ),
        );
      return;
    }
    if (what === "reset") this.story = new Story(this.handoffTools);
    if (what === "facts") this.#grow();
    if (what === "line") this.#drawLine();
    if (what === "detail") this.#detailed();
    this.views[this.shown]?.update?.(what);
  }

  #grow() {
    const before = this.story.length;
    while (this.story.length < this.ledger.facts.length) this.story.add(this.ledger.facts[this.story.length]);
    for (const fact of this.ledger.facts.slice(Math.max(before, this.story.length - 8))) this.#announce(fact);
    if (this.shown !== "replay") this.graph.update(this.story);
    this.head.update();
  }

  /** New words, for those who hear the page. */
  #announce(fact) {
    if (fact.fact === "model_replied") {
      const words = fact.items
        .filter((item) => item.item === "words" || item.item === "refusal")
        .map((item) => item.text)
        .join(" ");
      if (words) announce(`${fact.agent}: ${words}`);
    } else if (fact.fact === "message_received" && fact.author) announce(`${fact.author}: ${wordsOf(fact.content)}`);
    else if (fact.fact === "handed_off") announce(`${fact.source} handed over to ${fact.target}`);
    else if (fact.fact === "model_request_failed" && fact.final) announce(`The model of ${fact.agent} failed`);
  }

  /** The story of the first facts: the live one, if that is all of them. */
  storyOf(length) {
    return length >= this.story.length ? this.story : Story.of(this.ledger.facts, length, this.handoffTools);
  }

  /** Show the graph and the status as of another story; null: as of now.
   * @param {Story | null} story
   * @param {{ status: string, agent: string } | null} then */
  asOf(story, then = null) {
    this.graph.update(story ?? this.story);
    this.then = story ? { status: then?.status ?? "", agent: then?.agent || story.active } : null;
    this.head.update();
  }

  // -- what stands above the views -----------------------------------------------------------------------------------

  #detailed() {
    const { detail } = this.ledger;
    if (!detail) return;
    if (this.asked !== undefined && detail.pending.length > this.asked)
      announce(`${counted(detail.pending.length, "question")} for you: ${detail.pending.at(-1).prompt}`);
    this.asked = detail.pending.length;
    if (this.known !== undefined && this.known !== detail.status) this.page.shelf.look();
    this.known = detail.status;
    this.head.update();
  }

  #drawLine() {
    const told = LINES[this.ledger.line];
    this.line.hidden = !told;
    this.line.textContent = told;
    this.line.className = `line-state ${this.ledger.line}`;
  }

  #drawNav() {
    show(
      this.nav,
      tabs(
        "Views of the session",
        this.shown,
        VIEWS.map(([name, title], index) => [
          name,
          name === "transcript" ? to("sessions", this.id) : to("sessions", this.id, name),
          title,
          `${title} (${index + 1})`,
        ]),
      ),
    );
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

  /** Stop what runs. */
  async stop() {
    try {
      await ask(`${this.ledger.where}/cancel`, { method: "POST", body: {} });
    } catch (error) {
      tellFailure(error);
    }
    await this.ledger.refresh();
  }

  /** Delete it, if that is meant. */
  async delete() {
    const lost = `All ${counted(this.ledger.facts.length, "fact")} of it are erased for good. Forks of it stay.`;
    if (!(await confirmed(`Delete “${this.id}”?`, lost, "Delete"))) return;
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

  /** Turn to a view at once: what is typed next is meant for it. */
  #turnTo(view) {
    if (view === this.shown) return;
    history.pushState(null, "", view === "transcript" ? to("sessions", this.id) : to("sessions", this.id, view));
    this.arrive(read());
  }

  #keys() {
    const rows = () => (this.shown === "replay" ? this.views.replay.rows : this.shown === "transcript" ? this.views.transcript.rows : null);
    const view = (name) => () => this.#turnTo(name);
    const replay = (work) => () => (this.shown === "replay" ? work(this.views.replay) : false);
    return [
      ...VIEWS.map(([name], index) => bind(String(index + 1), view(name))),
      bind("r", view("replay")),
      bind("c", () => {
        view("transcript")();
        this.views.transcript?.composer.focus();
      }),
      bind("p", () => {
        view("transcript")();
        this.views.transcript?.focusRequest();
      }),
      bind("j", () => rows()?.move(1) ?? Boolean(rows())),
      bind("k", () => rows()?.move(-1) ?? Boolean(rows())),
      bind("f", () => {
        const at = rows()?.focused;
        if (at) this.fork(at.position + 1);
      }),
      bind("v", () => {
        const at = rows()?.focused;
        go("sessions", this.id, "seen", ...(at && at.reply >= 0 ? [at.reply] : []));
      }),
      bind(
        "ArrowLeft",
        replay((each) => each.step(-1)),
      ),
      bind(
        "ArrowRight",
        replay((each) => each.step(1)),
      ),
      bind(" ", (event) => (event.target.closest?.("button, a, summary") ? false : replay((each) => each.toggle())())),
    ];
  }
}
