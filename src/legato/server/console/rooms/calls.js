/** A tool call, and all that became of it. May know: a story's call row. Decides: what is shown at once and what is folded away. */

import { isObject } from "../model/schema.js";
import { el } from "../parts/dom.js";
import { parse, write } from "../parts/exact.js";
import { brief, lasted } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { attachment, coloured, jsonBlock } from "../parts/pieces.js";
import { to } from "../parts/routes.js";

const SHORT_ARGUMENTS = 120;
const BESIDE = 44; // letters of arguments that stand beside the tool's name; longer ones stand below
const SHORT_OUTPUT = 280;

const ENDED = { ok: "done", error: "failed", timeout: "timed out", cancelled: "cancelled", superseded: "superseded", stopped: "stopped" };
const DECIDED = {
  approve: "Approved",
  reject: "Declined",
  edit: "Approved with other arguments",
  answer: "Answered by a person",
  revoke: "Withdrawn",
};

/** Decisions that no caller of this conversation made, by the `by` of their fact. */
const SOURCES = {
  standing: "Approved by a standing approval",
  "brought along": "Decided in the conversation that was imported",
};

/** Where a call stands: a word, and its tone. */
export function callStatus(row) {
  const last = row.decisions.at(-1)?.verdict;
  if (last === "reject") return { word: "declined", tone: "bad" };
  if (last === "answer") return { word: "answered", tone: "good" };
  if (row.output) return { word: ENDED[row.output.status] ?? row.output.status, tone: row.output.status === "ok" ? "good" : "bad" };
  const attempt = row.attempts.at(-1);
  if (attempt?.lost && row.decisions.at(-1)?.kind !== "outcome") return { word: "outcome unknown", tone: "warn" };
  if (attempt?.paused) return { word: attempt.pausedFor, tone: attempt.pausedFor === "agent failed" ? "bad" : "warn" };
  if (attempt && !attempt.lost) return { word: "runs", tone: "live" };
  if (row.gated && row.decisions.length === 0) return { word: "waits for approval", tone: "warn" };
  return { word: row.handoff ? "is about to hand over" : "waits", tone: "" };
}

export function callTold(row, at) {
  const { word, tone } = callStatus(row);
  const paused = row.attempts.at(-1)?.paused;
  return el(
    "div",
    { class: `card call ${tone}` },
    el(
      "div",
      { class: "call-head" },
      icon("tool"),
      el("b", null, row.tool),
      row.arguments.length <= BESIDE && briefArguments(row.arguments),
      el("span", { class: `chip ${tone}` }, word),
      row.output?.took > 0 && el("span", { class: "soft small-print" }, lasted(row.output.took)),
      row.attempts.length > 1 && el("span", { class: "soft small-print" }, `attempt ${row.attempts.length}`),
    ),
    row.arguments.length > BESIDE && (isShort(row.arguments) ? briefArguments(row.arguments) : longArguments(row.arguments)),
    row.decisions.map((decision) => decisionTold(decision, row.arguments, at)),
    paused && !row.output && el("p", { class: "small-print" }, "In ", el("a", { href: to("sessions", paused) }, paused)),
    row.output && outputTold(row.output, at),
    row.late &&
      el(
        "div",
        { class: "late" },
        el("span", { class: "soft small-print" }, "Known only after the call had been answered:"),
        outputTold(row.late, at),
      ),
  );
}

const isShort = (text) => text.length <= SHORT_ARGUMENTS && !text.includes("\n");

function briefArguments(text) {
  return el("code", { class: "arguments" }, coloured(text));
}

function longArguments(text) {
  return el("details", { class: "fold" }, el("summary", null, el("code", { class: "arguments" }, brief(text, 90))), jsonBlock(text));
}

function decisionTold(decision, before, at) {
  const all = decision.standing ? ", and all like it in this session" : "";
  const how = SOURCES[decision.source] ?? `${DECIDED[decision.verdict] ?? decision.verdict}${all}`;
  const again = decision.kind === "outcome" && decision.verdict === "approve" ? "To be run again" : how;
  return el(
    "div",
    { class: `decision ${decision.verdict}` },
    el("p", null, icon(decision.verdict === "reject" ? "cross" : "check"), again, decision.words && el("q", null, decision.words)),
    decision.arguments && changesTold(before, decision.arguments),
    decision.output.length > 0 && outputTold({ parts: decision.output }, at),
  );
}

/** What a person changed: the arguments that differ, before and after; all of them where that cannot be told. */
function changesTold(before, after) {
  const [one, other] = [readObject(before), readObject(after)];
  if (!one || !other) return jsonBlock(after);
  const changed = [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((name) => told(one[name]) !== told(other[name]));
  return el(
    "ul",
    { class: "changed-arguments" },
    changed.map((name) =>
      el("li", null, el("code", null, name), " ", el("del", null, told(one[name])), " ", el("ins", null, told(other[name]))),
    ),
    changed.length === 0 && el("li", { class: "soft" }, "nothing was changed"),
  );
}

const told = (value) => (value === undefined ? "left out" : write(value));

function readObject(text) {
  try {
    const value = parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function outputTold(output, at) {
  return output.parts.map((part) => {
    if (part.part !== "text") return attachment(at.session, part);
    const text = part.text;
    if (text.length <= SHORT_OUTPUT && text.split("\n").length <= 5) return el("pre", { class: "output" }, text);
    return el(
      "details",
      { class: "fold" },
      el("summary", null, el("span", { class: "output-start" }, brief(text, 100))),
      looksLikeJson(text) ? jsonBlock(text) : el("pre", { class: "output", tabindex: "0" }, text),
    );
  });
}

const looksLikeJson = (text) => /^\s*[[{]/.test(text);
