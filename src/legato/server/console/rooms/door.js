/** Where a stranger is asked for the token. May know: access. Decides: what somebody is told who has none. */

import { keep } from "../parts/access.js";
import { el } from "../parts/dom.js";

/** A form; `enter` is called when a token was typed. `refused`: the one that was there was not accepted. */
export function door(refused, enter) {
  const typed = el("input", { type: "password", autocomplete: "off", id: "token", "aria-label": "Token", spellcheck: "false" });
  const form = el(
    "form",
    {
      class: "door card",
      onsubmit: (event) => {
        event.preventDefault();
        const token = typed.value.trim().replace(/^.*#token=/, "");
        if (!token) return;
        keep(token);
        enter();
      },
    },
    el("h1", { tabindex: "-1" }, refused ? "The token was not accepted" : "Who is there?"),
    el(
      "p",
      null,
      "The address that ",
      el("code", null, "legato serve"),
      " printed when it started ends with the token, unless you chose one yourself. ",
      "Open that address, or type the token here. It is kept in this tab only.",
    ),
    el("label", { for: "token" }, "Token"),
    typed,
    el("button", { class: "primary", type: "submit" }, "Enter"),
  );
  setTimeout(() => typed.focus(), 0);
  return form;
}
