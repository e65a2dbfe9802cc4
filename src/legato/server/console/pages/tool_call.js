/** A tool call with its approval, its attempts and its output. */

import { createIcon } from "../components/icons.js";
import { attachmentView, highlightJson, jsonBlock } from "../components/widgets.js";
import { el } from "../lib/dom.js";
import { parseJson, stringifyJson } from "../lib/exact_json.js";
import { formatDuration, shorten } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";
import { isObject } from "../model/schema.js";

const MAX_INLINE_ARGUMENT_CHARS = 120;
const MAX_HEADER_ARGUMENT_CHARS = 44; // longer arguments are below the tool's name
const MAX_INLINE_OUTPUT_CHARS = 280;

const OUTCOME_LABELS = {
  ok: "done",
  error: "failed",
  timeout: "timed out",
  cancelled: "cancelled",
  superseded: "superseded",
  stopped: "stopped",
};
const VERDICT_LABELS = {
  approve: "Approved",
  reject: "Declined",
  edit: "Approved with other arguments",
  answer: "Answered by a person",
  revoke: "Revoked",
};

/** Labels of decisions that no caller of this session made, by their source. */
const SOURCE_LABELS = {
  standing: "Approved by a standing approval",
  "brought along": "Decided in the imported conversation",
};

/** Return the status of a call: a word, and its tone. */
export function describeCallStatus(row) {
  const last = row.decisions.at(-1)?.verdict;
  if (last === "reject") return { word: "declined", tone: "bad" };
  if (last === "answer") return { word: "answered", tone: "good" };
  if (row.output)
    return { word: OUTCOME_LABELS[row.output.status] ?? row.output.status, tone: row.output.status === "ok" ? "good" : "bad" };
  const attempt = row.attempts.at(-1);
  if (attempt?.lost && row.decisions.at(-1)?.kind !== "outcome") return { word: "outcome unknown", tone: "warn" };
  if (attempt?.paused) return { word: attempt.pausedFor, tone: attempt.pausedFor === "agent failed" ? "bad" : "warn" };
  if (attempt && !attempt.lost) return { word: "running", tone: "live" };
  if (row.needsApproval && row.decisions.length === 0) return { word: "waits for approval", tone: "warn" };
  return { word: row.handoff ? "is handing off" : "waits", tone: "" };
}

export function callCard(row, context) {
  const { word, tone } = describeCallStatus(row);
  const paused = row.attempts.at(-1)?.paused;
  return el(
    "div",
    { class: `card call ${tone}` },
    el(
      "div",
      { class: "call-head" },
      createIcon("tool"),
      el("b", null, row.tool),
      row.arguments.length <= MAX_HEADER_ARGUMENT_CHARS && inlineArguments(row.arguments),
      el("span", { class: `chip ${tone}` }, word),
      row.output?.took > 0 && el("span", { class: "soft small-print" }, formatDuration(row.output.took)),
      row.attempts.length > 1 && el("span", { class: "soft small-print" }, `attempt ${row.attempts.length}`),
    ),
    row.arguments.length > MAX_HEADER_ARGUMENT_CHARS &&
      (fitsInline(row.arguments) ? inlineArguments(row.arguments) : foldedArguments(row.arguments)),
    row.decisions.map((decision) => decisionView(decision, row.arguments, context)),
    paused && !row.output && el("p", { class: "small-print" }, "In session ", el("a", { href: routeTo("sessions", paused) }, paused)),
    row.output && outputView(row.output, context),
    row.late &&
      el(
        "div",
        { class: "late" },
        el("span", { class: "soft small-print" }, "Output that arrived after the call was answered:"),
        outputView(row.late, context),
      ),
  );
}

const fitsInline = (text) => text.length <= MAX_INLINE_ARGUMENT_CHARS && !text.includes("\n");

function inlineArguments(text) {
  return el("code", { class: "arguments" }, highlightJson(text));
}

function foldedArguments(text) {
  return el("details", { class: "fold" }, el("summary", null, el("code", { class: "arguments" }, shorten(text, 90))), jsonBlock(text));
}

function decisionView(decision, before, context) {
  const scope = decision.standing ? ", with all later calls of the tool in this session" : "";
  const label = SOURCE_LABELS[decision.source] ?? `${VERDICT_LABELS[decision.verdict] ?? decision.verdict}${scope}`;
  const text = decision.kind === "outcome" && decision.verdict === "approve" ? "To be run again" : label;
  return el(
    "div",
    { class: `decision ${decision.verdict}` },
    el("p", null, createIcon(decision.verdict === "reject" ? "cross" : "check"), text, decision.words && el("q", null, decision.words)),
    decision.arguments && argumentChanges(before, decision.arguments),
    decision.output.length > 0 && outputView({ parts: decision.output }, context),
  );
}

/** List the arguments that a person changed, before and after; all arguments if they cannot be compared. */
function argumentChanges(before, after) {
  const [one, other] = [parseObject(before), parseObject(after)];
  if (!one || !other) return jsonBlock(after);
  const changed = [...new Set([...Object.keys(one), ...Object.keys(other)])].filter(
    (name) => formatArgument(one[name]) !== formatArgument(other[name]),
  );
  return el(
    "ul",
    { class: "changed-arguments" },
    changed.map((name) =>
      el(
        "li",
        null,
        el("code", null, name),
        " ",
        el("del", null, formatArgument(one[name])),
        " ",
        el("ins", null, formatArgument(other[name])),
      ),
    ),
    changed.length === 0 && el("li", { class: "soft" }, "no changes"),
  );
}

const formatArgument = (value) => (value === undefined ? "left out" : stringifyJson(value));

function parseObject(text) {
  try {
    const value = parseJson(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function outputView(output, context) {
  return output.parts.map((part) => {
    if (part.part !== "text") return attachmentView(context.session, part);
    const text = part.text;
    if (text.length <= MAX_INLINE_OUTPUT_CHARS && text.split("\n").length <= 5) return el("pre", { class: "output" }, text);
    return el(
      "details",
      { class: "fold" },
      el("summary", null, el("span", { class: "output-start" }, shorten(text, 100))),
      looksLikeJson(text) ? jsonBlock(text) : el("pre", { class: "output", tabindex: "0" }, text),
    );
  });
}

const looksLikeJson = (text) => /^\s*[[{]/.test(text);
