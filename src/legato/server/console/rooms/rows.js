/** Rows of a transcript. May know: a story's rows. Decides: how each kind reads, and what can be done at it. */

import { el, svg } from "../parts/dom.js";
import { brief, clock, count, counted, lasted, moment } from "../parts/format.js";
import { icon } from "../parts/icons.js";
import { agentTag, attachment, jsonBlock } from "../parts/pieces.js";
import { prose } from "../parts/prose.js";
import { to } from "../parts/routes.js";
import { callStatus, callTold } from "./calls.js";

/** `at`: { session, palette, size(), generation(), onFork(facts) }. `before` is the row above, or undefined. */
export function rowElement(row, index, before, at) {
  const made = ROWS[row.kind](row, before, at);
  const position = row.position;
  const element = el(
    "article",
    {
      class: `row row-${row.kind} ${made.class ?? ""}`,
      tabindex: "-1",
      "aria-posinset": index + 1,
      "aria-setsize": at.size(),
      "aria-label": made.label,
      data: { position, reply: row.number ?? -1 },
    },
    made.children,
    actions(row, at),
  );
  element.addEventListener("focus", () => reachable(element));
  return element;
}

/** What can be done at a row: reached by the pointer, or by the keyboard once the row has the focus. */
function actions(row, at) {
  if (row.kind === "opened" && !at.onFork) return null;
  return el(
    "div",
    { class: "row-actions" },
    el("time", { class: "soft", datetime: new Date(row.at).toISOString(), title: moment(row.at) }, clock(row.at)),
    row.number >= 0 &&
      el(
        "a",
        {
          class: "plain small",
          href: to("sessions", at.session, "seen", row.number),
          tabindex: "-1",
          title: `What the agent saw (v): reply ${row.number}`,
        },
        icon("eye"),
        "Seen",
      ),
    at.onFork &&
      el(
        "button",
        {
          class: "plain small",
          type: "button",
          tabindex: "-1",
          title: `Fork after fact ${row.position} (f)`,
          onclick: () => at.onFork(row.position + 1),
        },
        icon("fork"),
        "Fork",
      ),
    el(
      "a",
      {
        class: "plain small soft",
        href: to("sessions", at.session, "timeline", row.position),
        tabindex: "-1",
        title: "This fact on the timeline",
      },
      `#${row.position}`,
    ),
  );
}

function reachable(element) {
  for (const each of element.querySelectorAll(".row-actions > [tabindex]")) each.tabIndex = 0;
}

const ROWS = {
  opened(row) {
    const origin = row.origin;
    const told = origin
      ? [
          origin.kind === "copy" ? "A copy of " : "Forked from ",
          el("a", { href: to("sessions", origin.session, { at: Math.max(0, origin.position - 1) }) }, origin.session),
          ` after ${counted(origin.position, "fact")}`,
        ]
      : [`${row.workflow}, ${moment(row.at)}`];
    return { label: "Beginning", class: "quiet", children: el("p", null, told) };
  },

  said(row, before, at) {
    const author = row.author || "user";
    return {
      label: `${author} said`,
      class: row.withheld ? "withheld" : "",
      children: [
        el("div", { class: "who user" }, author),
        el(
          "div",
          { class: "bubble" },
          row.parts.map((part) =>
            part.part === "text" ? el("div", { class: "prose plain-words", dir: "auto" }, part.text) : attachment(at.session, part),
          ),
        ),
        row.withheld && el("p", { class: "soft small-print" }, `Withheld from the agents: ${row.withheld}`),
      ],
    };
  },

  reply(row, before, at) {
    const goesOn = before && before.agent === row.agent && (before.kind === "thought" || before.kind === "call" || before.kind === "reply");
    return {
      label: `${row.agent} said`,
      class: `${at.palette.of(row.agent)}${row.rejected ? " rejected" : ""}${row.refused ? " refused" : ""}`,
      children: [
        !goesOn && who(row, at),
        el("div", { class: "prose" }, prose(row.text)),
        row.finish !== "stop" &&
          el(
            "p",
            { class: "soft small-print" },
            row.finish === "length" ? "Cut short by a limit on its length." : "Cut short by the provider's filter.",
          ),
        row.rejected && el("p", { class: "soft small-print" }, `Not accepted, and shown to no user: ${row.rejected}`),
      ],
    };
  },

  thought(row, before, at) {
    return {
      label: `${row.agent} thought`,
      class: at.palette.of(row.agent),
      children: [
        before?.agent !== row.agent && who(row, at),
        el(
          "details",
          { class: "thought" },
          el("summary", null, el("span", { class: "soft" }, "Thought: "), brief(row.text, 110)),
          el("div", { class: "prose soft" }, prose(row.text)),
        ),
      ],
    };
  },

  call(row, before, at) {
    const goesOn = before && before.agent === row.agent && ["thought", "call", "reply"].includes(before.kind);
    return {
      label: `${row.agent} called ${row.tool}: ${callStatus(row).word}`,
      class: at.palette.of(row.agent),
      children: [!goesOn && who(row, at), callTold(row, at)],
    };
  },

  hosted(row, before, at) {
    return {
      label: `The provider did ${row.tool}`,
      class: at.palette.of(row.agent),
      children: el(
        "details",
        { class: "card call" },
        el("summary", null, icon("tool"), el("b", null, row.tool), el("span", { class: "soft" }, " by the provider")),
        jsonBlock(row.body),
      ),
    };
  },

  handoff(row, before, at) {
    return {
      label: `${row.source} handed over to ${row.target}`,
      children: el(
        "div",
        { class: "handoff" },
        el("span", { class: "handoff-line" }, agentTag(at.palette, row.source), slur(), agentTag(at.palette, row.target)),
        row.reason && el("span", { class: "reason" }, row.reason),
        row.decisions.map((decision) =>
          el("span", { class: "soft small-print" }, decision.verdict === "approve" ? "approved" : decision.verdict),
        ),
        row.input && el("details", { class: "handoff-input" }, el("summary", null, "what it carried"), jsonBlock(row.input)),
      ),
    };
  },

  note(row) {
    return {
      label: "Note",
      class: row.tone,
      children: row.more
        ? el("details", null, el("summary", null, row.text), el("div", { class: "prose" }, row.more))
        : el("p", null, row.text),
    };
  },
};

function who(row, at) {
  const tokens = (row.usage.input ?? 0) + (row.usage.output ?? 0);
  const spent = [row.model, tokens ? `${count(tokens)} tokens` : "", row.took ? lasted(row.took) : ""].filter(Boolean).join(" · ");
  return el("div", { class: "who" }, agentTag(at.palette, row.agent), spent && el("span", { class: "soft small-print" }, spent));
}

/** What legato looks like: two notes, and the slur from one to the other. */
function slur() {
  return svg(
    "svg",
    { class: "slur-mark", viewBox: "0 0 44 16", "aria-hidden": "true" },
    svg("path", { d: "M2 13C12 1 32 1 41 11" }),
    svg("path", { class: "tip", d: "M42.5 13.5l-6-1.6 4-3.6z" }),
  );
}
