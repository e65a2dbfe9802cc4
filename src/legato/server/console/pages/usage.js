/** Tokens and cost of a session, by agent and by handoff, as bars of one scale. */

import { errorPanel } from "../components/notices.js";
import { VirtualList } from "../components/virtual_list.js";
import { agentTag } from "../components/widgets.js";
import { requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";
import { formatCost, formatNumber, formatRange, pluralize } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";

export class UsageView {
  constructor(page) {
    this.page = page;
    this.readReplies = 0; // how many replies the loaded usage covers
    this.usage = null;
    this.handoffs = new VirtualList({
      createRow: (index) => this.#handoffRow(index),
      rowKey: (index) => `${index} ${this.readReplies}`,
      estimatedHeight: 40,
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

  showRoute() {
    return this.#load();
  }

  update(what) {
    if (what === "facts" && this.readReplies < this.page.conversation.replyCount && this.page.isShown(this)) this.#load();
  }

  async #load() {
    this.readReplies = this.page.conversation.replyCount;
    try {
      this.usage = await requestJson(`${this.page.ledger.url}/usage`);
    } catch (error) {
      setChildren(
        this.body,
        errorPanel(error, () => this.#load()),
      );
      return;
    }
    this.#draw();
  }

  #draw() {
    const { total, agents, handoffs, resent } = this.usage;
    const longest = Math.max(1, ...Object.values(agents).map(tokens));
    const edges = groupByEdge(handoffs);
    const longestEdge = Math.max(1, ...edges.map((edge) => edge.tokens));
    setChildren(
      this.body,
      el(
        "dl",
        { class: "sums" },
        totalView("Tokens in", formatNumber(total.input), `${formatShare(total.cached, total.input)} from the provider's cache`),
        totalView("Tokens out", formatNumber(total.output), total.reasoning ? `${formatNumber(total.reasoning)} of them reasoning` : ""),
        totalView(
          "Cost",
          formatCost(total.dollars),
          total.unpriced && total.dollars !== null ? `no price known for ${formatNumber(total.unpriced)} tokens` : "",
        ),
        totalView("Sent again for handoffs", formatRange(resent), `at most ${formatShare(resent.most, total.input)} of all tokens in`),
      ),
      el("h2", null, "By agent"),
      legend(),
      el(
        "div",
        { class: "bars" },
        Object.entries(agents).map(([name, usage]) => this.#agentBar(agentTag(this.page.palette, name), usage, longest)),
      ),
      handoffs.length > 0 && [
        el("h2", null, "By handoff"),
        el(
          "p",
          { class: "soft small-print" },
          "Tokens from each handoff until the next. Hatched: tokens that the first request after the handoff sent again, because an ",
          "earlier agent had sent them; faintly hatched: tokens that it may have sent again, by the provider's figures.",
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
                agentTag(this.page.palette, edge.source),
                el("span", { class: "arrow", "aria-label": "to" }, "→"),
                agentTag(this.page.palette, edge.target),
                el("span", { class: "soft small-print" }, `${formatNumber(edge.times)}×`),
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
                { class: "bar-label" },
                withCost(`${formatNumber(edge.tokens)} tokens, ${formatRange(edge.resent)} again`, edge.dollars, edge.unpriced),
              ),
            ),
          ),
        ),
        el("h2", null, pluralize(handoffs.length, "handoff")),
        this.handoffs.element,
      ],
    );
    this.handoffs.element.style.height = `${Math.min(420, 40 * handoffs.length + 2)}px`;
    this.handoffs.reset(handoffs.length);
  }

  #agentBar(name, usage, longest) {
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
      el(
        "span",
        { class: "bar-label" },
        withCost(`${formatNumber(usage.input)} in, ${formatNumber(usage.output)} out`, usage.dollars, usage.unpriced),
      ),
    );
  }

  #handoffRow(index) {
    const each = this.usage.handoffs[index];
    return el(
      "div",
      { class: "handoff-row", role: "listitem" },
      el("a", { class: "soft", href: routeTo("sessions", this.page.id, { at: each.position }) }, `#${each.position}`),
      el(
        "span",
        null,
        agentTag(this.page.palette, each.source),
        el("span", { class: "arrow", "aria-label": "to" }, "→"),
        agentTag(this.page.palette, each.target),
      ),
      el(
        "span",
        { class: "soft small-print" },
        withCost(`${formatNumber(tokens(each.usage))} tokens, ${formatRange(each.resent)} again`, each.usage.dollars, each.usage.unpriced),
      ),
    );
  }
}

const tokens = (usage) => usage.input + usage.output;
const withCost = (text, amount, unpriced) => (amount === null ? text : `${text}, ${formatCost(amount, unpriced)}`);
const formatShare = (part, whole) => (whole ? `${Math.round((part / whole) * 100)} %` : "0 %");

function totalView(title, value, note) {
  return el("div", { class: "sum" }, el("dt", null, title), el("dd", null, value, note && el("span", { class: "soft small-print" }, note)));
}

function legend() {
  return el(
    "p",
    { class: "legend small-print soft", "aria-hidden": "true" },
    [
      ["cached", "in, cached"],
      ["fresh", "in"],
      ["out", "out"],
    ].map(([kind, name]) => el("span", null, el("span", { class: `swatch part-${kind}` }), name)),
  );
}

/** Create a bar. The widths of its parts are shares of the longest bar. */
function bar(parts, longest) {
  const element = el("span", { class: "bar", role: "presentation" });
  for (const [kind, value] of parts) {
    if (!(value > 0)) continue;
    const part = el("span", { class: `part part-${kind}` });
    part.style.width = `${Math.max(0.4, (value / longest) * 100)}%`;
    element.append(part);
  }
  return element;
}

function groupByEdge(handoffs) {
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
