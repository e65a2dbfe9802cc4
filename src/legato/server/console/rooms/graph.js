/** The handoff graph. May know: a workflow and what was taken. Decides: what is lit. */

import { NODE, layout } from "../model/arcs.js";
import { el, show, svg } from "../parts/dom.js";
import { brief, counted } from "../parts/format.js";

export class GraphView {
  /** `workflow`: as the API describes it, or null where only the ledger tells. */
  constructor(workflow, palette) {
    this.workflow = workflow;
    this.palette = palette;
    this.element = el("figure", { class: "graph", "aria-label": "Handoff graph" });
    this.drawn = "";
  }

  /** Light what a story has come to; without one, the graph is as it is allowed to be.
   * @param {import("../model/story.js").Story | null} story */
  update(story = null) {
    const agents = [...(this.workflow?.agents ?? []).map((agent) => agent.name)];
    for (const name of story?.agents ?? []) if (!agents.includes(name)) agents.push(name);
    const edges = [...(this.workflow?.handoffs ?? [])];
    for (const key of story?.edges.keys() ?? []) {
      const [source, target] = key.split("\n");
      if (!edges.some((edge) => edge.source === source && edge.target === target)) edges.push({ source, target });
    }
    const state = JSON.stringify([agents, story?.active, [...(story?.edges ?? [])], [...(story?.turns ?? [])]]);
    if (state === this.drawn) return;
    this.drawn = state;
    if (agents.length === 0) return show(this.element, el("figcaption", { class: "soft" }, "Nobody has spoken yet."));
    const drawing = layout(agents, edges, this.workflow?.start ?? agents[0]);
    return show(
      this.element,
      svg(
        "svg",
        { viewBox: `0 0 ${drawing.width} ${drawing.height}`, width: drawing.width, height: drawing.height, "aria-hidden": "true" },
        [...drawing.arcs].sort((one, other) => this.#times(story, one) - this.#times(story, other)).map((arc) => this.#arc(arc, story)),
        drawing.nodes.map((node) => this.#node(node, story)),
      ),
      el("figcaption", { class: "unseen" }, this.#described(agents, edges, story)),
    );
  }

  #times(story, { source, target }) {
    return story?.edges.get(`${source}\n${target}`) ?? 0;
  }

  #arc(arc, story) {
    const times = this.#times(story, arc);
    const last = story?.lastEdge === `${arc.source}\n${arc.target}`;
    const [asks, taken] = [arc.asks ? ", if somebody approves" : "", times ? `; taken ${counted(times, "time")}` : ""];
    const title = `${arc.source} may hand over to ${arc.target}${asks}${taken}`;
    return svg(
      "g",
      { class: `arc ${this.palette.of(arc.source)}${times ? " taken" : ""}${last ? " last" : ""}${arc.asks ? " asks" : ""}` },
      svg("title", null, title),
      svg("path", { class: "slur", d: arc.path }),
      svg("path", { class: "head", d: arc.head }),
      times > 0 && [
        svg("circle", { class: "count-ground", cx: arc.label.x, cy: arc.label.y, r: times > 99 ? 12 : 9 }),
        svg("text", { class: "count", x: arc.label.x, y: arc.label.y + 3.8 }, String(times)),
      ],
    );
  }

  #node({ name, x, y }, story) {
    const turns = story?.turns.get(name) ?? 0;
    const active = story?.active === name || (!story?.active && name === this.workflow?.start);
    const told = this.workflow?.agents.find((agent) => agent.name === name);
    const tools = told?.tools.length ? counted(told.tools.length, "tool") : "";
    const below = turns ? counted(turns, "turn") : tools || (name === this.workflow?.start ? "starts" : "");
    return svg(
      "g",
      {
        class: `node ${this.palette.of(name)}${active ? " active" : ""}${story && !turns ? " silent" : ""}`,
        transform: `translate(${x} ${y})`,
      },
      svg(
        "title",
        null,
        [name, told?.description, told?.model, told?.tools.map((tool) => tool.name).join(", ")].filter(Boolean).join("\n"),
      ),
      svg("rect", { width: NODE.width, height: NODE.height, rx: 9 }),
      svg("ellipse", { class: "note", cx: 16, cy: NODE.height / 2, rx: 5, ry: 4, transform: `rotate(-18 16 ${NODE.height / 2})` }),
      svg("text", { class: "name", x: 29, y: below ? 16.5 : 23.5 }, brief(name, 17)),
      below && svg("text", { class: "below", x: 29, y: 29.5 }, below),
    );
  }

  #described(agents, edges, story) {
    const taken = edges.map((edge) => [edge, this.#times(story, edge)]);
    const active = story?.active ? `${story.active} has control.` : "";
    return [
      el("p", null, `Agents: ${agents.join(", ")}. ${active}`),
      el(
        "ul",
        null,
        taken.map(([edge, times]) =>
          el("li", null, `${edge.source} to ${edge.target}: ${times ? `taken ${counted(times, "time")}` : "allowed, not taken"}`),
        ),
      ),
    ];
  }
}
