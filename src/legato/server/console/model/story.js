/** A conversation as people read it. May know: facts. Decides: which rows a transcript has, and who had control after each fact.
 *
 * A fold, as everything here: `add` one fact after the other. Rows are in the order of the conversation; a call is one row, which says more
 * as more is recorded about it. `touched` is the first row that changed since somebody last asked (`settle`).
 */

/** Content as parts, whatever it was recorded as. */
export function partsOf(content) {
  if (typeof content === "string") return content ? [{ part: "text", text: content }] : [];
  return content ?? [];
}

/** The words of some content; pictures and files are named. */
export function wordsOf(content) {
  return partsOf(content)
    .map((part) => (part.part === "text" ? part.text : `[${part.part} ${part.name || part.url || part.digest}]`))
    .join("\n");
}

export const callName = (ref) => `${ref[0]}.${ref[1]}`;

export class Story {
  /** `handoffTools`: the names of the tools by which agents hand over, as far as they are known. */
  constructor(handoffTools = new Set()) {
    this.rows = [];
    this.length = 0;
    this.active = "";
    this.agents = []; // in the order in which they appeared
    this.turns = new Map();
    this.edges = new Map(); // "source\ntarget" -> how often
    this.lastEdge = "";
    this.replies = 0;
    this.touched = 0;
    this.#handoffTools = handoffTools;
  }

  #handoffTools;
  #calls = new Map();
  #said = new Map(); // position -> row, for what is judged later
  #replies = new Map();

  static of(facts, length, handoffTools) {
    const story = new Story(handoffTools);
    for (let index = 0; index < length; index++) story.add(facts[index]);
    return story;
  }

  /** The first row that changed since this was last asked. */
  settle() {
    const touched = this.touched;
    this.touched = this.rows.length;
    return touched;
  }

  add(fact) {
    this.length = fact.position + 1;
    this[`_${fact.fact}`]?.(fact);
  }

  // -- rows ----------------------------------------------------------------------------------------------------------

