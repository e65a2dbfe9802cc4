/** The handoff graph of a workflow, with the handoffs of a conversation highlighted. */

import { el, setChildren, svg } from "../lib/dom.js";
import { pluralize, shorten } from "../lib/format.js";
import { NODE, layoutGraph } from "../model/graph_layout.js";

export class GraphView {
  /** `workflow`: the workflow as the API describes it; null if it is not served, and only the ledger is known. */
  constructor(workflow, palette) {
    this.workflow = workflow;
    this.palette = palette;
    this.element = el("figure", { class: "graph", "aria-label": "Handoff graph" });
    this.drawnState = "";
  }

  /** Highlight the agents and handoffs of a conversation; without one, show the allowed handoffs.
   * @param {import("../model/conversation.js").Conversation | null} conversation */
  update(conversation = null) {
    const agents = [...(this.workflow?.agents ?? []).map((agent) => agent.name)];
    for (const name of conversation?.agents ?? []) if (!agents.includes(name)) agents.push(name);
    const edges = [...(this.workflow?.handoffs ?? [])];
    for (const key of conversation?.handoffCounts.keys() ?? []) {
      const [source, target] = key.split("\n");
      if (!edges.some((edge) => edge.source === source && edge.target === target)) edges.push({ source, target });
    }
    const state = JSON.stringify([
      agents,
      conversation?.activeAgent,
      [...(conversation?.handoffCounts ?? [])],
      [...(conversation?.turnCounts ?? [])],
    ]);
    if (state === this.drawnState) return;
    this.drawnState = state;
    if (agents.length === 0) return setChildren(this.element, el("figcaption", { class: "soft" }, "No agent has replied yet."));
    const drawing = layoutGraph(agents, edges, this.workflow?.start ?? agents[0]);
    return setChildren(
      this.element,
      svg(
        "svg",
        { viewBox: `0 0 ${drawing.width} ${drawing.height}`, width: drawing.width, height: drawing.height, "aria-hidden": "true" },
        [...drawing.arcs]
          .sort((one, other) => this.#countHandoffs(conversation, one) - this.#countHandoffs(conversation, other))
          .map((arc) => this.#arc(arc, conversation)),
        drawing.nodes.map((node) => this.#node(node, conversation)),
      ),
      el("figcaption", { class: "visually-hidden" }, this.#describe(agents, edges, conversation)),
    );
  }

  #countHandoffs(conversation, { source, target }) {
    return conversation?.handoffCounts.get(`${source}\n${target}`) ?? 0;
  }

  #arc(arc, conversation) {
    const times = this.#countHandoffs(conversation, arc);
    const isLast = conversation?.lastHandoff === `${arc.source}\n${arc.target}`;
    const [approval, usage] = [arc.asks ? ", with approval" : "", times ? `; taken ${pluralize(times, "time")}` : ""];
    const title = `${arc.source} may hand over to ${arc.target}${approval}${usage}`;
    return svg(
      "g",
      { class: `arc ${this.palette.classOf(arc.source)}${times ? " taken" : ""}${isLast ? " last" : ""}${arc.asks ? " asks" : ""}` },
      svg("title", null, title),
      svg("path", { class: "line", d: arc.path }),
      svg("path", { class: "head", d: arc.head }),
      times > 0 && [
        svg("circle", { class: "count-ground", cx: arc.label.x, cy: arc.label.y, r: times > 99 ? 12 : 9 }),
        svg("text", { class: "count", x: arc.label.x, y: arc.label.y + 3.8 }, String(times)),
      ],
    );
  }

  #node({ name, x, y }, conversation) {
    const turns = conversation?.turnCounts.get(name) ?? 0;
    const active = conversation?.activeAgent === name || (!conversation?.activeAgent && name === this.workflow?.start);
    const agent = this.workflow?.agents.find((each) => each.name === name);
    const tools = agent?.tools.length ? pluralize(agent.tools.length, "tool") : "";
    const below = turns ? pluralize(turns, "turn") : tools || (name === this.workflow?.start ? "starts" : "");
    return svg(
      "g",
      {
        class: `node ${this.palette.classOf(name)}${active ? " active" : ""}${conversation && !turns ? " silent" : ""}`,
        transform: `translate(${x} ${y})`,
      },
      svg(
        "title",
        null,
        [name, agent?.description, agent?.model, agent?.tools.map((tool) => tool.name).join(", ")].filter(Boolean).join("\n"),
      ),
      svg("rect", { width: NODE.width, height: NODE.height, rx: 9 }),
      svg("ellipse", { class: "dot", cx: 16, cy: NODE.height / 2, rx: 5, ry: 4, transform: `rotate(-18 16 ${NODE.height / 2})` }),
      svg("text", { class: "name", x: 29, y: below ? 16.5 : 23.5 }, shorten(name, 17)),
      below && svg("text", { class: "below", x: 29, y: 29.5 }, below),
    );
  }

  #describe(agents, edges, conversation) {
    const counts = edges.map((edge) => [edge, this.#countHandoffs(conversation, edge)]);
    const active = conversation?.activeAgent ? `${conversation.activeAgent} has control.` : "";
    return [
      el("p", null, `Agents: ${agents.join(", ")}. ${active}`),
      el(
        "ul",
        null,
        counts.map(([edge, times]) =>
          el("li", null, `${edge.source} to ${edge.target}: ${times ? `taken ${pluralize(times, "time")}` : "allowed, not taken"}`),
        ),
      ),
    ];
  }
}
