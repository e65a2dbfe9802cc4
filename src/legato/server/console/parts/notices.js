/** What the page tells beside what it shows. May know: the document. Decides: what is announced, and how errors read. */

import { Refused } from "./api.js";
import { byId, el } from "./dom.js";
import { brief } from "./format.js";
import { icon } from "./icons.js";

const LASTS = 6000;

/** Say something to those who hear the page. */
export function announce(text) {
  byId("announcements").textContent = brief(text, 400);
}

/** A word at the edge of the page, which goes by itself. */
export function notice(text, tone = "") {
  const gone = () => toast.remove();
  const toast = el(
    "div",
    { class: `toast ${tone}` },
    el("span", null, text),
    el("button", { class: "plain small", "aria-label": "Dismiss", onclick: gone }, icon("cross")),
  );
  byId("toasts").append(toast);
  setTimeout(gone, tone === "bad" ? LASTS * 2 : LASTS);
}

/** What somebody is told when something was refused; whatever else went wrong is our own mistake, and is not hidden. */
export function tellFailure(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Refused)) throw error;
  notice([error.message, error.found && `found: ${error.found}`, error.advice].filter(Boolean).join(". "), "bad");
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** A failure as part of a page. */
export function failure(error, again) {
  return el(
    "div",
    { class: "failure", role: "alert" },
    el("p", null, el("strong", null, sentence(error.message))),
    error.expected && el("p", null, `Expected: ${error.expected}`),
    error.found && el("p", null, `Found: ${error.found}`),
    error.advice && el("p", null, sentence(error.advice)),
    again && el("button", { onclick: again }, "Try again"),
  );
}

/** A button that does something that may be refused; meanwhile it cannot be pressed again. */
export function acting(button, work) {
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    try {
      await work();
    } catch (error) {
      tellFailure(error);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
  return button;
}

/** A button that copies a text. */
export function copier(text, label = "Copy") {
  const button = el("button", { class: "plain small", title: label, "aria-label": label, type: "button" }, icon("copy"));
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      button.classList.add("done");
      announce("Copied");
      setTimeout(() => button.classList.remove("done"), 1200);
    } catch {
      notice("The browser does not let this page copy; select the text instead.", "bad");
    }
  });
  return button;
}

/** Ask before something that cannot be taken back. Resolves to whether it is meant. */
export function confirmed(question, detail, verb) {
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
