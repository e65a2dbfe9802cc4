/** The page of one session, with its views: transcript, graph, timeline, model input, usage and replay. */

import { announce, confirmDialog, errorPanel, showError, showNotice } from "../components/notices.js";
import { tabs } from "../components/widgets.js";
import { requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/format.js";
import { navigate, parseRoute, routeTo } from "../lib/routes.js";
import { bindKey } from "../lib/shortcuts.js";
import { Conversation, toText } from "../model/conversation.js";
import { Ledger } from "../model/ledger.js";
import { GraphView } from "./graph_view.js";
import { ModelInput } from "./model_input.js";
import { Replay } from "./replay.js";
import { SessionHeader } from "./session_header.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";
import { UsageView } from "./usage.js";

const VIEWS = [
  ["transcript", "Transcript"],
  ["graph", "Graph"],
  ["timeline", "Timeline"],
  ["seen", "Model input"],
  ["usage", "Usage"],
];
const CONNECTION_LABELS = { lost: "Reconnecting…", gone: "This session was deleted.", connecting: "Connecting…", open: "" };

export class SessionPage {
  constructor(app, id) {
    this.app = app;
    this.id = id;
    this.title = id;
    this.views = {};
    this.shownView = "";
    this.ready = false;
    this.ledger = new Ledger(id, (what) => this.#onLedgerChange(what));
    this.conversation = new Conversation();
    this.graph = /** @type {any} */ (null); // a GraphView, once the ledger has been read
    this.replayState = /** @type {{ status: string, agent: string } | null} */ (null); // the status and the agent at the replayed position
    this.header = new SessionHeader(this);
    this.heading = this.header.heading;
    this.connectionLine = el("p", { class: "connection-state", role: "status", hidden: true });
    this.nav = el("div", { class: "session-nav" });
    this.body = el("div", { class: "session-body" });
    this.side = el("aside", { class: "session-side", "aria-label": "Handoff graph" });
    this.element = el(
      "div",
      { class: "session" },
      this.header.element,
      this.connectionLine,
      this.nav,
      el("div", { class: "session-main" }, this.body, this.side),
    );
    setChildren(this.body, el("p", { class: "loading" }, "Reading the ledger…"));
    this.unbind = /** @type {(() => void)[]} */ (this.#bindKeys());
    const refresh = () => this.ready && this.ledger.connection !== "gone" && this.ledger.refresh();
    addEventListener("focus", refresh);
    this.unbind.push(() => removeEventListener("focus", refresh));
    this.opening = this.#open();
  }

  close() {
    this.ledger.close();
    this.unbind.forEach((unbind) => unbind());
    for (const view of Object.values(this.views)) view.close?.();
  }

  async #open() {
    await this.ledger.open();
    const { detail, failure } = this.ledger;
    if (failure || !detail) {
      setChildren(
        this.body,
        errorPanel(failure, () => this.app.reload()),
      );
      return;
    }
    this.workflow = this.app.workflow(detail.workflow);
    this.palette = this.app.palette(detail.workflow);
    this.handoffTools = new Set((this.workflow?.handoffs ?? []).map((edge) => edge.tool));
    this.conversation = Conversation.fromFacts(this.ledger.facts, this.ledger.facts.length, this.handoffTools);
    for (const agent of this.conversation.agents) this.palette.classOf(agent);
    this.graph = new GraphView(this.workflow, this.palette);
    this.graph.update(this.conversation);
    this.ready = true;
    this.header.update();
    if (this.route) this.showRoute(this.route);
  }

  /** Show the view of a route within the session. */
  showRoute(route) {
    this.route = route;
    const requested = route.steps[2] ?? "transcript";
    const view = VIEWS.some(([name]) => name === requested) || requested === "replay" ? requested : "transcript";
    if (!this.ready) return;
    if (view !== this.shownView) {
      this.views[this.shownView]?.leave?.();
      this.shownView = view;
      this.views[view] ??= this.#createView(view);
      this.element.dataset.view = view;
      setChildren(this.body, this.views[view].element);
      if (view !== "graph") setChildren(this.side, this.graph.element);
      this.views[view].update?.("all");
    }
    this.#drawNav();
    this.views[view].showRoute?.(route);
  }

  #createView(view) {
    if (view === "graph")
      return {
        element: el("section", { class: "view view-graph", "aria-label": "Handoff graph" }),
        update: () => setChildren(this.views.graph.element, this.graph.element),
      };
    return new { transcript: Transcript, timeline: Timeline, seen: ModelInput, usage: UsageView, replay: Replay }[view](this);
  }

  isShown(view) {
    return this.views[this.shownView] === view;
  }

  // -- changes of the ledger -----------------------------------------------------------------------------------------

  #onLedgerChange(what) {
    if (!this.ready) {
      if (what === "facts" && this.ledger.length > this.ledger.facts.length)
        setChildren(
          this.body,
          el(
            "p",
            { class: "loading", role: "status" },
            `Reading the ledger: ${formatNumber(this.ledger.facts.length)} of ${pluralize(this.ledger.length, "fact")}`,
          ),
        );
      return;
    }
    if (what === "reset") this.conversation = new Conversation(this.handoffTools);
    if (what === "facts") this.#addFacts();
    if (what === "connection") this.#drawConnection();
    if (what === "detail") this.#onDetail();
    this.views[this.shownView]?.update?.(what);
  }

  #addFacts() {
    const before = this.conversation.length;
    while (this.conversation.length < this.ledger.facts.length) this.conversation.add(this.ledger.facts[this.conversation.length]);
    for (const fact of this.ledger.facts.slice(Math.max(before, this.conversation.length - 8))) this.#announce(fact);
    if (this.shownView !== "replay") this.graph.update(this.conversation);
    this.header.update();
  }

  /** Announce a new fact to screen readers. */
  #announce(fact) {
    if (fact.fact === "model_replied") {
      const text = fact.items
        .filter((item) => item.item === "words" || item.item === "refusal")
        .map((item) => item.text)
        .join(" ");
      if (text) announce(`${fact.agent}: ${text}`);
    } else if (fact.fact === "message_received" && fact.author) announce(`${fact.author}: ${toText(fact.content)}`);
    else if (fact.fact === "handed_off") announce(`${fact.source} handed over to ${fact.target}`);
    else if (fact.fact === "model_request_failed" && fact.final) announce(`The model of ${fact.agent} failed`);
  }

  /** Return the conversation after a number of facts; the current one if these are all facts. */
  conversationAt(length) {
    return length >= this.conversation.length ? this.conversation : Conversation.fromFacts(this.ledger.facts, length, this.handoffTools);
  }

  /** Show the graph and the status of a replayed conversation; null shows the current ones.
   * @param {Conversation | null} conversation
   * @param {{ status: string, agent: string } | null} past */
  showReplayState(conversation, past = null) {
    this.graph.update(conversation ?? this.conversation);
    this.replayState = conversation ? { status: past?.status ?? "", agent: past?.agent || conversation.activeAgent } : null;
    this.header.update();
  }

  // -- header and navigation -----------------------------------------------------------------------------------------

  #onDetail() {
    const { detail } = this.ledger;
    if (!detail) return;
    if (this.pendingCount !== undefined && detail.pending.length > this.pendingCount)
      announce(`${pluralize(detail.pending.length, "pending request")}: ${detail.pending.at(-1).prompt}`);
    this.pendingCount = detail.pending.length;
    if (this.lastStatus !== undefined && this.lastStatus !== detail.status) this.app.sessionList.poll();
    this.lastStatus = detail.status;
    this.header.update();
  }

  #drawConnection() {
    const label = CONNECTION_LABELS[this.ledger.connection];
    this.connectionLine.hidden = !label;
    this.connectionLine.textContent = label;
    this.connectionLine.className = `connection-state ${this.ledger.connection}`;
  }

  #drawNav() {
    setChildren(
      this.nav,
      tabs(
        "Views of the session",
        this.shownView,
        VIEWS.map(([name, title], index) => [
          name,
          name === "transcript" ? routeTo("sessions", this.id) : routeTo("sessions", this.id, name),
          title,
          `${title} (${index + 1})`,
        ]),
      ),
    );
  }

  // -- actions -------------------------------------------------------------------------------------------------------

  /** Fork after a number of facts (all by default), and go to the fork. */
  async fork(at) {
    try {
      const fork = await requestJson(`${this.ledger.url}/fork`, { method: "POST", body: at === undefined ? {} : { at } });
      showNotice(`Forked from ${this.id}${at === undefined ? "" : ` after ${pluralize(at, "fact")}`}. This is the new session.`);
      this.app.sessionList.poll();
      navigate("sessions", fork.id);
    } catch (error) {
      showError(error);
    }
  }

  /** Cancel the work in progress. */
  async stop() {
    try {
      await requestJson(`${this.ledger.url}/cancel`, { method: "POST", body: {} });
    } catch (error) {
      showError(error);
    }
    await this.ledger.refresh();
  }

  /** Delete the session after a confirmation. */
  async delete() {
    const detail = `All ${pluralize(this.ledger.facts.length, "fact")} are deleted and cannot be restored. Forks stay.`;
    if (!(await confirmDialog(`Delete “${this.id}”?`, detail, "Delete"))) return;
    try {
      await requestJson(this.ledger.url, { method: "DELETE" });
    } catch (error) {
      showError(error);
      return;
    }
    this.ledger.close();
    this.app.sessionList.removeSession(this.id);
    showNotice(`${this.id} was deleted.`);
    navigate("sessions");
  }

  /** Switch to a view at once, so that it gets the next keys. */
  #switchView(view) {
    if (view === this.shownView) return;
    history.pushState(null, "", view === "transcript" ? routeTo("sessions", this.id) : routeTo("sessions", this.id, view));
    this.showRoute(parseRoute());
  }

  #bindKeys() {
    const rows = () =>
      this.shownView === "replay" ? this.views.replay.rows : this.shownView === "transcript" ? this.views.transcript.rows : null;
    const view = (name) => () => this.#switchView(name);
    const replay = (action) => () => (this.shownView === "replay" ? action(this.views.replay) : false);
    return [
      ...VIEWS.map(([name], index) => bindKey(String(index + 1), view(name))),
      bindKey("r", view("replay")),
      bindKey("c", () => {
        view("transcript")();
        this.views.transcript?.composer.focus();
      }),
      bindKey("p", () => {
        view("transcript")();
        this.views.transcript?.focusRequest();
      }),
      bindKey("j", () => rows()?.moveFocus(1) ?? Boolean(rows())),
      bindKey("k", () => rows()?.moveFocus(-1) ?? Boolean(rows())),
      bindKey("f", () => {
        const row = rows()?.focusedRow;
        if (row) this.fork(row.position + 1);
      }),
      bindKey("v", () => {
        const row = rows()?.focusedRow;
        navigate("sessions", this.id, "seen", ...(row && row.reply >= 0 ? [row.reply] : []));
      }),
      bindKey(
        "ArrowLeft",
        replay((view) => view.step(-1)),
      ),
      bindKey(
        "ArrowRight",
        replay((view) => view.step(1)),
      ),
      bindKey(" ", (event) => (event.target.closest?.("button, a, summary") ? false : replay((view) => view.toggle())())),
    ];
  }
}
