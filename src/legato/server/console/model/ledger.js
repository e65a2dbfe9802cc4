/** The facts and the state of one session, kept up to date from the server.
 *
 * `facts` are the facts that were read so far, in order. `deltas` is text of replies that are not recorded yet: it is shown until the facts
 * of its reply have been read, or until it is retracted.
 */

import { ApiError, apiPath, requestJson } from "../lib/api.js";
import { debounce } from "../lib/dom.js";
import { EventStream } from "../lib/event_stream.js";

const FACTS_PER_PAGE = 2000;

/** Events that may change the state of a session. */
const STATUS_EVENTS = new Set(["status", "request_info", "said", "decided", "cancelled", "model_failed"]);

export class Ledger {
  /** `onChange(what)` is called with "facts", "deltas", "detail", "connection" or "reset" (all facts are read again). */
  constructor(id, onChange) {
    this.id = id;
    this.url = apiPath`api/sessions/${id}`;
    this.facts = [];
    this.length = 0; // the server's last count; `facts` has fewer while they are being read
    this.detail = /** @type {any} */ (null);
    this.generation = 0; // how often all facts were read again: content shown before may have been redacted
    this.deltas = []; // { agent, text, position }: position -1 until the reply is recorded
    this.connection = "connecting";
    this.failure = null;
    this.#onChange = onChange;
    this.#refreshSoon = debounce(() => this.refresh(), 60);
  }

  #onChange;
  #refreshSoon;
  #stream = /** @type {EventStream | null} */ (null);
  #reading = /** @type {Promise<void> | null} */ (null);
  #mustReadAgain = false;
  #closed = false;
  #refreshCount = 0; // how often `refresh` was called

  /** Read all facts, and follow the events. */
  async open() {
    await Promise.all([this.refresh(), this.#readFacts()]);
    if (!this.#closed && !this.failure) this.#follow();
  }

  close() {
    this.#closed = true;
    this.#stream?.close();
    this.#refreshSoon.cancel();
  }

  /** Read the session's current status and pending requests. */
  async refresh() {
    const call = ++this.#refreshCount;
    try {
      const detail = await requestJson(this.url, { exact: true });
      if (call !== this.#refreshCount) return; // a later call has newer data
      this.detail = detail;
      this.failure = null;
    } catch (error) {
      this.#handleError(error);
    }
    if (!this.#closed) this.#onChange("detail");
  }

  #handleError(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404 && this.detail) this.#setConnection("gone");
    else if (error.status !== 0 || !this.detail) this.failure = error;
  }

  // -- facts ---------------------------------------------------------------------------------------------------------

  /** Read all new facts. A call during reading makes it read once more. */
  #readFacts() {
    this.#mustReadAgain = true;
    this.#reading ??= this.#readPages().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readPages() {
    while (this.#mustReadAgain && !this.#closed) {
      this.#mustReadAgain = false;
      try {
        do {
          const [from, generation] = [this.facts.length, this.generation];
          const page = await requestJson(`${this.url}/facts?from=${from}&limit=${FACTS_PER_PAGE}`);
          if (this.#closed) return;
          if (generation === this.generation) this.#addPage(page);
        } while (this.facts.length < this.length);
      } catch (error) {
        this.#handleError(error);
        return;
      }
    }
  }

  #addPage(page) {
    for (const fact of page.facts) this.facts.push(withPosition(fact, this.facts.length));
    this.length = page.length;
    this.cursor = page.cursor;
    this.deltas = this.deltas.filter((delta) => delta.position < 0 || delta.position >= this.facts.length);
    if (page.facts.length) this.#onChange("facts");
  }

  // -- events --------------------------------------------------------------------------------------------------------

  #follow() {
    const after = this.cursor ? `?after=${encodeURIComponent(this.cursor)}` : "";
    this.#stream = new EventStream(`${this.url}/events${after}`, "", {
      onEvent: (type, event) => this.#handleEvent(type, event),
      onState: (state) => {
        const isRestored = state === "open" && this.connection === "lost";
        this.#setConnection(state);
        if (!isRestored) return;
        this.#readFacts(); // facts of the last events may not have been read before the connection was lost
        this.#refreshSoon();
      },
    });
  }

  #setConnection(state) {
    if (state === "gone") this.#stream?.close();
    this.connection = state;
    if (!this.#closed) this.#onChange("connection");
  }

  #handleEvent(type, { position, data }) {
    if (type === "output" && data.delta) return this.#addDelta(data);
    if (type === "output_reset") return this.#retractDelta();
    if (type === "redacted") return this.#reload();
    if (type === "message") this.#sealDelta(position);
    if (STATUS_EVENTS.has(type)) this.#refreshSoon();
    return this.#readFacts();
  }

  #addDelta({ author_name: agent, text }) {
    const last = this.deltas.at(-1);
    if (last && last.position < 0) last.text += text;
    else this.deltas.push({ agent, text, position: -1 });
    this.#onChange("deltas");
  }

  #sealDelta(position) {
    const last = this.deltas.at(-1);
    if (last && last.position < 0) last.position = position;
  }

  #retractDelta() {
    if (!this.deltas.some((delta) => delta.position < 0)) return;
    this.deltas = this.deltas.filter((delta) => delta.position >= 0);
    this.#onChange("deltas");
  }

  /** Read all facts again after a redaction. */
  #reload() {
    this.generation++;
    this.facts = [];
    this.deltas = [];
    this.#onChange("reset");
    this.#readFacts();
    this.#refreshSoon();
  }
}

/** Set the position of a fact. Judgements have a field `position` for the fact that they are about, which becomes `about`. */
function withPosition(fact, position) {
  if (fact.fact === "guardrail_judged" || fact.fact === "termination_judged") fact.about ??= fact.position;
  fact.position = position;
  return fact;
}
