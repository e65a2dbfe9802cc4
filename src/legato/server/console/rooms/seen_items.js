/** One part of the conversation, as a request had it. May know: the API's items. Decides: the mark of in, words only and out. */

import { el } from "../parts/dom.js";
import { brief } from "../parts/format.js";
import { agentTag, coloured } from "../parts/pieces.js";

const MARKS = { whole: ["in", "in"], words: ["words only", "half"], no: ["out", "out"] };
const LONG = 600;

export function itemElement(item, room, seen) {
  const [word, mark] = MARKS[item.shown];
  const isNew = seen.changes?.call?.items.added.includes(item.position);
  return el(
    "div",
    { class: `seen-item ${mark}`, role: "listitem" },
    el(
      "div",
      { class: "seen-mark", title: item.rule },
      el("span", { class: `sign sign-${mark}`, "aria-hidden": "true" }),
      el("span", { class: "mark-word" }, word),
    ),
    el(
      "div",
      { class: "seen-body" },
      el(
        "div",
        { class: "who" },
        item.kind === "said"
          ? el("span", { class: "user" }, item.author || "user")
          : item.kind === "reply"
            ? agentTag(room.palette, item.author)
            : el("span", { class: "soft" }, `${item.kind}${item.author ? ` for ${item.author}` : ""}`),
        el("span", { class: "soft small-print" }, `#${item.position}`),
        isNew && el("span", { class: "chip" }, "new"),
      ),
      item.text && long(item.text),
      item.calls.map((call) => callLine(call, item.shown)),
      el("p", { class: "rule small-print" }, item.rule),
    ),
  );
}

function long(text) {
  if (text.length <= LONG) return el("p", { class: "prose plain-words", dir: "auto" }, text);
  return el(
    "details",
    { class: "fold" },
    el("summary", null, brief(text, 240)),
    el("p", { class: "prose plain-words", dir: "auto" }, text),
  );
}

function callLine(call, shown) {
  const line = [el("b", null, call.tool), el("code", null, coloured(brief(call.arguments, 140)))];
  return el(
    "div",
    { class: `seen-call-line${shown === "words" ? " left-out" : ""}` },
    call.output
      ? el(
          "details",
          { class: "fold" },
          el("summary", null, line, call.status !== "ok" && el("span", { class: "chip bad" }, call.status)),
          el("pre", { class: "output", tabindex: "0" }, call.output),
        )
      : el("p", null, line),
    shown === "words" && el("span", { class: "soft small-print" }, "the call and its output were left out"),
  );
}
