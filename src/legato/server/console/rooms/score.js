/** A conversation at a glance, as a score: a line per agent, a note per fact. May know: facts. Decides: where each is drawn.
 *
 * For the eye only: the slider below it says the same to the keyboard and to screen readers.
 */

import { whoOf } from "../model/telling.js";
import { el, framed } from "../parts/dom.js";

const LINE = 11;
const TOP = 8;

export class Score {
  constructor(room, onMove) {
    this.room = room;
    this.at = 0;
    this.canvas = el("canvas", { class: "score", "aria-hidden": "true" });
    this.element = el("div", { class: "score-holder" }, this.canvas);
    this.draw = framed(() => this.#draw());
    this.resizes = new ResizeObserver(() => this.draw());
    this.resizes.observe(this.element);
    const move = (event) => onMove(Math.round((event.offsetX / this.canvas.clientWidth) * this.room.ledger.facts.length));
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) move(event);
    });
  }

  close() {
    this.resizes.disconnect();
  }

  update() {
    this.drawn = null;
    this.draw();
  }

  mark(at) {
    this.at = at;
    this.draw();
  }

  #draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const agents = this.room.story.agents;
    const height = TOP * 2 + LINE * Math.min(agents.length, 8);
    const scale = devicePixelRatio || 1;
    const background = this.#background(width, height, scale, agents);
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.drawImage(background, 0, 0);
    pen.scale(scale, scale);
    const x = Math.round((this.at / Math.max(1, this.room.ledger.facts.length)) * width);
    pen.fillStyle = this.#ink("veil-ink");
    pen.fillRect(x, 0, width - x, height);
    pen.fillStyle = this.#ink("accent-ink");
    pen.fillRect(Math.min(x, width - 2), 0, 2, height);
  }

  /** All notes, drawn once and kept until there are more, or other colours. */
  #background(width, height, scale, agents) {
    const { facts } = this.room.ledger;
    const line = this.#ink("line-ink");
    const name = `${width} ${height} ${scale} ${facts.length} ${line}`;
    if (this.drawn?.name === name) return this.drawn.canvas;
    const canvas = document.createElement("canvas");
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.scale(scale, scale);
    const colours = new Map(agents.map((agent) => [agent, this.#ink(`agent ${this.room.palette.of(agent)}`)]));
    const [soft, bad] = [this.#ink("soft"), this.#ink("bad-ink")];
    const y = (agent) => TOP + LINE * (Math.min(7, Math.max(0, agents.indexOf(agent))) + 0.5);
    pen.fillStyle = line;
    for (const agent of agents.slice(0, 8)) pen.fillRect(0, Math.round(y(agent)), width, 1);
    const step = width / Math.max(1, facts.length);
    const thin = Math.min(1, Math.max(0.12, step / 2)); // where thousands lie on one another, each is a breath
    let control = agents[0] ?? "";
    facts.forEach((fact, position) => {
      const x = (position + 0.5) * step;
      const who = whoOf(fact, facts) || control;
      pen.fillStyle = pen.strokeStyle = colours.get(who) ?? soft;
      if (fact.fact === "handed_off") {
        pen.globalAlpha = thin;
        pen.lineWidth = 1.2;
        const [from, to] = [y(fact.source), y(fact.target)];
        pen.beginPath();
        pen.moveTo(x - step / 2, from);
        pen.quadraticCurveTo(x + step / 4, Math.min(from, to) - 2, x + Math.max(step / 2, 2), to);
        pen.stroke();
        pen.globalAlpha = 1;
        control = fact.target;
      } else if (fact.fact === "message_received") {
        pen.fillStyle = soft;
        pen.globalAlpha = Math.max(0.25, thin);
        pen.fillRect(x - 0.6, 0, 1.4, step > 6 ? height : 5);
        pen.globalAlpha = 1;
      } else if (fact.fact === "model_replied") {
        control = fact.agent;
        pen.globalAlpha = Math.max(0.3, thin);
        note(pen, x, y(who), Math.min(4.2, Math.max(1.4, step * 0.6)));
        pen.globalAlpha = 1;
      } else if (fact.fact === "model_request_failed" || fact.fact === "call_lost") {
        pen.fillStyle = bad;
        pen.fillRect(x - 1, y(who) - 4, 2, 8);
      } else if (fact.fact !== "opened") {
        pen.globalAlpha = 0.55 * thin;
        note(pen, x, y(who), Math.min(2, Math.max(0.8, step * 0.3)));
        pen.globalAlpha = 1;
      }
    });
    this.drawn = { name, canvas };
    return canvas;
  }

  /** A colour of the style sheets, as the browser has worked it out. */
  #ink(className) {
    const probe = el("span", { class: className });
    this.element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }
}

function note(pen, x, y, size) {
  pen.beginPath();
  pen.ellipse(x, y, size, size * 0.78, -0.3, 0, Math.PI * 2);
  pen.fill();
}
