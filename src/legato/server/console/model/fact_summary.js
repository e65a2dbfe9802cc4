/** One-line summaries of facts, for the timeline. */

import { formatDuration, shorten } from "../lib/format.js";
import { callId, describePause, toText } from "./conversation.js";

/** The filters of the timeline: types of facts by label. */
export const FACT_FILTERS = {
  messages: ["message_received", "model_replied", "agent_prompted", "compacted"],
  tools: ["call_started", "call_returned", "call_lost", "call_paused", "approval_checked"],
  people: ["message_received", "decided", "cancelled", "redacted"],
  handoffs: ["handed_off"],
  trouble: ["model_request_failed", "call_lost", "cancelled"],
};

/** Return the agent of a fact; empty if it has none. */
export function findAgent(fact, facts) {
  if (fact.agent) return fact.agent;
  if (fact.fact === "handed_off") return fact.source;
  if (fact.call) return facts[fact.call[0]]?.agent ?? "";
  return "";
}

const findToolName = (call, facts) => {
  const item = facts[call[0]]?.items?.[call[1]];
  return item?.tool ?? `call ${callId(call)}`;
};

const SUMMARIES = {
  opened: (fact) =>
    fact.origin
      ? `${fact.origin.kind ?? "fork"} of ${fact.origin.session} at ${fact.origin.position}`
      : `a session of ${fact.workflow} was created`,
  message_received: (fact) => toText(fact.content),
  model_replied: (fact) => fact.items.map(summarizeItem).join("  ") || "an empty reply",
  conversation_claimed: (fact) => `a request to conversation ${fact.conversation}`,
  model_request_failed: (fact) => `${fact.error} (attempt ${fact.number ?? 1}${fact.final ? ", the last" : ""})`,
  approval_checked: (fact, facts) => `${findToolName(fact.call, facts)} ${fact.needed ? "needs approval" : "needs no approval"}`,
  decided: (fact, facts) => {
    const about = fact.call ? findToolName(fact.call, facts) : (fact.limit ?? fact.standing?.[1] ?? "");
    return `${fact.verdict} ${about}${fact.by ? ` (${fact.by})` : ""}${fact.words ? `: ${fact.words}` : ""}`;
  },
  call_started: (fact, facts) => `${findToolName(fact.call, facts)}${fact.attempt > 1 ? `, attempt ${fact.attempt}` : ""}`,
  call_returned: (fact, facts) => {
    const status = fact.status && fact.status !== "ok" ? ` [${fact.status}]` : "";
    return `${findToolName(fact.call, facts)}${status}${fact.took ? ` after ${formatDuration(fact.took)}` : ""}: ${toText(fact.output)}`;
  },
  call_lost: (fact, facts) => `the outcome of ${findToolName(fact.call, facts)} is unknown`,
  call_paused: (fact, facts) => `${findToolName(fact.call, facts)} ${describePause(fact)} in ${fact.session}`,
  child_usage_reported: (fact, facts) => {
    const tokens = fact.agents.reduce((sum, [, usage]) => sum + (usage.input ?? 0) + (usage.output ?? 0), 0);
    return `${findToolName(fact.call, facts)}: ${tokens} tokens so far`;
  },
  handed_off: (fact) => `${fact.source} to ${fact.target}`,
  guardrail_judged: (fact) => `${fact.kind} ${fact.about ?? ""}: ${fact.stop ? fact.words || "stop" : "passes"}`,
  termination_judged: (fact) => `${fact.about ?? ""}: ${fact.stop ? "the conversation ends" : "the conversation continues"}`,
  agent_prompted: (fact) => fact.text,
  compacted: (fact) => `up to ${fact.upto}: ${fact.summary}`,
  cancelled: (fact) => fact.words ?? "",
  redacted: (fact) => `the text at ${fact.positions.join(", ")}${fact.reason ? `: ${fact.reason}` : ""}`,
};

function summarizeItem(item) {
  if (item.item === "call") return `${item.tool}(${shorten(item.arguments ?? "{}", 120)})`;
  if (item.item === "reasoning") return "";
  if (item.item === "hosted") return `[${item.kind}]`;
  return shorten(item.text, 200);
}

export function summarizeFact(fact, facts) {
  return shorten((SUMMARIES[fact.fact]?.(fact, facts) ?? "").trim(), 240);
}
