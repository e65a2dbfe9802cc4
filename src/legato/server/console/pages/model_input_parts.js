/** The parts of a model request: the turn context, the body as sent, and changes since earlier requests. */

import { renderDiff } from "../components/diff.js";
import { agentTag, jsonBlock } from "../components/widgets.js";
import { el } from "../lib/dom.js";
import { pluralize } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";

export const PARTS = [
  ["context", "Context"],
  ["body", "As sent"],
  ["call", "Since the last request"],
  ["agent", "Since the last agent"],
];

const DIGEST_CHECK_LABELS = {
  proved: ["Confirmed", "The digest that was recorded with the reply matches these bytes."],
  refuted: [
    "Not confirmed",
    "The digest that was recorded with the reply does not match these bytes: this version encodes the request differently.",
  ],
};
const FORMAT_LABELS = { responses: "OpenAI Responses", chat: "Chat Completions", anthropic: "Anthropic Messages" };

export function renderPart(part, explanation, page) {
  if (part === "body") return bodyView(explanation);
  if (part === "call" || part === "agent") return changesView(explanation.changes[part], part, explanation, page);
  return contextView(explanation);
}

function contextView(explanation) {
  const policy = typeof explanation.history === "string" ? explanation.history : explanation.history.told || explanation.history.policy;
  return [
    section(
      "Instructions",
      explanation.instructions ? el("p", { class: "prose plain-words", dir: "auto" }, explanation.instructions) : noneText(),
    ),
    explanation.added.length > 0 &&
      section(
        "Added messages",
        explanation.added.map((text) => el("p", { class: "prose plain-words", dir: "auto" }, text)),
      ),
    section("History policy", el("p", { class: "prose" }, policy)),
    explanation.summary && section("Summary of earlier history", el("p", { class: "prose plain-words" }, explanation.summary)),
    section(`Tools (${explanation.tools.length})`, explanation.tools.length ? explanation.tools.map(toolView) : noneText()),
    explanation.output && section("Typed output", jsonBlock(asText(explanation.output))),
    section("Options", explanation.options ? jsonBlock(asText(explanation.options)) : noneText()),
    el("p", { class: "soft small-print" }, "context digest ", el("code", null, explanation.frame)),
  ];
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const noneText = () => el("p", { class: "soft" }, "none");

function section(title, ...children) {
  return el("section", { class: "context-part" }, el("h3", null, title), children);
}

function toolView({ name, description, parameters }) {
  return el(
    "details",
    { class: "fold" },
    el("summary", null, el("b", null, name), description && el("span", { class: "soft" }, ` ${description}`)),
    jsonBlock(asText(parameters)),
  );
}

function bodyView(explanation) {
  const [label, description] = DIGEST_CHECK_LABELS[explanation.proof] ?? ["", ""];
  return [
    el(
      "p",
      { class: "small-print" },
      explanation.wire
        ? `${FORMAT_LABELS[explanation.wire] ?? explanation.wire}: the exact request, encoded again from the ledger.`
        : "A custom model: the request object that it got.",
      " Secret values are digests.",
    ),
    label && el("p", { class: `small-print proof ${explanation.proof}` }, el("b", null, `${label}. `), description),
    jsonBlock(explanation.body, { label: "The request's body" }),
  ];
}

function changesView(change, part, explanation, page) {
  if (!change) return el("p", { class: "soft" }, part === "call" ? "This was the first request." : "No other agent made a request before.");
  const { tools, items } = change;
  return [
    el(
      "p",
      { class: "small-print" },
      "Compared with ",
      el("a", { href: routeTo("sessions", page.id, "seen", change.with, { part }) }, `request ${change.with}`),
      " of ",
      agentTag(page.palette, change.agent),
      ".",
    ),
    section(
      "Conversation",
      el(
        "p",
        null,
        [
          items.added.length && `${pluralize(items.added.length, "item")} added`,
          items.removed.length && `${pluralize(items.removed.length, "item")} removed`,
          items.changed?.length && `${pluralize(items.changed.length, "item")} changed`,
        ]
          .filter(Boolean)
          .join(", ") || "No changes.",
      ),
      positionList("added", items.added),
      positionList("removed", items.removed),
      positionList("changed", items.changed ?? []),
    ),
    change.instructions && section("Instructions", renderDiff(change.instructions)),
    change.added && section("Added messages", beforeAfter(change.added)),
    (tools.added.length > 0 || tools.removed.length > 0 || tools.changed.length > 0) &&
      section(
        "Tools",
        el(
          "ul",
          { class: "changes" },
          tools.added.map((name) => el("li", { class: "added" }, `+ ${name}`)),
          tools.removed.map((name) => el("li", { class: "removed" }, `- ${name}`)),
          tools.changed.map((name) => el("li", null, `~ ${name}`)),
        ),
      ),
    change.history && section("History policy", beforeAfter(change.history)),
    change.options && section("Options", beforeAfter(change.options)),
    section("Body", renderDiff(change.body, "No changes.")),
  ];
}

function beforeAfter({ before, after }) {
  const lines = (value, sign, name) => [value].flat().map((each) => el("li", { class: name }, `${sign} ${asText(each ?? "none")}`));
  return el("ul", { class: "changes" }, lines(before, "-", "removed"), lines(after, "+", "added"));
}

function positionList(label, positions) {
  if (!positions.length) return null;
  const last = positions.slice(-12);
  return el(
    "p",
    { class: "small-print soft" },
    `${label}: ${positions.length > last.length ? "… " : ""}${last.map((position) => `#${position}`).join(" ")}`,
  );
}
