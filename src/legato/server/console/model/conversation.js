/** The conversation as rows of a transcript, folded from facts.
 *
 * `add` is called with one fact after the other. Rows are in the order of the conversation. A call is one row, which changes as more facts
 * about the call are recorded.
 */

/** Return content as a list of parts. */
export function toParts(content) {
  if (typeof content === "string") return content ? [{ part: "text", text: content }] : [];
  return content ?? [];
}

/** Return content as text; images and files are represented by their names. */
export function toText(content) {
  return toParts(content)
    .map((part) => (part.part === "text" ? part.text : `[${part.part} ${part.name || part.url || part.digest}]`))
    .join("\n");
}

export const callId = (ref) => `${ref[0]}.${ref[1]}`;

export class Conversation {
  /** `handoffTools`: the names of the workflow's handoff tools, as far as they are known. */
  constructor(handoffTools = new Set()) {
    this.rows = [];
    this.length = 0;
    this.activeAgent = "";
    this.agents = []; // in order of appearance
    this.turnCounts = new Map();
    this.handoffCounts = new Map(); // "source\ntarget" -> number of handoffs
    this.lastHandoff = "";
    this.replyCount = 0;
    this.#handoffTools = handoffTools;
  }

  #handoffTools;
  #calls = new Map();
  #messageRows = new Map(); // position -> row, for later judgements of guardrails
  #replies = new Map();

  static fromFacts(facts, length, handoffTools) {
    const conversation = new Conversation(handoffTools);
    for (let index = 0; index < length; index++) conversation.add(facts[index]);
    return conversation;
  }

  add(fact) {
    this.length = fact.position + 1;
    this[`_${fact.fact}`]?.(fact);
  }

  // -- rows ----------------------------------------------------------------------------------------------------------

