/** The sides of a request: what surrounded the conversation, the body as it was sent, and what changed. May know: the API's `seen`. */

import { el } from "../parts/dom.js";
import { difference } from "../parts/difference.js";
import { counted } from "../parts/format.js";
import { agentTag, jsonBlock } from "../parts/pieces.js";
import { to } from "../parts/routes.js";

export const PARTS = [
  ["frame", "Frame"],
  ["body", "As sent"],
  ["call", "Since the last call"],
  ["agent", "Since the last agent"],
];

const PROOF = {
  proved: ["Proved", "A digest of the request was recorded with the reply, and it fits these bytes."],
  refuted: [
    "Refuted",
    "A digest of the request was recorded with the reply, and does not fit these bytes: this version compiles it in another way.",
  ],
};
const WIRES = { responses: "OpenAI Responses", chat: "Chat Completions", anthropic: "Anthropic Messages" };

export function partShown(part, seen, room) {
  if (part === "body") return body(seen);
  if (part === "call" || part === "agent") return changed(seen.changes[part], part, seen, room);
  return frame(seen);
}

function frame(seen) {
  const policy = typeof seen.history === "string" ? seen.history : seen.history.told || seen.history.policy;
  return [
    section("Instructions", seen.instructions ? el("p", { class: "prose plain-words", dir: "auto" }, seen.instructions) : nothing()),
    seen.added.length > 0 &&
      section(
        "Added messages",
        seen.added.map((text) => el("p", { class: "prose plain-words", dir: "auto" }, text)),
      ),
    section("What it may see", el("p", { class: "prose" }, policy)),
    seen.summary && section("Summary in place of what came before", el("p", { class: "prose plain-words" }, seen.summary)),
    section(`Tools (${seen.tools.length})`, seen.tools.length ? seen.tools.map(tool) : nothing()),
    seen.output && section("Typed output", jsonBlock(asText(seen.output))),
    section("Options", seen.options ? jsonBlock(asText(seen.options)) : nothing()),
    el("p", { class: "soft small-print" }, "frame ", el("code", null, seen.frame)),
  ];
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const nothing = () => el("p", { class: "soft" }, "none");

function section(title, ...children) {
  return el("section", { class: "frame-part" }, el("h3", null, title), children);
}

function tool({ name, description, parameters }) {
  return el(
    "details",
    { class: "fold" },
    el("summary", null, el("b", null, name), description && el("span", { class: "soft" }, ` ${description}`)),
    jsonBlock(asText(parameters)),
  );
}

function body(seen) {
  const [proved, told] = PROOF[seen.proof] ?? ["", ""];
  return [
    el(
      "p",
      { class: "small-print" },
      seen.wire
        ? `${WIRES[seen.wire] ?? seen.wire}: the exact request, compiled again from the ledger.`
        : "A model of your own: what it was handed.",
      " Secret values are digests.",
    ),
    proved && el("p", { class: `small-print proof ${seen.proof}` }, el("b", null, `${proved}. `), told),
    jsonBlock(seen.body, { label: "The request's body" }),
  ];
}

function changed(change, part, seen, room) {
  if (!change) return el("p", { class: "soft" }, part === "call" ? "This was the first call." : "No other agent was called before.");
  const { tools, items } = change;
  return [
    el(
      "p",
      { class: "small-print" },
      "Compared with ",
      el("a", { href: to("sessions", room.id, "seen", change.with, { part }) }, `call ${change.with}`),
      " of ",
      agentTag(room.palette, change.agent),
      ".",
    ),
    section(
      "Conversation",
      el(
        "p",
        null,
        [
          items.added.length && `${counted(items.added.length, "part")} more`,
          items.removed.length && `${counted(items.removed.length, "part")} fewer`,
          items.changed?.length && `${counted(items.changed.length, "part")} shown otherwise`,
        ]
          .filter(Boolean)
          .join(", ") || "The same.",
      ),
      positions("more", items.added),
      positions("fewer", items.removed),
      positions("otherwise", items.changed ?? []),
    ),
    change.instructions && section("Instructions", difference(change.instructions)),
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
    change.history && section("What it may see", beforeAfter(change.history)),
    change.options && section("Options", beforeAfter(change.options)),
    section("Body", difference(change.body, "The same bytes.")),
  ];
}

function beforeAfter({ before, after }) {
  const lines = (value, sign, name) => [value].flat().map((each) => el("li", { class: name }, `${sign} ${asText(each ?? "none")}`));
  return el("ul", { class: "changes" }, lines(before, "-", "removed"), lines(after, "+", "added"));
}

function positions(word, list) {
  if (!list.length) return null;
  const shown = list.slice(-12);
  return el(
    "p",
    { class: "small-print soft" },
    `${word}: ${list.length > shown.length ? "… " : ""}${shown.map((position) => `#${position}`).join(" ")}`,
  );
}
