/** The keyboard. May know: what is focused. Decides: when a key is a shortcut, and what the list of them says. */

import { focused } from "./dom.js";

const NAME = "legato.keys";

/** What can be typed where: [keys as they are shown, what they do]. The help shows it.
 * @type {[string, [string, string][]][]} */
export const SHORTCUTS = [
  [
    "Everywhere",
    [
      ["g s", "sessions"],
      ["g i", "inbox"],
      ["n", "a new conversation"],
      ["/", "search sessions"],
      ["t", "light, dark, or as the system"],
      ["?", "this list"],
      ["Esc", "leave a field, close what is open"],
    ],
  ],
  [
    "In a list",
    [
      ["j or ↓", "next"],
      ["k or ↑", "previous"],
      ["Home End", "first, last"],
      ["Enter", "open"],
    ],
  ],
  [
    "In a session",
    [
      ["1 … 5", "transcript, graph, timeline, seen, usage"],
      ["c", "write a message"],
      ["p", "the first question that waits"],
      ["r", "replay"],
      ["f", "fork from the row that has the focus"],
      ["v", "what the agent saw at that row"],
    ],
  ],
  [
    "Where you write",
    [
      ["Enter", "send"],
      ["Shift Enter", "new line"],
    ],
  ],
  [
    "On a question",
    [
      ["a", "approve"],
      ["e", "edit"],
      ["d", "decline"],
    ],
  ],
  [
    "In a replay",
    [
      ["← →", "one fact back, on"],
      ["Space", "play, pause"],
    ],
  ],
];

const bound = [];
let prefix = "";

/** Bind a key, "a" or "g s", until the returned function is called. What was bound last comes first. */
export function bind(keys, work) {
  const one = { keys, work };
  bound.unshift(one);
  return () => bound.splice(bound.indexOf(one), 1);
}

/** Single letters can be switched off: some people's speech input types them. */
export const lettersOn = () => read() !== "off";

export function setLetters(on) {
  try {
    localStorage.setItem(NAME, on ? "on" : "off");
  } catch {
    /* it stays as it is */
  }
}

function read() {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return "on";
  }
}

const writing = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    (target.matches("input, textarea, select") && !target.matches("[type=range], [type=checkbox], [type=radio]")));

export function listen() {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && writing(event.target)) {
      focused()?.blur();
      return;
    }
    if (writing(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key.length === 1 && event.key !== " " && !lettersOn()) return;
    const typed = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    const found = bound.find((one) => one.keys === typed && one.work(event) !== false);
    if (found) event.preventDefault();
    else if (bound.some((one) => one.keys.startsWith(`${typed} `))) prefix = typed;
  });
}