  #addRow(kind, fact, more, suffix = "") {
    const row = { kind, id: `${fact.position}${suffix}`, position: fact.position, at: fact.at, version: 0, ...more };
    this.rows.push(row);
    return row;
  }

  #markChanged(row) {
    row.version++;
  }

  #addNote(fact, tone, text, more = {}) {
    return this.#addRow("note", fact, { tone, text, ...more });
  }

  #addAgent(agent) {
    if (agent && !this.agents.includes(agent)) this.agents.push(agent);
  }

  #findCall(ref) {
    return this.#calls.get(callId(ref));
  }

  // -- facts ---------------------------------------------------------------------------------------------------------

  _opened(fact) {
    this.#addRow("opened", fact, { workflow: fact.workflow, origin: fact.origin ?? null });
  }

  _message_received(fact) {
    this.#messageRows.set(
      fact.position,
      this.#addRow("message", fact, { author: fact.author ?? "", parts: toParts(fact.content), blockedFor: "" }),
    );
  }

  _model_replied(fact) {
    const number = this.replyCount++;
    const reply = {
      agent: fact.agent,
      number,
      model: fact.model ?? "",
      usage: fact.usage ?? {},
      took: fact.took ?? 0,
      finish: fact.finish ?? "stop",
    };
    this.#addAgent(fact.agent);
    this.activeAgent = fact.agent;
    this.turnCounts.set(fact.agent, (this.turnCounts.get(fact.agent) ?? 0) + 1);
    for (const loss of fact.losses ?? [])
      this.#addRow("note", fact, { tone: "quiet", text: `left out for the provider: ${loss}` }, `l${this.rows.length}`);
    let replyRow = null;
    fact.items.forEach((item, index) => {
      const suffix = `.${index}`;
      if (item.item === "words" || item.item === "refusal") {
        if (replyRow) replyRow.text += `\n${item.text}`;
        else
          replyRow = this.#addRow(
            "reply",
            fact,
            { ...reply, text: item.text, isRefusal: item.item === "refusal", rejectedFor: "" },
            suffix,
          );
      } else if (item.item === "reasoning" && item.text) {
        this.#addRow("thought", fact, { ...reply, text: item.text }, suffix);
      } else if (item.item === "call") {
        this.#calls.set(
          callId([fact.position, index]),
          this.#addRow(
            "call",
            fact,
            {
              ...reply,
              ref: callId([fact.position, index]),
              tool: item.tool,
              arguments: item.arguments ?? "{}",
              needsApproval: false,
              decisions: [],
              attempts: [],
              output: null,
              late: null,
              handoff: this.#handoffTools.has(item.tool) || item.tool.startsWith("handoff_to_"),
            },
            suffix,
          ),
        );
      } else if (item.item === "hosted") {
        this.#addRow("hosted", fact, { ...reply, tool: item.kind, body: item.body ?? "{}" }, suffix);
      }
    });
    if (fact.items.length === 0) this.#addNote(fact, "quiet", `${fact.agent} replied without content`, { agent: fact.agent, number });
    if (replyRow) this.#replies.set(fact.position, replyRow);
  }

  _model_request_failed(fact) {
    this.#addAgent(fact.agent);
    const outlook = fact.final ? ", no automatic retry" : "";
    this.#addNote(fact, "bad", `The model of ${fact.agent} failed: ${fact.error} (attempt ${fact.number ?? 1}${outlook})`, {
      agent: fact.agent,
    });
  }

  _approval_checked(fact) {
    const row = this.#findCall(fact.call);
    if (!row || !fact.needed) return;
    row.needsApproval = true;
    this.#markChanged(row);
  }

  _decided(fact) {
    const row = fact.call && this.#findCall(fact.call);
    const decision = {
      verdict: fact.verdict,
      kind: fact.kind,
      words: fact.words ?? "",
      arguments: fact.arguments ?? "",
      output: toParts(fact.output ?? ""),
      source: fact.by ?? "",
      standing: Boolean(fact.standing),
      at: fact.at,
      position: fact.position,
    };
    if (row) {
      row.decisions.push(decision);
      this.#markChanged(row);
    } else if (fact.kind === "standing") {
      this.#addNote(fact, "quiet", `The standing approval of ${fact.standing?.[1]} for ${fact.standing?.[0]} was revoked`);
    } else {
      const outcome = fact.verdict === "approve" ? "was reached and extended" : "was reached and ended the turn";
      this.#addNote(fact, "quiet", `The limit of ${fact.limit.replaceAll("_", " ")} ${outcome}${fact.words ? `: ${fact.words}` : ""}`);
    }
  }

  _call_started(fact) {
    const row = this.#findCall(fact.call);
    if (!row) return;
    row.attempts.push({ number: fact.attempt, at: fact.at, lost: false, paused: "" });
    this.#markChanged(row);
  }

  _call_returned(fact) {
    const row = this.#findCall(fact.call);
    if (!row) return;
    const output = {
      parts: toParts(fact.output),
      status: fact.status ?? "ok",
      took: fact.took ?? 0,
      at: fact.at,
    };
    if (fact.late) row.late = output;
    else row.output = output;
    this.#markChanged(row);
  }

  _call_lost(fact) {
    this.#updateAttempt(fact, (attempt) => {
      attempt.lost = true;
    });
  }

  _call_paused(fact) {
    this.#updateAttempt(fact, (attempt) => {
      attempt.paused = fact.session;
      attempt.pausedFor = describePause(fact);
    });
  }

  #updateAttempt(fact, change) {
    const row = this.#findCall(fact.call);
    const attempt = row?.attempts.find((each) => each.number === fact.attempt);
    if (!attempt) return;
    change(attempt);
    this.#markChanged(row);
  }

  _handed_off(fact) {
    const call = this.#findCall(fact.call);
    const index = call ? this.rows.lastIndexOf(call) : -1;
    if (index >= 0) {
      this.rows.splice(index, 1); // the handoff row replaces the row of the call
    }
    const edited = call?.decisions.findLast((decision) => decision.arguments);
    const handoff = readHandoffArguments(edited?.arguments ?? call?.arguments);
    this.#addAgent(fact.source);
    this.#addAgent(fact.target);
    this.activeAgent = fact.target;
    this.lastHandoff = `${fact.source}\n${fact.target}`;
    this.handoffCounts.set(this.lastHandoff, (this.handoffCounts.get(this.lastHandoff) ?? 0) + 1);
    this.#addRow("handoff", fact, {
      source: fact.source,
      target: fact.target,
      reason: handoff.reason,
      input: handoff.input,
      number: call?.number ?? -1,
      decisions: call?.decisions ?? [],
    });
  }

  _guardrail_judged(fact) {
    if (!fact.stop) return;
    const words = fact.words ?? "";
    if (fact.kind === "input") {
      const row = this.#messageRows.get(fact.about);
      if (row) {
        row.blockedFor = words || "a guardrail";
        this.#markChanged(row);
      }
      this.#addRow("reply", fact, {
        agent: fact.by || "guardrail",
        number: -1,
        text: words || "This message was not accepted.",
        isRefusal: true,
        rejectedFor: "",
        usage: {},
        took: 0,
        model: "",
        finish: "stop",
      });
    } else if (fact.kind === "tool") {
      this.#addNote(fact, "quiet", `A guardrail stopped the call${words ? `: ${words}` : ""}`);
    } else {
      const row = this.#replies.get(fact.about);
      if (row) {
        row.rejectedFor = words || "not accepted";
        this.#markChanged(row);
      } else this.#addNote(fact, "quiet", `The reply was not accepted${words ? `: ${words}` : ""}`);
    }
  }

  _termination_judged(fact) {
    if (fact.stop) this.#addNote(fact, "quiet", "The conversation has ended");
  }

  _agent_prompted(fact) {
    this.#addNote(fact, "quiet", `${fact.agent} was prompted to continue: ${fact.text}`, { agent: fact.agent });
  }

  _compacted(fact) {
    this.#addNote(fact, "quiet", `The history of ${fact.agent} up to fact ${fact.upto} was replaced by a summary`, {
      agent: fact.agent,
      more: fact.summary,
    });
  }

  _cancelled(fact) {
    this.#addNote(fact, "quiet", `Cancelled${fact.words ? `: ${fact.words}` : ""}`);
  }

  _redacted(fact) {
    const author = fact.by ? ` by ${fact.by}` : "";
    this.#addNote(
      fact,
      "quiet",
      `The text of facts ${fact.positions.join(", ")} was redacted${author}${fact.reason ? `: ${fact.reason}` : ""}`,
    );
  }
}

/** Read the reason and the input of a handoff. */
function readHandoffArguments(text) {
  try {
    const { reason = "", input = "" } = JSON.parse(text ?? "{}") ?? {};
    return { reason: String(reason), input: typeof input === "string" ? input : JSON.stringify(input, null, 2) };
  } catch {
    return { reason: "", input: "" };
  }
}

/** Say why a call that runs a child session is paused. */
export function describePause(fact) {
  if (fact.error) return "agent failed";
  if (fact.retry_at) return "waits for a retry";
  return fact.needed ? "waits for a limit" : "waits for a decision";
}
