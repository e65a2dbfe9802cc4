/** Keyboard shortcuts: bindings, and the list that the help shows. */

import { focusedElement } from "./dom.js";

const STORAGE_KEY = "legato.keys";

/** The shortcuts by place, as the help shows them: [keys, what they do].
 * @type {[string, [string, string][]][]} */
export const SHORTCUTS = [
  [
    "Everywhere",
    [
      ["g s", "sessions"],
      ["g i", "inbox"],
      ["n", "a new conversation"],
      ["/", "search sessions"],
      ["t", "switch between light, dark and system colours"],
      ["?", "show this list"],
      ["Esc", "leave a field, close a dialog"],
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
      ["1 … 5", "transcript, graph, timeline, model input, usage"],
      ["c", "write a message"],
      ["p", "the first pending request"],
      ["r", "replay"],
      ["f", "fork after the focused row"],
      ["v", "model input of the focused row"],
    ],
  ],
  [
    "In the message field",
    [
      ["Enter", "send"],
      ["Shift Enter", "new line"],
    ],
  ],
  [
    "On a pending request",
    [
      ["a", "approve"],
      ["e", "edit"],
      ["d", "decline"],
    ],
  ],
  [
    "In a replay",
    [
      ["← →", "previous, next fact"],
      ["Space", "play, pause"],
    ],
  ],
];

const bindings = [];
let prefix = "";

/** Bind keys, as "a" or "g s", until the returned function is called. The latest binding is tried first. */
export function bindKey(keys, handler) {
  const binding = { keys, handler };
  bindings.unshift(binding);
  return () => bindings.splice(bindings.indexOf(binding), 1);
}

/** Return true unless single-letter shortcuts are disabled, as for speech input, which types letters. */
export const areLettersEnabled = () => readSetting() !== "off";

export function enableLetters(enabled) {
  try {
    localStorage.setItem(STORAGE_KEY, enabled ? "on" : "off");
  } catch {
    /* without storage, the setting does not change */
  }
}

function readSetting() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return "on";
  }
}

const isTextInput = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable ||
    (target.matches("input, textarea, select") && !target.matches("[type=range], [type=checkbox], [type=radio]")));

export function listenForKeys() {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isTextInput(event.target)) {
      focusedElement()?.blur();
      return;
    }
    if (isTextInput(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key.length === 1 && event.key !== " " && !areLettersEnabled()) return;
    const typed = prefix ? `${prefix} ${event.key}` : event.key;
    prefix = "";
    const handled = bindings.some((binding) => binding.keys === typed && binding.handler(event) !== false);
    if (handled) event.preventDefault();
    else if (bindings.some((binding) => binding.keys.startsWith(`${typed} `))) prefix = typed;
  });
}
