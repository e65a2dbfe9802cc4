/** Rows of the transcript as elements. */

import { formatText } from "../components/formatted_text.js";
import { createIcon } from "../components/icons.js";
import { agentTag, attachmentView, jsonBlock } from "../components/widgets.js";
import { el, svg } from "../lib/dom.js";
import { formatClock, formatDateTime, formatDuration, formatNumber, pluralize, shorten } from "../lib/format.js";
import { routeTo } from "../lib/routes.js";
import { callCard, describeCallStatus } from "./tool_call.js";

/** Create the element of a row. `before` is the row above, or undefined.
 * `context`: { session, palette, size(), generation(), onFork(length) } */
export function rowElement(row, index, before, context) {
  const rendered = ROW_RENDERERS[row.kind](row, before, context);
  const position = row.position;
  const element = el(
    "article",
    {
      class: `row row-${row.kind} ${rendered.class ?? ""}`,
      tabindex: "-1",
      "aria-posinset": index + 1,
      "aria-setsize": context.size(),
      "aria-label": rendered.label,
      data: { position, reply: row.number ?? -1 },
    },
    rendered.children,
    rowActions(row, context),
  );
  element.addEventListener("focus", () => makeActionsFocusable(element));
  return element;
}

/** Create the actions of a row. They are visible on hover, and focusable once the row has the focus. */
function rowActions(row, context) {
  if (row.kind === "opened" && !context.onFork) return null;
  return el(
    "div",
    { class: "row-actions" },
    el("time", { class: "soft", datetime: new Date(row.at).toISOString(), title: formatDateTime(row.at) }, formatClock(row.at)),
    row.number >= 0 &&
      el(
        "a",
        {
          class: "plain small",
          href: routeTo("sessions", context.session, "seen", row.number),
          tabindex: "-1",
          title: `Model input (v) of reply ${row.number}`,
        },
        createIcon("eye"),
        "Model input",
      ),
    context.onFork &&
      el(
        "button",
        {
          class: "plain small",
          type: "button",
          tabindex: "-1",
          title: `Fork after fact ${row.position} (f)`,
          onclick: () => context.onFork(row.position + 1),
        },
        createIcon("fork"),
        "Fork",
      ),
    el(
      "a",
      {
        class: "plain small soft",
        href: routeTo("sessions", context.session, "timeline", row.position),
        tabindex: "-1",
        title: "This fact in the timeline",
      },
      `#${row.position}`,
    ),
  );
}

function makeActionsFocusable(element) {
  for (const each of element.querySelectorAll(".row-actions > [tabindex]")) each.tabIndex = 0;
}

const ROW_RENDERERS = {
  opened(row) {
    const origin = row.origin;
    const text = origin
      ? [
          origin.kind === "copy" ? "A copy of " : "Forked from ",
          el("a", { href: routeTo("sessions", origin.session, { at: Math.max(0, origin.position - 1) }) }, origin.session),
          ` after ${pluralize(origin.position, "fact")}`,
        ]
      : [`${row.workflow}, ${formatDateTime(row.at)}`];
    return { label: "Beginning", class: "quiet", children: el("p", null, text) };
  },

  message(row, before, context) {
    const author = row.author || "user";
    return {
      label: `${author} said`,
      class: row.blockedFor ? "blocked" : "",
      children: [
        el("div", { class: "who user" }, author),
        el(
          "div",
          { class: "bubble" },
          row.parts.map((part) =>
            part.part === "text"
              ? el("div", { class: "prose plain-words", dir: "auto" }, part.text)
              : attachmentView(context.session, part),
          ),
        ),
        row.blockedFor && el("p", { class: "soft small-print" }, `Blocked, agents do not see it: ${row.blockedFor}`),
      ],
    };
  },

  reply(row, before, context) {
    const isContinued = before && before.agent === row.agent && ["thought", "call", "reply"].includes(before.kind);
    return {
      label: `${row.agent} said`,
      class: `${context.palette.classOf(row.agent)}${row.rejectedFor ? " rejected" : ""}${row.isRefusal ? " refusal" : ""}`,
      children: [
        !isContinued && authorLine(row, context),
        el("div", { class: "prose" }, formatText(row.text)),
        row.finish !== "stop" &&
          el(
            "p",
            { class: "soft small-print" },
            row.finish === "length" ? "Cut off at the length limit." : "Cut off by the provider's content filter.",
          ),
        row.rejectedFor && el("p", { class: "soft small-print" }, `Not accepted, users do not see it: ${row.rejectedFor}`),
      ],
    };
  },

  thought(row, before, context) {
    return {
      label: `${row.agent} thought`,
      class: context.palette.classOf(row.agent),
      children: [
        before?.agent !== row.agent && authorLine(row, context),
        el(
          "details",
          { class: "thought" },
          el("summary", null, el("span", { class: "soft" }, "Thought: "), shorten(row.text, 110)),
          el("div", { class: "prose soft" }, formatText(row.text)),
        ),
      ],
    };
  },

  call(row, before, context) {
    const isContinued = before && before.agent === row.agent && ["thought", "call", "reply"].includes(before.kind);
    return {
      label: `${row.agent} called ${row.tool}: ${describeCallStatus(row).word}`,
      class: context.palette.classOf(row.agent),
      children: [!isContinued && authorLine(row, context), callCard(row, context)],
    };
  },

  hosted(row, before, context) {
    return {
      label: `The provider ran ${row.tool}`,
      class: context.palette.classOf(row.agent),
      children: el(
        "details",
        { class: "card call" },
        el("summary", null, createIcon("tool"), el("b", null, row.tool), el("span", { class: "soft" }, " by the provider")),
        jsonBlock(row.body),
      ),
    };
  },

  handoff(row, before, context) {
    return {
      label: `${row.source} handed over to ${row.target}`,
      children: el(
        "div",
        { class: "handoff" },
        el("span", { class: "handoff-line" }, agentTag(context.palette, row.source), slurIcon(), agentTag(context.palette, row.target)),
        row.reason && el("span", { class: "reason" }, row.reason),
        row.decisions.map((decision) =>
          el("span", { class: "soft small-print" }, decision.verdict === "approve" ? "approved" : decision.verdict),
        ),
        row.input && el("details", { class: "handoff-input" }, el("summary", null, "input of the handoff"), jsonBlock(row.input)),
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

function authorLine(row, context) {
  const tokens = (row.usage.input ?? 0) + (row.usage.output ?? 0);
  const usage = [row.model, tokens ? `${formatNumber(tokens)} tokens` : "", row.took ? formatDuration(row.took) : ""]
    .filter(Boolean)
    .join(" · ");
  return el("div", { class: "who" }, agentTag(context.palette, row.agent), usage && el("span", { class: "soft small-print" }, usage));
}

/** Draw a slur, the sign for legato in sheet music. */
function slurIcon() {
  return svg(
    "svg",
    { class: "slur-mark", viewBox: "0 0 44 16", "aria-hidden": "true" },
    svg("path", { d: "M2 13C12 1 32 1 41 11" }),
    svg("path", { class: "tip", d: "M42.5 13.5l-6-1.6 4-3.6z" }),
  );
}
