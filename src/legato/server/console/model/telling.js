/** A fact in one line. May know: facts. Decides: what of a fact is read at a glance. */

import { brief, lasted } from "../parts/format.js";
import { callName, pauseReason, wordsOf } from "./story.js";

/** What kinds of facts there are, for those who want to see some of them. */
export const KINDS = {
  words: ["message_received", "model_replied", "agent_prompted", "compacted"],
  tools: ["call_started", "call_returned", "call_lost", "call_paused", "approval_checked"],
  people: ["message_received", "decided", "cancelled", "redacted"],
  handoffs: ["handed_off"],
  trouble: ["model_request_failed", "call_lost", "cancelled"],
};

/** Who a fact is of; empty if of nobody. */
export function whoOf(fact, facts) {
  if (fact.agent) return fact.agent;
  if (fact.fact === "handed_off") return fact.source;
  if (fact.call) return facts[fact.call[0]]?.agent ?? "";
  return "";
}

const calledAt = (call, facts) => {
  const item = facts[call[0]]?.items?.[call[1]];
  return item?.tool ?? `call ${callName(call)}`;
};

const TOLD = {
  opened: (fact) =>
    fact.origin
      ? `${fact.origin.kind ?? "fork"} of ${fact.origin.session} at ${fact.origin.position}`
      : `a conversation of ${fact.workflow} began`,
  message_received: (fact) => wordsOf(fact.content),
  model_replied: (fact) => fact.items.map(itemTold).join("  ") || "nothing",
  conversation_claimed: (fact) => `a request to conversation ${fact.conversation}`,
  model_request_failed: (fact) => `${fact.error} (attempt ${fact.number ?? 1}${fact.final ? ", the last" : ""})`,
  approval_checked: (fact, facts) => `${calledAt(fact.call, facts)} ${fact.needed ? "needs approval" : "needs no approval"}`,
  decided: (fact, facts) => {
    const about = fact.call ? calledAt(fact.call, facts) : (fact.limit ?? fact.standing?.[1] ?? "");
    return `${fact.verdict} ${about}${fact.by ? ` (${fact.by})` : ""}${fact.words ? `: ${fact.words}` : ""}`;
  },
  call_started: (fact, facts) => `${calledAt(fact.call, facts)}${fact.attempt > 1 ? `, attempt ${fact.attempt}` : ""}`,
  call_returned: (fact, facts) => {
    const how = fact.status && fact.status !== "ok" ? ` [${fact.status}]` : "";
    return `${calledAt(fact.call, facts)}${how}${fact.took ? ` after ${lasted(fact.took)}` : ""}: ${wordsOf(fact.output)}`;
  },
  call_lost: (fact, facts) => `nobody knows how ${calledAt(fact.call, facts)} ended`,
  call_paused: (fact, facts) => `${calledAt(fact.call, facts)} ${pauseReason(fact)} in ${fact.session}`,
  child_usage_reported: (fact, facts) => {
    const tokens = fact.agents.reduce((sum, [, usage]) => sum + (usage.input ?? 0) + (usage.output ?? 0), 0);
    return `${calledAt(fact.call, facts)}: ${tokens} tokens so far`;
  },
  handed_off: (fact) => `${fact.source} to ${fact.target}`,
  guardrail_judged: (fact) => `${fact.kind} ${fact.about ?? ""}: ${fact.stop ? fact.words || "stop" : "passes"}`,
  agent_prompted: (fact) => fact.text,
  compacted: (fact) => `up to ${fact.upto}: ${fact.summary}`,
  cancelled: (fact) => fact.words ?? "",
  redacted: (fact) => `the words at ${fact.positions.join(", ")}${fact.reason ? `: ${fact.reason}` : ""}`,
};

function itemTold(item) {
  if (item.item === "call") return `${item.tool}(${brief(item.arguments ?? "{}", 120)})`;
  if (item.item === "reasoning") return "";
  if (item.item === "hosted") return `[${item.kind}]`;
  return brief(item.text, 200);
}

export function told(fact, facts) {
  return brief((TOLD[fact.fact]?.(fact, facts) ?? "").trim(), 240);
}
