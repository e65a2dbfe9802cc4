/** Replay: the conversation as it was after any number of facts. Nothing runs; the facts are folded again. */

import { createIcon } from "../components/icons.js";
import { showError } from "../components/notices.js";
import { agentTag, statusPill } from "../components/widgets.js";
import { requestJson } from "../lib/api.js";
import { debounce, el, oncePerFrame, setChildren } from "../lib/dom.js";
import { formatClock, formatNumber } from "../lib/format.js";
import { replaceRoute, routeTo } from "../lib/routes.js";
import { Minimap } from "./minimap.js";
import { RowList } from "./row_list.js";

const SPEEDS = [1, 4, 16, 64];

export class Replay {
  #saveRoute;

  constructor(page) {
    this.page = page;
    this.position = page.ledger.facts.length;
    this.timeline = [];
    this.timer = 0;
    this.speed = 1;
    this.rows = new RowList(
      { session: page.id, palette: page.palette, generation: () => page.ledger.generation, onFork: (facts) => page.fork(facts) },
      null,
    );
    this.minimap = new Minimap(page, (position) => this.#moveTo(position));
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: this.position,
      value: this.position,
      step: 1,
      "aria-label": "Position in the ledger",
    });
    this.slider.addEventListener("input", () => this.#moveTo(Number(this.slider.value)));
    this.play = el("button", { type: "button", class: "playing", title: "Play (Space)", onclick: () => this.toggle() });
    this.positionLabel = el("div", { class: "replay-position", role: "status" });
    const speeds = el(
      "select",
      { "aria-label": "Speed" },
      SPEEDS.map((speed) => el("option", { value: speed }, `${speed}×`)),
    );
    speeds.addEventListener("change", () => {
      this.speed = Number(speeds.value);
    });
    const step = (by, name, title) =>
      el("button", { class: "plain", type: "button", title, "aria-label": title, onclick: () => this.step(by) }, createIcon(name));
    this.element = el(
      "section",
      { class: "view view-replay", "aria-label": "Replay" },
      this.rows.element,
      el(
        "footer",
        { class: "scrubber" },
        this.minimap.element,
        this.slider,
        el(
          "div",
          { class: "scrubber-line" },
          step(-1, "unstep", "Previous fact (←)"),
          this.play,
          step(1, "step", "Next fact (→)"),
          speeds,
          el("span", { class: "spacer" }),
          this.positionLabel,
          el("button", { class: "small", type: "button", onclick: () => this.page.fork(this.position) }, createIcon("fork"), "Fork here"),
          el("a", { class: "button small", href: routeTo("sessions", page.id) }, "Back to the present"),
        ),
      ),
    );
    this.scheduleDraw = oncePerFrame(() => this.#draw());
    // Debounced, because browsers limit how often the address may change.
    this.#saveRoute = debounce(() => replaceRoute("sessions", page.id, "replay", this.position), 300);
    this.#playButton();
    this.#loadTimeline();
  }

  close() {
    this.#stop();
    this.#saveRoute.cancel();
    this.rows.close();
    this.minimap.close();
  }

  leave() {
    this.#stop();
    this.#saveRoute.cancel();
    this.page.showReplayState(null);
  }

  showRoute(route) {
    const wanted = route.steps[3] === undefined ? this.page.ledger.facts.length : Number(route.steps[3]);
    this.position = Math.max(0, Math.min(this.page.ledger.facts.length, Number.isFinite(wanted) ? wanted : 0));
    this.update("facts");
  }

  update(what) {
    if (what !== "facts" && what !== "reset" && what !== "all") return;
    this.slider.max = this.page.ledger.facts.length;
    this.minimap.update();
    this.scheduleDraw();
  }

  step(by) {
    this.#stop();
    this.#moveTo(this.position + by);
  }

  toggle() {
    if (this.timer) return this.#stop();
    if (this.position >= this.page.ledger.facts.length) this.#moveTo(0);
    const tick = () => {
      if (this.position >= this.page.ledger.facts.length) return this.#stop();
      this.#moveTo(this.position + Math.max(1, Math.round(this.speed / 8)));
      this.timer = setTimeout(tick, Math.max(30, 480 / Math.min(16, this.speed)));
      return undefined;
    };
    this.timer = setTimeout(tick, 120);
    return this.#playButton();
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.#playButton();
  }

  #playButton() {
    setChildren(this.play, createIcon(this.timer ? "pause" : "play"), this.timer ? "Pause" : "Play");
  }

  #moveTo(to) {
    this.position = Math.max(0, Math.min(this.page.ledger.facts.length, to));
    this.scheduleDraw();
  }

  async #loadTimeline() {
    try {
      this.timeline = (await requestJson(`${this.page.ledger.url}/course`)).course;
      this.scheduleDraw();
    } catch (error) {
      if (error.status !== 404) showError(error);
    }
  }

  /** Return the status and the agent at the current position. */
  #statusAtPosition() {
    const index = this.timeline.findLastIndex((each) => each.from <= this.position);
    return index >= 0 ? this.timeline[index] : null;
  }

  #draw() {
    const { facts } = this.page.ledger;
    this.position = Math.min(this.position, facts.length);
    const conversation = this.page.conversationAt(this.position);
    const past = this.#statusAtPosition();
    this.slider.value = this.position;
    this.slider.setAttribute("aria-valuetext", `${this.position} of ${facts.length} facts${past ? `, ${past.status}` : ""}`);
    this.rows.list.isAtEnd = true;
    this.rows.update(conversation);
    this.minimap.setPosition(this.position);
    this.page.showReplayState(conversation, past);
    const last = facts[this.position - 1];
    setChildren(
      this.positionLabel,
      el("b", null, `${formatNumber(this.position)} of ${formatNumber(facts.length)}`),
      past && statusPill(past.status),
      (past?.agent || conversation.activeAgent) && agentTag(this.page.palette, past?.agent || conversation.activeAgent),
      last && el("span", { class: "soft" }, `${last.fact.replaceAll("_", " ")}, ${formatClock(last.at)}`),
    );
    this.#saveRoute();
  }
}
