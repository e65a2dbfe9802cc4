/** What the keyboard does. May know: the shortcuts. Decides: how they are listed. */

import { el } from "../parts/dom.js";
import { SHORTCUTS, lettersOn, setLetters } from "../parts/keys.js";

export function openHelp(page) {
  const letters = el("input", { type: "checkbox", checked: lettersOn() });
  letters.addEventListener("change", () => setLetters(letters.checked));
  const dialog = el(
    "dialog",
    { class: "help", "aria-labelledby": "help-title" },
    el(
      "form",
      { method: "dialog" },
      el("h2", { id: "help-title" }, "Keyboard"),
      el("button", { class: "plain", "aria-label": "Close", autofocus: true }, "Close"),
    ),
    el(
      "div",
      { class: "help-parts" },
      SHORTCUTS.map(([title, keys]) =>
        el(
          "section",
          null,
          el("h3", null, title),
          el(
            "dl",
            null,
            keys.map(([typed, does]) => [
              el(
                "dt",
                null,
                typed.split(" ").map((each) => (["or", "…"].includes(each) ? ` ${each} ` : el("kbd", null, each))),
              ),
              el("dd", null, does),
            ]),
          ),
        ),
      ),
    ),
    el("label", { class: "switch" }, letters, " Single letters are shortcuts"),
    el("p", { class: "soft small-print" }, `Legato ${page.about?.legato ?? ""} · ${page.about?.store ?? ""}`),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
