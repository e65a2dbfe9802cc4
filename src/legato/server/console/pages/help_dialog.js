/** The help dialog with the keyboard shortcuts. */

import { el } from "../lib/dom.js";
import { SHORTCUTS, areLettersEnabled, enableLetters } from "../lib/shortcuts.js";

export function openHelpDialog(app) {
  const letters = el("input", { type: "checkbox", checked: areLettersEnabled() });
  letters.addEventListener("change", () => enableLetters(letters.checked));
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
    el("label", { class: "switch" }, letters, " Use single letters as shortcuts"),
    el("p", { class: "soft small-print" }, `Legato ${app.serverInfo?.legato ?? ""} · ${app.serverInfo?.store ?? ""}`),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
