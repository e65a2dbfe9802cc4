/** One item of the conversation, marked as included in a model request, included as text only, or left out. */

import { agentTag, highlightJson } from "../components/widgets.js";
import { el } from "../lib/dom.js";
import { shorten } from "../lib/format.js";

const VISIBILITY_LABELS = { whole: ["in", "in"], words: ["text only", "half"], no: ["out", "out"] };
const MAX_INLINE_CHARS = 600;

export function itemElement(item, page, explanation) {
  const [label, mark] = VISIBILITY_LABELS[item.shown];
  const isNew = explanation.changes?.call?.items.added.includes(item.position);
  return el(
    "div",
    { class: `input-item ${mark}`, role: "listitem" },
    el(
      "div",
      { class: "input-mark", title: item.rule },
      el("span", { class: `sign sign-${mark}`, "aria-hidden": "true" }),
      el("span", { class: "mark-label" }, label),
    ),
    el(
      "div",
      { class: "input-body" },
      el(
        "div",
        { class: "who" },
        item.kind === "said"
          ? el("span", { class: "user" }, item.author || "user")
          : item.kind === "reply"
            ? agentTag(page.palette, item.author)
            : el("span", { class: "soft" }, `${item.kind}${item.author ? ` for ${item.author}` : ""}`),
        el("span", { class: "soft small-print" }, `#${item.position}`),
        isNew && el("span", { class: "chip" }, "new"),
      ),
      item.text && foldedText(item.text),
      item.calls.map((call) => callLine(call, item.shown)),
      el("p", { class: "rule small-print" }, item.rule),
    ),
  );
}

function foldedText(text) {
  if (text.length <= MAX_INLINE_CHARS) return el("p", { class: "prose plain-words", dir: "auto" }, text);
  return el(
    "details",
    { class: "fold" },
    el("summary", null, shorten(text, 240)),
    el("p", { class: "prose plain-words", dir: "auto" }, text),
  );
}

function callLine(call, visibility) {
  const line = [el("b", null, call.tool), el("code", null, highlightJson(shorten(call.arguments, 140)))];
  return el(
    "div",
    { class: `input-call-line${visibility === "words" ? " left-out" : ""}` },
    call.output
      ? el(
          "details",
          { class: "fold" },
          el("summary", null, line, call.status !== "ok" && el("span", { class: "chip bad" }, call.status)),
          el("pre", { class: "output", tabindex: "0" }, call.output),
        )
      : el("p", null, line),
    visibility === "words" && el("span", { class: "soft small-print" }, "the call and its output were left out"),
  );
}
