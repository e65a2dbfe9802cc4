/** The form that asks for the access token. */

import { el } from "../lib/dom.js";
import { saveToken } from "../lib/token.js";

/** Create the form. `onToken` is called when a token was entered. `wasRefused`: the server refused the previous token. */
export function loginForm(wasRefused, onToken) {
  const input = el("input", { type: "password", autocomplete: "off", id: "token", "aria-label": "Token", spellcheck: "false" });
  const form = el(
    "form",
    {
      class: "login card",
      onsubmit: (event) => {
        event.preventDefault();
        const token = input.value.trim().replace(/^.*#token=/, "");
        if (!token) return;
        saveToken(token);
        onToken();
      },
    },
    el("h1", { tabindex: "-1" }, wasRefused ? "The token was not accepted" : "Enter the access token"),
    el(
      "p",
      null,
      "The address that ",
      el("code", null, "legato serve"),
      " printed at its start contains the token, unless you chose one yourself. ",
      "Open that address, or enter the token here. It is kept only in this tab.",
    ),
    el("label", { for: "token" }, "Token"),
    input,
    el("button", { class: "primary", type: "submit" }, "Log in"),
  );
  setTimeout(() => input.focus(), 0);
  return form;
}
