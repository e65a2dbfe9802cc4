/** A conversation as it was at any point. May know: facts, and the course of their status. Decides: how one moves through it.
 *
 * Nothing runs: the story of the first n facts is folded again, as it was then.
 */

import { ask } from "../parts/api.js";
import { el, framed, settled, show } from "../parts/dom.js";
import { clock, count } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { tellFailure } from "../parts/notices.js";
import { agentTag, statusPill } from "../parts/pieces.js";
import { settleAt, to } from "../parts/routes.js";
import { RowList } from "./list.js";
import { Score } from "./score.js";

const SPEEDS = [1, 4, 16, 64];

export class Replay {
  #settle;

  constructor(room) {
    this.room = room;
    this.at = room.ledger.facts.length;
    this.course = [];
    this.playing = 0;
    this.speed = 1;
    this.rows = new RowList(
      { session: room.id, palette: room.palette, generation: () => room.ledger.generation, onFork: (facts) => room.fork(facts) },
      null,
    );
    this.score = new Score(room, (position) => this.#move(position));
    this.slider = el("input", { type: "range", min: 0, max: this.at, value: this.at, step: 1, "aria-label": "Position in the ledger" });
    this.slider.addEventListener("input", () => this.#move(Number(this.slider.value)));
    this.play = el("button", { type: "button", class: "playing", title: "Play (Space)", onclick: () => this.toggle() });
    this.told = el("div", { class: "replay-told", role: "status" });
    const speeds = el(
      "select",
      { "aria-label": "Speed" },
      SPEEDS.map((speed) => el("option", { value: speed }, `${speed}×`)),
    );
    speeds.addEventListener("change", () => {
      this.speed = Number(speeds.value);
    });
    const step = (by, name, title) =>
      el("button", { class: "plain", type: "button", title, "aria-label": title, onclick: () => this.step(by) }, icon(name));
    this.element = el(
      "section",
      { class: "view view-replay", "aria-label": "Replay" },
      this.rows.element,
      el(
        "footer",
        { class: "scrubber" },
        this.score.element,
        this.slider,
        el(
          "div",
          { class: "scrubber-line" },
          step(-1, "unstep", "One fact back (←)"),
          this.play,
          step(1, "step", "One fact on (→)"),
          speeds,
          el("span", { class: "spring" }),
          this.told,
          el("button", { class: "small", type: "button", onclick: () => this.room.fork(this.at) }, icon("fork"), "Fork here"),
          el("a", { class: "button small", href: to("sessions", room.id) }, "Back to now"),
        ),
      ),
    );
    this.draw = framed(() => this.#draw());
    this.#settle = settled(() => settleAt("sessions", room.id, "replay", this.at), 300); // browsers bear only so many addresses a second
    this.#playButton();
    this.#courseOf();
  }

  close() {
    this.#stop();
    this.#settle.cancel();
    this.rows.close();
    this.score.close();
  }

  leave() {
    this.#stop();
    this.#settle.cancel();
    this.room.asOf(null);
  }

  arrive(place) {
    const wanted = place.steps[3] === undefined ? this.room.ledger.facts.length : Number(place.steps[3]);
    this.at = Math.max(0, Math.min(this.room.ledger.facts.length, Number.isFinite(wanted) ? wanted : 0));
    this.update("facts");
  }

  update(what) {
    if (what !== "facts" && what !== "reset" && what !== "all") return;
    this.slider.max = this.room.ledger.facts.length;
    this.score.update();
    this.draw();
  }

  step(by) {
    this.#stop();
    this.#move(this.at + by);
  }

  toggle() {
    if (this.playing) return this.#stop();
    if (this.at >= this.room.ledger.facts.length) this.#move(0);
    const tick = () => {
      if (this.at >= this.room.ledger.facts.length) return this.#stop();
      this.#move(this.at + Math.max(1, Math.round(this.speed / 8)));
      this.playing = setTimeout(tick, Math.max(30, 480 / Math.min(16, this.speed)));
      return undefined;
    };
    this.playing = setTimeout(tick, 120);
    return this.#playButton();
  }

  #stop() {
    clearTimeout(this.playing);
    this.playing = 0;
    this.#playButton();
  }

  #playButton() {
    show(this.play, icon(this.playing ? "pause" : "play"), this.playing ? "Pause" : "Play");
  }

  #move(to) {
    this.at = Math.max(0, Math.min(this.room.ledger.facts.length, to));
    this.draw();
  }

  async #courseOf() {
    try {
      this.course = (await ask(`${this.room.ledger.where}/course`)).course;
      this.draw();
    } catch (error) {
      if (error.status !== 404) tellFailure(error);
    }
  }

  /** Status and agent as of a number of facts. */
  #then() {
    const found = this.course.findLastIndex((each) => each.from <= this.at);
    return found >= 0 ? this.course[found] : null;
  }

  #draw() {
    const { facts } = this.room.ledger;
    this.at = Math.min(this.at, facts.length);
    const story = this.room.storyOf(this.at);
    const then = this.#then();
    this.slider.value = this.at;
    this.slider.setAttribute("aria-valuetext", `${this.at} of ${facts.length} facts${then ? `, ${then.status}` : ""}`);
    this.rows.list.pinned = true;
    this.rows.update(story);
    this.score.mark(this.at);
    this.room.asOf(story, then);
    const last = facts[this.at - 1];
    show(
      this.told,
      el("b", null, `${count(this.at)} of ${count(facts.length)}`),
      then && statusPill(then.status),
      (then?.agent || story.active) && agentTag(this.room.palette, then?.agent || story.active),
      last && el("span", { class: "soft" }, `${last.fact.replaceAll("_", " ")}, ${clock(last.at)}`),
    );
    this.#settle();
  }
}
