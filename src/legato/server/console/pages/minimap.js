/** A minimap of a conversation: a line per agent, a note per fact.
 *
 * It is only visual: the slider below it does the same for the keyboard and for screen readers.
 */

import { el, oncePerFrame } from "../lib/dom.js";
import { findAgent } from "../model/fact_summary.js";

const LINE_HEIGHT_PX = 11;
const PADDING_PX = 8;

export class Minimap {
  constructor(page, onMove) {
    this.page = page;
    this.position = 0;
    this.canvas = el("canvas", { class: "minimap", "aria-hidden": "true" });
    this.element = el("div", { class: "minimap-holder" }, this.canvas);
    this.scheduleDraw = oncePerFrame(() => this.#draw());
    this.resizes = new ResizeObserver(() => this.scheduleDraw());
    this.resizes.observe(this.element);
    const move = (event) => onMove(Math.round((event.offsetX / this.canvas.clientWidth) * this.page.ledger.facts.length));
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
    this.cachedBackground = null;
    this.scheduleDraw();
  }

  setPosition(at) {
    this.position = at;
    this.scheduleDraw();
  }

  #draw() {
    const width = this.element.clientWidth;
    if (!width) return;
    const agents = this.page.conversation.agents;
    const height = PADDING_PX * 2 + LINE_HEIGHT_PX * Math.min(agents.length, 8);
    const scale = devicePixelRatio || 1;
    const background = this.#background(width, height, scale, agents);
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.drawImage(background, 0, 0);
    pen.scale(scale, scale);
    const x = Math.round((this.position / Math.max(1, this.page.ledger.facts.length)) * width);
    pen.fillStyle = this.#readColour("overlay-ink");
    pen.fillRect(x, 0, width - x, height);
    pen.fillStyle = this.#readColour("accent-ink");
    pen.fillRect(Math.min(x, width - 2), 0, 2, height);
  }

  /** Return a canvas with all notes, which is cached until facts, size or colours change. */
  #background(width, height, scale, agents) {
    const { facts } = this.page.ledger;
    const line = this.#readColour("line-ink");
    const key = `${width} ${height} ${scale} ${facts.length} ${line}`;
    if (this.cachedBackground?.key === key) return this.cachedBackground.canvas;
    const canvas = document.createElement("canvas");
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.scale(scale, scale);
    const colours = new Map(agents.map((agent) => [agent, this.#readColour(`agent ${this.page.palette.classOf(agent)}`)]));
    const [soft, bad] = [this.#readColour("soft"), this.#readColour("bad-ink")];
    const y = (agent) => PADDING_PX + LINE_HEIGHT_PX * (Math.min(7, Math.max(0, agents.indexOf(agent))) + 0.5);
    pen.fillStyle = line;
    for (const each of agents.slice(0, 8)) pen.fillRect(0, Math.round(y(each)), width, 1);
    const step = width / Math.max(1, facts.length);
    const thin = Math.min(1, Math.max(0.12, step / 2)); // notes of very long conversations overlap, so they are transparent
    let activeAgent = agents[0] ?? "";
    facts.forEach((fact, position) => {
      const x = (position + 0.5) * step;
      const agent = findAgent(fact, facts) || activeAgent;
      pen.fillStyle = pen.strokeStyle = colours.get(agent) ?? soft;
      if (fact.fact === "handed_off") {
        pen.globalAlpha = thin;
        pen.lineWidth = 1.2;
        const [from, to] = [y(fact.source), y(fact.target)];
        pen.beginPath();
        pen.moveTo(x - step / 2, from);
        pen.quadraticCurveTo(x + step / 4, Math.min(from, to) - 2, x + Math.max(step / 2, 2), to);
        pen.stroke();
        pen.globalAlpha = 1;
        activeAgent = fact.target;
      } else if (fact.fact === "message_received") {
        pen.fillStyle = soft;
        pen.globalAlpha = Math.max(0.25, thin);
        pen.fillRect(x - 0.6, 0, 1.4, step > 6 ? height : 5);
        pen.globalAlpha = 1;
      } else if (fact.fact === "model_replied") {
        activeAgent = fact.agent;
        pen.globalAlpha = Math.max(0.3, thin);
        drawNote(pen, x, y(agent), Math.min(4.2, Math.max(1.4, step * 0.6)));
        pen.globalAlpha = 1;
      } else if (fact.fact === "model_request_failed" || fact.fact === "call_lost") {
        pen.fillStyle = bad;
        pen.fillRect(x - 1, y(agent) - 4, 2, 8);
      } else if (fact.fact !== "opened") {
        pen.globalAlpha = 0.55 * thin;
        drawNote(pen, x, y(agent), Math.min(2, Math.max(0.8, step * 0.3)));
        pen.globalAlpha = 1;
      }
    });
    this.cachedBackground = { key, canvas };
    return canvas;
  }

  /** Read a colour of the style sheets, as the browser computes it. */
  #readColour(className) {
    const probe = el("span", { class: className });
    this.element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }
}

function drawNote(pen, x, y, size) {
  pen.beginPath();
  pen.ellipse(x, y, size, size * 0.78, -0.3, 0, Math.PI * 2);
  pen.fill();
}
