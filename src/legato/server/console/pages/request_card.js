/** The card of a pending request, with its answers. The arguments shown are exactly those that are approved. */

import { createIcon } from "../components/icons.js";
import { announce, copyButton, showError } from "../components/notices.js";
import { InvalidValue, createForm } from "../components/schema_form.js";
import { agentTag, highlightJson } from "../components/widgets.js";
import { apiPath, newDeliveryKey, requestJson } from "../lib/api.js";
import { el, setChildren } from "../lib/dom.js";
import { parseJson, stringifyJson } from "../lib/exact_json.js";
import { shortDigest } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";

const REQUEST_LABELS = {
  approval: "wants to run",
  result: "waits for the result of",
  outcome: "ran this tool, and its outcome is unknown:",
  limit: "reached a limit",
};
const VERDICT_BUTTONS = {
  approval: { approve: "Approve", reject: "Decline", edit: "Edit" },
  result: { answer: "Supply the result", reject: "Decline" },
  outcome: { approve: "Run it again", answer: "Supply the outcome", reject: "Mark as failed" },
  limit: { approve: "Extend the limit", reject: "End the turn" },
};
const ANSWERED_LABELS = { approve: "Approved", reject: "Declined", edit: "Approved with other arguments", answer: "Answered" };

/** Create the card of a request. `session` is the root session; `onAnswered` is called when the server has recorded an answer. */
export function requestCard(request, { session, palette, onAnswered, titled = false }) {
  const more = el("div", { class: "request-more" });
  const always = el("input", { type: "checkbox" });
  const buttons = request.verdicts.map((verdict) =>
    el(
      "button",
      { class: verdict === "approve" ? "primary" : "", type: "button", data: { verdict }, onclick: () => chooseVerdict(verdict) },
      createIcon({ approve: "check", reject: "cross", edit: "tool", answer: "send" }[verdict]),
      VERDICT_BUTTONS[request.kind]?.[verdict] ?? verdict,
    ),
  );
  const canAlways = request.kind === "approval" && request.tool;
  const choices = el(
    "div",
    { class: "buttons" },
    buttons,
    canAlways &&
      el("label", { class: "always" }, always, `Also approve all later calls of ${request.tool} by ${request.agent} in this session`),
  );
  const keys = new Map(); // idempotency keys by answer: a retry is recorded once

  const card = el(
    "section",
    {
      class: "request card",
      tabindex: "-1",
      "aria-label": `${request.agent} ${REQUEST_LABELS[request.kind]} ${request.tool ?? ""}`,
      data: { request: request.id },
    },
    el(
      "div",
      { class: "request-head" },
      titled && el("a", { class: "request-in", href: routeTo("sessions", session) }, session),
      el(
        "p",
        null,
        agentTag(palette, request.agent),
        ` ${REQUEST_LABELS[request.kind] ?? "has a request about"} `,
        request.tool && el("b", null, request.tool),
      ),
      request.session &&
        request.session !== session &&
        el("p", { class: "small-print soft" }, "requested in ", el("a", { href: routeTo("sessions", request.session) }, request.session)),
    ),
    request.kind === "limit" ? el("p", { class: "prose" }, request.prompt) : argumentsView(request),
    request.kind !== "limit" &&
      el(
        "p",
        { class: "digest small-print soft" },
        "digest ",
        el("code", { title: request.digest }, shortDigest(request.digest)),
        copyButton(request.digest, "Copy the whole digest"),
        request.secrets?.length ? ` Secret arguments are shown as digests: ${request.secrets.join(", ")}.` : "",
      ),
    choices,
    more,
  );
  card.addEventListener("keydown", (event) => {
    if (event.target !== card || event.ctrlKey || event.metaKey || event.altKey) return;
    const verdict = { a: request.verdicts.includes("approve") ? "approve" : "answer", d: "reject", e: "edit" }[event.key];
    if (!verdict || !request.verdicts.includes(verdict)) return;
    event.preventDefault();
    event.stopPropagation();
    chooseVerdict(verdict);
  });

  function chooseVerdict(verdict) {
    if (verdict === "approve") send({ verdict, ...(always.checked ? { always: true } : {}) });
    else if (verdict === "reject") open(rejectForm());
    else if (verdict === "edit") open(editForm());
    else open(answerForm());
  }

  function open({ element, focus }) {
    choices.hidden = true; // these buttons would not send what is in the form
    setChildren(more, element);
    focus.focus();
    element.scrollIntoView({ block: "nearest" });
  }

  function createAnswerForm(title, controls, verb, readAnswer) {
    const go = el("button", { class: "primary", type: "submit" }, verb);
    return el(
      "form",
      {
        class: "answering",
        onsubmit: (event) => {
          event.preventDefault();
          try {
            send(readAnswer());
          } catch (error) {
            if (!(error instanceof InvalidValue)) throw error;
          }
        },
      },
      el("h2", null, title),
      controls,
      el(
        "div",
        { class: "buttons" },
        go,
        el(
          "button",
          {
            type: "button",
            onclick: () => {
              setChildren(more);
              choices.hidden = false;
              card.focus();
            },
          },
          "Back",
        ),
      ),
    );
  }

  function rejectForm() {
    const words = el("textarea", { rows: 2, placeholder: "Message to the agent (optional)", "aria-label": "Message to the agent" });
    return {
      element: createAnswerForm(
        request.kind === "limit" ? "End the turn" : "Decline",
        request.kind === "limit" ? null : words,
        VERDICT_BUTTONS[request.kind]?.reject ?? "Decline",
        () => ({ verdict: "reject", words: words.value }),
      ),
      focus: request.kind === "limit" ? more : words,
    };
  }

  function editForm() {
    const form = createForm(request.schema, request.arguments, request.secrets ?? []);
    const element = createAnswerForm("Run with other arguments", form.element, "Approve these arguments", () => ({
      verdict: "edit",
      arguments: form.read(),
    }));
    return { element, focus: element.querySelector("input, textarea, select") ?? element };
  }

  function answerForm() {
    const value = el("textarea", { rows: 3, "aria-label": "The result, as text or JSON", placeholder: "Text or JSON" });
    return {
      element: createAnswerForm(request.kind === "result" ? "Result" : "Outcome", value, "Answer", () => ({
        verdict: "answer",
        value: parseResult(value.value),
      })),
      focus: value,
    };
  }

  async function send(answer) {
    const content = stringifyJson(answer);
    if (!keys.has(content)) keys.set(content, newDeliveryKey());
    card.focus({ preventScroll: true }); // the focused element will be removed
    for (const each of card.querySelectorAll("button")) each.disabled = true;
    try {
      await requestJson(apiPath`api/sessions/${session}/answers`, {
        method: "POST",
        body: { request: request.id, ...(request.kind === "limit" ? {} : { digest: request.digest }), ...answer, key: keys.get(content) },
      });
      announce(ANSWERED_LABELS[answer.verdict]);
      setChildren(card, el("p", { class: "soft" }, createIcon("check"), ` ${ANSWERED_LABELS[answer.verdict]}`));
    } catch (error) {
      showError(error);
      for (const each of card.querySelectorAll("button")) each.disabled = false;
      if (error.status !== 409) return;
    }
    onAnswered();
  }

  return card;
}

function argumentsView(request) {
  const text = typeof request.arguments === "string" ? request.arguments : stringifyJson(request.arguments, 2);
  return el(
    "div",
    { class: "with-copy" },
    el("pre", { class: "code json exact", tabindex: "0", "aria-label": "The exact arguments" }, highlightJson(text)),
    copyButton(text),
  );
}

/** Parse a result: JSON if it is an object or a list, otherwise text. */
function parseResult(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}
