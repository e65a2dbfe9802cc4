/** Notices, errors, confirmations and announcements for screen readers. */

import { ApiError } from "../lib/api.js";
import { byId, el } from "../lib/dom.js";
import { shorten } from "../lib/format.js";
import { createIcon } from "./icons.js";

const NOTICE_MS = 6000;

/** Announce a text to screen readers. */
export function announce(text) {
  byId("announcements").textContent = shorten(text, 400);
}

/** Show a notice at the edge of the page for some seconds. */
export function showNotice(text, tone = "") {
  const remove = () => toast.remove();
  const toast = el(
    "div",
    { class: `toast ${tone}` },
    el("span", null, text),
    el("button", { class: "plain small", "aria-label": "Dismiss", onclick: remove }, createIcon("cross")),
  );
  byId("toasts").append(toast);
  setTimeout(remove, tone === "bad" ? NOTICE_MS * 2 : NOTICE_MS);
}

/** Show a notice for a refused request. Any other error is a bug of the console, and is thrown again. */
export function showError(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof ApiError)) throw error;
  showNotice([error.message, error.found && `found: ${error.found}`, error.advice].filter(Boolean).join(". "), "bad");
}

const toSentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** Create a panel that describes an error. `retry` is called by its button. */
export function errorPanel(error, retry) {
  return el(
    "div",
    { class: "failure", role: "alert" },
    el("p", null, el("strong", null, toSentence(error.message))),
    error.expected && el("p", null, `Expected: ${error.expected}`),
    error.found && el("p", null, `Found: ${error.found}`),
    error.advice && el("p", null, toSentence(error.advice)),
    retry && el("button", { onclick: retry }, "Try again"),
  );
}

/** Make a button run an async function, which may be refused. It is disabled meanwhile. */
export function onClickAsync(button, work) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    try {
      await work();
    } catch (error) {
      showError(error);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
  return button;
}

/** Create a button that copies a text. */
export function copyButton(text, label = "Copy") {
  const button = el("button", { class: "plain small", title: label, "aria-label": label, type: "button" }, createIcon("copy"));
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      button.classList.add("done");
      announce("Copied");
      setTimeout(() => button.classList.remove("done"), 1200);
    } catch {
      showNotice("The browser does not let this page copy; select the text instead.", "bad");
    }
  });
  return button;
}

/** Ask for confirmation of something that cannot be undone. Resolves to true if it is confirmed. */
export function confirmDialog(question, detail, verb) {
  return new Promise((resolve) => {
    const dialog = el(
      "dialog",
      { class: "ask", "aria-label": question },
      el(
        "form",
        { method: "dialog" },
        el("h2", null, question),
        el("p", null, detail),
        el(
          "div",
          { class: "buttons" },
          el("button", { value: "no", autofocus: true }, "Keep it"),
          el("button", { value: "yes", class: "danger" }, verb),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      resolve(dialog.returnValue === "yes");
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
