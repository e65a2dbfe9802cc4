/** Something that waits for a person. May know: the API's requests. Decides: how it is answered; what is shown is what is approved. */

import { ask, deliveryKey, path } from "../parts/api.js";
import { el, show } from "../parts/dom.js";
import { parse, write } from "../parts/exact.js";
import { Mistaken, formOf } from "../parts/form.js";
import { digestStart } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { announce, copier, tellFailure } from "../parts/notices.js";
import { agentTag, coloured } from "../parts/pieces.js";
import { to } from "../parts/routes.js";

const ASKED = {
  approval: "wants to run",
  result: "waits for the result of",
  outcome: "ran this, and nobody knows how it ended:",
  limit: "reached a limit",
};
const SAID = {
  approval: { approve: "Approve", reject: "Decline", edit: "Edit" },
  result: { answer: "Give the result", reject: "Decline" },
  outcome: { approve: "Run it again", answer: "Say how it ended", reject: "Fail it" },
  limit: { approve: "Allow as much again", reject: "Give the turn back" },
};
const DONE = { approve: "Approved", reject: "Declined", edit: "Approved with other arguments", answer: "Answered" };

/** A card for one request of `session` (the outer one). `onAnswered` is called when the server has it. */
export function requestCard(request, { session, palette, onAnswered, titled = false }) {
  const more = el("div", { class: "request-more" });
  const always = el("input", { type: "checkbox" });
  const buttons = request.verdicts.map((verdict) =>
    el(
      "button",
      { class: verdict === "approve" ? "primary" : "", type: "button", data: { verdict }, onclick: () => chosen(verdict) },
      icon({ approve: "check", reject: "cross", edit: "tool", answer: "send" }[verdict]),
      SAID[request.kind]?.[verdict] ?? verdict,
    ),
  );
  const canAlways = request.kind === "approval" && request.tool;
  const choices = el(
    "div",
    { class: "buttons" },
    buttons,
    canAlways && el("label", { class: "always" }, always, `and all later calls of ${request.tool} by ${request.agent} in this session`),
  );
  const keys = new Map(); // one per answer: sent again, it is recorded once

  const card = el(
    "section",
    {
      class: "request card",
      tabindex: "-1",
      "aria-label": `${request.agent} ${ASKED[request.kind]} ${request.tool ?? ""}`,
      data: { request: request.id },
    },
    el(
      "div",
      { class: "request-head" },
      titled && el("a", { class: "request-in", href: to("sessions", session) }, session),
      el("p", null, agentTag(palette, request.agent), ` ${ASKED[request.kind] ?? "asks"} `, request.tool && el("b", null, request.tool)),
      request.session &&
        request.session !== session &&
        el("p", { class: "small-print soft" }, "asked in ", el("a", { href: to("sessions", request.session) }, request.session)),
    ),
    request.kind === "limit" ? el("p", { class: "prose" }, request.prompt) : argumentsShown(request),
    request.kind !== "limit" &&
      el(
        "p",
        { class: "digest small-print soft" },
        "digest ",
        el("code", { title: request.digest }, digestStart(request.digest)),
        copier(request.digest, "Copy the whole digest"),
        request.secrets?.length ? ` Secret, and shown as a digest: ${request.secrets.join(", ")}.` : "",
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
    chosen(verdict);
  });

  function chosen(verdict) {
    if (verdict === "approve") send({ verdict, ...(always.checked ? { always: true } : {}) });
    else if (verdict === "reject") open(declining());
    else if (verdict === "edit") open(editing());
    else open(answering());
  }

  function open({ element, focus }) {
    choices.hidden = true; // what is being written is not what they would send
    show(more, element);
    focus.focus();
    element.scrollIntoView({ block: "nearest" });
  }

  function part(title, controls, verb, given) {
    const go = el("button", { class: "primary", type: "submit" }, verb);
    return el(
      "form",
      {
        class: "answering",
        onsubmit: (event) => {
          event.preventDefault();
          try {
            send(given());
          } catch (error) {
            if (!(error instanceof Mistaken)) throw error;
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
              show(more);
              choices.hidden = false;
              card.focus();
            },
          },
          "Back",
        ),
      ),
    );
  }

  function declining() {
    const words = el("textarea", { rows: 2, placeholder: "Words for the agent, if you like", "aria-label": "Words for the agent" });
    return {
      element: part(
        request.kind === "limit" ? "Give the turn back to the user" : "Decline",
        request.kind === "limit" ? null : words,
        SAID[request.kind]?.reject ?? "Decline",
        () => ({ verdict: "reject", words: words.value }),
      ),
      focus: request.kind === "limit" ? more : words,
    };
  }

  function editing() {
    const form = formOf(request.schema, request.arguments, request.secrets ?? []);
    const element = part("Run it with other arguments", form.element, "Approve these arguments", () => ({
      verdict: "edit",
      arguments: form.read(),
    }));
    return { element, focus: element.querySelector("input, textarea, select") ?? element };
  }

  function answering() {
    const value = el("textarea", { rows: 3, "aria-label": "The result, as text or JSON", placeholder: "The result: text, or JSON" });
    return {
      element: part(request.kind === "result" ? "The result" : "How it ended", value, "Answer", () => ({
        verdict: "answer",
        value: asValue(value.value),
      })),
      focus: value,
    };
  }

  async function send(answer) {
    const named = write(answer);
    if (!keys.has(named)) keys.set(named, deliveryKey());
    card.focus({ preventScroll: true }); // what has the focus is about to go
    for (const each of card.querySelectorAll("button")) each.disabled = true;
    try {
      await ask(path`api/sessions/${session}/answers`, {
        method: "POST",
        body: { request: request.id, ...(request.kind === "limit" ? {} : { digest: request.digest }), ...answer, key: keys.get(named) },
      });
      announce(DONE[answer.verdict]);
      show(card, el("p", { class: "soft" }, icon("check"), ` ${DONE[answer.verdict]}`));
    } catch (error) {
      tellFailure(error);
      for (const each of card.querySelectorAll("button")) each.disabled = false;
      if (error.status !== 409) return;
    }
    onAnswered();
  }

  return card;
}

function argumentsShown(request) {
  const text = typeof request.arguments === "string" ? request.arguments : write(request.arguments, 2);
  return el(
    "div",
    { class: "with-copy" },
    el("pre", { class: "code json exact", tabindex: "0", "aria-label": "The exact arguments" }, coloured(text)),
    copier(text),
  );
}

/** What somebody wrote as a result: JSON where it is an object or a list, else the words themselves. */
function asValue(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return parse(text);
  } catch {
    return text;
  }
}
