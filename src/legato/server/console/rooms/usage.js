/** What a conversation cost. May know: the API's usage. Decides: which bars are drawn, all to one scale. */

import { ask } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { between, count, counted, dollars } from "../parts/format.js";
import { failure } from "../parts/notices.js";
import { agentTag } from "../parts/pieces.js";
import { to } from "../parts/routes.js";
import { VirtualList } from "../parts/virtual.js";

export class UsageView {
  constructor(room) {
    this.room = room;
    this.read = 0; // how many replies there were when it was read
    this.usage = null;
    this.sums = el("div", { class: "sums" });
    this.agents = el("div", { class: "bars" });
    this.edges = el("div", { class: "bars" });
    this.handoffs = new VirtualList({
      row: (index) => this.#handoff(index),
      name: (index) => `${index} ${this.read}`,
      guess: 40,
      role: "list",
      label: "Each handoff",
      className: "handoffs",
    });
    this.body = el("div", { class: "usage-body" });
    this.element = el("section", { class: "view view-usage", "aria-label": "Usage and cost" }, this.body);
  }

  close() {
    this.handoffs.close();
  }

  arrive() {
    return this.#load();
  }

  update(what) {
    if (what === "facts" && this.read < this.room.story.replies && this.room.isShown(this)) this.#load();
  }

  async #load() {
    this.read = this.room.story.replies;
    try {
      this.usage = await ask(`${this.room.ledger.where}/usage`);
    } catch (error) {
      show(
        this.body,
        failure(error, () => this.#load()),
      );
      return;
    }
    this.#draw();
  }

  #draw() {
    const { total, agents, handoffs, resent } = this.usage;
    const longest = Math.max(1, ...Object.values(agents).map(tokens));
    const edges = byEdge(handoffs);
    const longestEdge = Math.max(1, ...edges.map((edge) => edge.tokens));
    show(
      this.body,
      el(
        "dl",
        { class: "sums" },
        sum("Tokens in", count(total.input), `${share(total.cached, total.input)} from the provider's cache`),
        sum("Tokens out", count(total.output), total.reasoning ? `${count(total.reasoning)} of them reasoning` : ""),
        sum(
          "Cost",
          dollars(total.dollars),
          total.unpriced && total.dollars !== null ? `no price known for ${count(total.unpriced)} tokens` : "",
        ),
        sum("Sent again for handoffs", between(resent), `at most ${share(resent.most, total.input)} of all tokens in`),
      ),
      el("h2", null, "By agent"),
      key(),
      el(
        "div",
        { class: "bars" },
        Object.entries(agents).map(([name, usage]) => this.#bar(agentTag(this.room.palette, name), usage, longest)),
      ),
      handoffs.length > 0 && [
        el("h2", null, "By handoff"),
        el(
          "p",
          { class: "soft small-print" },
          "What was used from a handoff until the next. Hatched: what its first call sent again, since an agent before it had sent it; ",
          "faintly: what it may have sent again, by the provider's figures.",
        ),
        el(
          "div",
          { class: "bars" },
          edges.map((edge) =>
            el(
              "div",
              { class: "bar-line" },
              el(
                "span",
                { class: "bar-name" },
                agentTag(this.room.palette, edge.source),
                el("span", { class: "arrow", "aria-label": "to" }, "→"),
                agentTag(this.room.palette, edge.target),
                el("span", { class: "soft small-print" }, `${count(edge.times)}×`),
              ),
              bar(
                [
                  ["used", edge.tokens - edge.resent.most],
                  ["perhaps", edge.resent.most - edge.resent.least],
                  ["resent", edge.resent.least],
                ],
                longestEdge,
              ),
              el(
                "span",
                { class: "bar-told" },
                costing(`${count(edge.tokens)} tokens, ${between(edge.resent)} again`, edge.dollars, edge.unpriced),
              ),
            ),
          ),
        ),
        el("h2", null, counted(handoffs.length, "handoff")),
        this.handoffs.element,
      ],
    );
    this.handoffs.element.style.height = `${Math.min(420, 40 * handoffs.length + 2)}px`;
    this.handoffs.reset(handoffs.length);
  }

  #bar(name, usage, longest) {
    return el(
      "div",
      { class: "bar-line" },
      el("span", { class: "bar-name" }, name),
      bar(
        [
          ["cached", usage.cached],
          ["fresh", usage.input - usage.cached],
          ["out", usage.output],
        ],
        longest,
      ),
      el("span", { class: "bar-told" }, costing(`${count(usage.input)} in, ${count(usage.output)} out`, usage.dollars, usage.unpriced)),
    );
  }

  #handoff(index) {
    const each = this.usage.handoffs[index];
    return el(
      "div",
      { class: "handoff-row", role: "listitem" },
      el("a", { class: "soft", href: to("sessions", this.room.id, { at: each.position }) }, `#${each.position}`),
      el(
        "span",
        null,
        agentTag(this.room.palette, each.source),
        el("span", { class: "arrow", "aria-label": "to" }, "→"),
        agentTag(this.room.palette, each.target),
      ),
      el(
        "span",
        { class: "soft small-print" },
        costing(`${count(tokens(each.usage))} tokens, ${between(each.resent)} again`, each.usage.dollars, each.usage.unpriced),
      ),
    );
  }
}

const tokens = (usage) => usage.input + usage.output;
const costing = (told, amount, unpriced) => (amount === null ? told : `${told}, ${dollars(amount, unpriced)}`);
const share = (part, whole) => (whole ? `${Math.round((part / whole) * 100)} %` : "0 %");

function sum(title, value, note) {
  return el("div", { class: "sum" }, el("dt", null, title), el("dd", null, value, note && el("span", { class: "soft small-print" }, note)));
}

function key() {
  return el(
    "p",
    { class: "key small-print soft", "aria-hidden": "true" },
    [
      ["cached", "in, cached"],
      ["fresh", "in"],
      ["out", "out"],
    ].map(([kind, name]) => el("span", null, el("span", { class: `swatch part-${kind}` }), name)),
  );
}

/** Bars of one scale: widths are shares of the longest. */
function bar(parts, longest) {
  const made = el("span", { class: "bar", role: "presentation" });
  for (const [kind, value] of parts) {
    if (!(value > 0)) continue;
    const part = el("span", { class: `part part-${kind}` });
    part.style.width = `${Math.max(0.4, (value / longest) * 100)}%`;
    made.append(part);
  }
  return made;
}

function byEdge(handoffs) {
  const edges = new Map();
  for (const each of handoffs) {
    const name = `${each.source}\n${each.target}`;
    const { source, target } = each;
    const edge = edges.get(name) ?? { source, target, times: 0, tokens: 0, resent: { least: 0, most: 0 }, unpriced: 0, dollars: null };
    edge.times++;
    edge.tokens += tokens(each.usage);
    edge.resent.least += each.resent?.least ?? 0;
    edge.resent.most += each.resent?.most ?? 0;
    edge.unpriced += each.usage.unpriced ?? 0;
    if (each.usage.dollars !== null) edge.dollars = (edge.dollars ?? 0) + each.usage.dollars;
    edges.set(name, edge);
  }
  return [...edges.values()].sort((one, other) => other.tokens - one.tokens);
}