  #push(kind, fact, more, suffix = "") {
    const row = { kind, id: `${fact.position}${suffix}`, position: fact.position, at: fact.at, version: 0, ...more };
    this.rows.push(row);
    return row;
  }

  #change(row) {
    row.version++;
    const index = this.rows.lastIndexOf(row);
    if (index >= 0) this.touched = Math.min(this.touched, index);
  }

  #note(fact, tone, text, more = {}) {
    return this.#push("note", fact, { tone, text, ...more });
  }

  #met(agent) {
    if (agent && !this.agents.includes(agent)) this.agents.push(agent);
  }

  #call(ref) {
    return this.#calls.get(callName(ref));
  }

  // -- facts ---------------------------------------------------------------------------------------------------------

  _opened(fact) {
    this.#push("opened", fact, { workflow: fact.workflow, origin: fact.origin ?? null });
  }

  _message_received(fact) {
    this.#said.set(fact.position, this.#push("said", fact, { author: fact.author ?? "", parts: partsOf(fact.content), withheld: "" }));
  }

  _model_replied(fact) {
    const number = this.replies++;
    const reply = {
      agent: fact.agent,
      number,
      model: fact.model ?? "",
      usage: fact.usage ?? {},
      took: fact.took ?? 0,
      finish: fact.finish ?? "stop",
    };
    this.#met(fact.agent);
    this.active = fact.agent;
    this.turns.set(fact.agent, (this.turns.get(fact.agent) ?? 0) + 1);
    for (const loss of fact.losses ?? [])
      this.#push("note", fact, { tone: "quiet", text: `left out for the provider: ${loss}` }, `l${this.rows.length}`);
    let spoken = null;
    fact.items.forEach((item, index) => {
      const suffix = `.${index}`;
      if (item.item === "words" || item.item === "refusal") {
        if (spoken) spoken.text += `\n${item.text}`;
        else spoken = this.#push("reply", fact, { ...reply, text: item.text, refused: item.item === "refusal", rejected: "" }, suffix);
      } else if (item.item === "reasoning" && item.text) {
        this.#push("thought", fact, { ...reply, text: item.text }, suffix);
      } else if (item.item === "call") {
        this.#calls.set(
          callName([fact.position, index]),
          this.#push(
            "call",
            fact,
            {
              ...reply,
              ref: callName([fact.position, index]),
              tool: item.tool,
              arguments: item.arguments ?? "{}",
              gated: false,
              decisions: [],
              attempts: [],
              output: null,
              late: null,
              judged: "",
              handoff: this.#handoffTools.has(item.tool) || item.tool.startsWith("handoff_to_"),
            },
            suffix,
          ),
        );
      } else if (item.item === "hosted") {
        this.#push("hosted", fact, { ...reply, tool: item.kind, body: item.body ?? "{}" }, suffix);
      }
    });
    if (fact.items.length === 0) this.#note(fact, "quiet", `${fact.agent} said nothing`, { agent: fact.agent, number });
    if (spoken) this.#replies.set(fact.position, spoken);
  }

  _model_request_failed(fact) {
    this.#met(fact.agent);
    const outlook = fact.final ? ", and it is not tried again unasked" : "";
    this.#note(fact, "bad", `The model of ${fact.agent} failed: ${fact.error} (attempt ${fact.number ?? 1}${outlook})`, {
      agent: fact.agent,
    });
  }

  _approval_checked(fact) {
    const row = this.#call(fact.call);
    if (!row || !fact.needed) return;
    row.gated = true;
    this.#change(row);
  }

  _decided(fact) {
    const row = fact.call && this.#call(fact.call);
    const decision = {
      verdict: fact.verdict,
      kind: fact.kind,
      words: fact.words ?? "",
      arguments: fact.arguments ?? "",
      output: partsOf(fact.output ?? ""),
      source: fact.by ?? "",
      standing: Boolean(fact.standing),
      at: fact.at,
      position: fact.position,
    };
    if (row) {
      row.decisions.push(decision);
      this.#change(row);
    } else if (fact.kind === "standing") {
      this.#note(fact, "quiet", `The standing approval of ${fact.standing?.[1]} for ${fact.standing?.[0]} was withdrawn`);
    } else {
      const told = fact.verdict === "approve" ? "was allowed as much again" : "was reached, and the turn went back to the user";
      this.#note(fact, "quiet", `The limit of ${fact.limit.replaceAll("_", " ")} ${told}${fact.words ? `: ${fact.words}` : ""}`);
    }
  }

  _call_started(fact) {
    const row = this.#call(fact.call);
    if (!row) return;
    row.attempts.push({ number: fact.attempt, at: fact.at, lost: false, paused: "" });
    this.#change(row);
  }

  _call_returned(fact) {
    const row = this.#call(fact.call);
    if (!row) return;
    const output = {
      parts: partsOf(fact.output),
      status: fact.status ?? "ok",
      took: fact.took ?? 0,
      at: fact.at,
      ran: (fact.attempt ?? 0) > 0,
      full: fact.full ?? "",
    };
    if (fact.late) row.late = output;
    else row.output = output;
    this.#change(row);
  }

  _call_lost(fact) {
    this.#attempt(fact, (attempt) => {
      attempt.lost = true;
    });
  }

  _call_paused(fact) {
    this.#attempt(fact, (attempt) => {
      attempt.paused = fact.session;
      attempt.pausedFor = pauseReason(fact);
    });
  }

  #attempt(fact, change) {
    const row = this.#call(fact.call);
    const attempt = row?.attempts.find((each) => each.number === fact.attempt);
    if (!attempt) return;
    change(attempt);
    this.#change(row);
  }

  _handed_off(fact) {
    const call = this.#call(fact.call);
    const index = call ? this.rows.lastIndexOf(call) : -1;
    if (index >= 0) {
      this.rows.splice(index, 1); // the line below tells all of it
      this.touched = Math.min(this.touched, index);
    }
    const edited = call?.decisions.findLast((decision) => decision.arguments);
    const carried = readArguments(edited?.arguments ?? call?.arguments);
    this.#met(fact.source);
    this.#met(fact.target);
    this.active = fact.target;
    this.lastEdge = `${fact.source}\n${fact.target}`;
    this.edges.set(this.lastEdge, (this.edges.get(this.lastEdge) ?? 0) + 1);
    this.#push("handoff", fact, {
      source: fact.source,
      target: fact.target,
      reason: carried.reason,
      input: carried.input,
      number: call?.number ?? -1,
      decisions: call?.decisions ?? [],
    });
  }

  _guardrail_judged(fact) {
    if (!fact.stop) return;
    const words = fact.words ?? "";
    if (fact.kind === "termination") {
      this.#note(fact, "quiet", `The conversation is over${words ? `: ${words}` : ""}`);
    } else if (fact.kind === "input") {
      const row = this.#said.get(fact.about);
      if (row) {
        row.withheld = words || "a guardrail";
        this.#change(row);
      }
      this.#push("reply", fact, {
        agent: fact.by || "guardrail",
        number: -1,
        text: words || "This message was not accepted.",
        refused: true,
        rejected: "",
        guardrail: true,
        usage: {},
        took: 0,
        model: "",
        finish: "stop",
      });
    } else if (fact.kind === "tool") {
      this.#note(fact, "quiet", `A guardrail stopped the call${words ? `: ${words}` : ""}`);
    } else {
      const row = this.#replies.get(fact.about);
      if (row) {
        row.rejected = words || "not accepted";
        this.#change(row);
      } else this.#note(fact, "quiet", `The reply was not accepted${words ? `: ${words}` : ""}`);
    }
  }

  _agent_prompted(fact) {
    this.#note(fact, "quiet", `${fact.agent} was told to go on: ${fact.text}`, { agent: fact.agent });
  }

  _compacted(fact) {
    this.#note(fact, "quiet", `For ${fact.agent}, everything up to ${fact.upto} is from here on this summary`, {
      agent: fact.agent,
      more: fact.summary,
    });
  }

  _cancelled(fact) {
    this.#note(fact, "quiet", `Stopped${fact.words ? `: ${fact.words}` : ""}`);
  }

  _redacted(fact) {
    const who = fact.by ? ` by ${fact.by}` : "";
    this.#note(fact, "quiet", `The words at ${fact.positions.join(", ")} were erased${who}${fact.reason ? `: ${fact.reason}` : ""}`);
  }
}

/** What a handoff carried. */
function readArguments(text) {
  try {
    const { reason = "", input = "" } = JSON.parse(text ?? "{}") ?? {};
    return { reason: String(reason), input: typeof input === "string" ? input : JSON.stringify(input, null, 2) };
  } catch {
    return { reason: "", input: "" };
  }
}

/** Why the call of an agent that works as a tool cannot go on now. */
export function pauseReason(fact) {
  if (fact.error) return "agent failed";
  if (fact.retry_at) return "waits to try again";
  return fact.needed ? "waits for a limit" : "waits for people";
}
