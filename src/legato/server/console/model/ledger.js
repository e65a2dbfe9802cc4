/** One session as the page knows it. May know: the API. Decides: when facts are read, and what is being said beside them.
 *
 * The facts are the server's; what is here is as much of them as was read, in order. Words that are still being said (`live`) are no facts:
 * they are shown until the reply that they are of has been read, or until they are withdrawn.
 */

import { Refused, ask, path } from "../parts/api.js";
import { settled } from "../parts/dom.js";
import { Stream } from "../parts/stream.js";

const PAGE = 2000;

/** Events after which a session may stand otherwise than it did. */
const STANDING = new Set(["status", "request_info", "said", "decided", "cancelled", "model_failed"]);

export class Ledger {
  /** `tell(what)` is called with "facts", "live", "detail", "line" or "reset" (all facts were read again). */
  constructor(id, tell) {
    this.id = id;
    this.where = path`api/sessions/${id}`;
    this.facts = [];
    this.length = 0; // as the server last said; more than `facts` has, while they are read
    this.detail = /** @type {any} */ (null);
    this.generation = 0; // how often all was read anew: what was shown before may not be shown any more
    this.live = []; // { agent, text, position }: position -1 while it is being said
    this.line = "connecting";
    this.failure = null;
    this.#tell = tell;
    this.#refreshSoon = settled(() => this.refresh(), 60);
  }

  #tell;
  #refreshSoon;
  #stream = /** @type {Stream | null} */ (null);
  #reading = /** @type {Promise<void> | null} */ (null);
  #again = false;
  #closed = false;
  #asked = 0; // how often the session was asked what it is now

  /** Read all that is recorded, and follow what comes. */
  async open() {
    await Promise.all([this.refresh(), this.#read()]);
    if (!this.#closed && !this.failure) this.#follow();
  }

  close() {
    this.#closed = true;
    this.#stream?.close();
    this.#refreshSoon.cancel();
  }

  /** Read what the session is now: its status, and what it asks. */
  async refresh() {
    const asked = ++this.#asked;
    try {
      const detail = await ask(this.where, { exact: true });
      if (asked !== this.#asked) return; // it was asked again since, and that answer is newer
      this.detail = detail;
      this.failure = null;
    } catch (error) {
      this.#failed(error);
    }
    if (!this.#closed) this.#tell("detail");
  }

  #failed(error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 404 && this.detail) this.#lined("gone");
    else if (error.status !== 0 || !this.detail) this.failure = error;
  }

  // -- facts ---------------------------------------------------------------------------------------------------------

  /** Read on until all is read. Asked while it reads, it looks once more. */
  #read() {
    this.#again = true;
    this.#reading ??= this.#readOn().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readOn() {
    while (this.#again && !this.#closed) {
      this.#again = false;
      try {
        do {
          const [from, generation] = [this.facts.length, this.generation];
          const page = await ask(`${this.where}/facts?from=${from}&limit=${PAGE}`);
          if (this.#closed) return;
          if (generation === this.generation) this.#take(page);
        } while (this.facts.length < this.length);
      } catch (error) {
        this.#failed(error);
        return;
      }
    }
  }

  #take(page) {
    for (const fact of page.facts) this.facts.push(placed(fact, this.facts.length));
    this.length = page.length;
    this.cursor = page.cursor;
    this.live = this.live.filter((words) => words.position < 0 || words.position >= this.facts.length);
    if (page.facts.length) this.#tell("facts");
  }

  // -- what comes ----------------------------------------------------------------------------------------------------

  #follow() {
    const after = this.cursor ? `?after=${encodeURIComponent(this.cursor)}` : "";
    this.#stream = new Stream(`${this.where}/events${after}`, "", {
      onEvent: (type, event) => this.#event(type, event),
      onLine: (line) => {
        const back = line === "open" && this.line === "lost";
        this.#lined(line);
        if (!back) return;
        this.#read(); // what an event told of may not have been read when the line was lost
        this.#refreshSoon();
      },
    });
  }

  #lined(line) {
    if (line === "gone") this.#stream?.close();
    this.line = line;
    if (!this.#closed) this.#tell("line");
  }

  #event(type, { position, data }) {
    if (type === "output" && data.delta) return this.#piece(data);
    if (type === "output_reset") return this.#withdraw();
    if (type === "redacted") return this.#startOver();
    if (type === "message") this.#sealed(position);
    if (STANDING.has(type)) this.#refreshSoon();
    return this.#read();
  }

  #piece({ author_name: agent, text }) {
    const last = this.live.at(-1);
    if (last && last.position < 0) last.text += text;
    else this.live.push({ agent, text, position: -1 });
    this.#tell("live");
  }

  #sealed(position) {
    const last = this.live.at(-1);
    if (last && last.position < 0) last.position = position;
  }

  #withdraw() {
    if (!this.live.some((words) => words.position < 0)) return;
    this.live = this.live.filter((words) => words.position >= 0);
    this.#tell("live");
  }

  /** Words were erased: what was read before may not be shown any more. */
  #startOver() {
    this.generation++;
    this.facts = [];
    this.live = [];
    this.#tell("reset");
    this.#read();
    this.#refreshSoon();
  }
}

/** A fact with its place. A verdict has a place of its own that it is about. */
function placed(fact, position) {
  if (fact.fact === "guardrail_judged") fact.about ??= fact.position;
  fact.position = position;
  return fact;
}
