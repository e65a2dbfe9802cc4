/** A session's events as they happen. May know: server-sent events. Decides: when to connect again, and from where.
 *
 * Read with fetch, since a browser's own EventSource cannot send the token in a header.
 */

import { Refused, send } from "./api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 10_000;
const SILENCE = 45_000; // the server says something every 15 seconds; after three times that the line is dead

/** The events in pieces of a text, however it was cut. Give pieces to `read`; each event goes to `tell({ id, type, data })`. */
export class EventReader {
  constructor(tell) {
    this.tell = tell;
    this.rest = "";
    this.event = { id: "", type: "message", data: /** @type {string[]} */ ([]) };
  }

  read(piece) {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") {
      if (this.event.data.length) this.tell({ ...this.event, data: this.event.data.join("\n") });
      this.event = { id: "", type: "message", data: [] };
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a pulse
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.event.data.push(value);
    else if (name === "event") this.event.type = value;
    else if (name === "id") this.event.id = value;
  }
}

/** Follow the events at a path, after a cursor, until `close()`. `onLine` is told: "open", "lost" (it tries again) or "gone". */
export class Stream {
  constructor(where, after, { onEvent, onLine }) {
    this.where = where;
    this.last = after;
    this.onEvent = onEvent;
    this.onLine = onLine;
    this.failures = 0;
    this.closed = new AbortController();
    this.wake = () => {};
    const hurry = () => this.wake();
    addEventListener("online", hurry, { signal: this.closed.signal });
    document.addEventListener("visibilitychange", hurry, { signal: this.closed.signal });
    this.#run();
  }

  close() {
    this.closed.abort();
    this.wake();
  }

  async #run() {
    while (!this.closed.signal.aborted) {
      try {
        if ((await this.#once()) === "gone") return this.onLine("gone");
      } catch (error) {
        if (this.closed.signal.aborted) return undefined;
        if (error instanceof Refused && (error.status === 404 || error.status === 401))
          return this.onLine(error.status === 404 ? "gone" : "lost");
      }
      if (this.closed.signal.aborted) return undefined;
      this.onLine("lost");
      await this.#pause();
    }
    return undefined;
  }

  async #once() {
    const line = new AbortController();
    const stop = () => line.abort();
    this.closed.signal.addEventListener("abort", stop, { once: true });
    let silence = setTimeout(stop, SILENCE);
    try {
      const headers = { Accept: "text/event-stream", ...(this.last ? { "Last-Event-ID": this.last } : {}) };
      const response = await send(this.where, { headers, signal: line.signal });
      if (response.status === 204) return "gone";
      this.failures = 0;
      this.onLine("open");
      const reader = new EventReader((event) => {
        this.onEvent(event.type, JSON.parse(event.data));
        if (event.id) this.last = event.id;
      });
      const body = response.body ?? new Blob().stream();
      const pieces = body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await pieces.read();
        clearTimeout(silence);
        if (done) return "ended";
        silence = setTimeout(stop, SILENCE);
        reader.read(value);
      }
    } finally {
      clearTimeout(silence);
      this.closed.signal.removeEventListener("abort", stop);
    }
  }

  /** Wait, longer each time and never in step with others; less if the browser comes back to life. */
  #pause() {
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.failures++);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, longest * (0.6 + 0.4 * Math.random()));
      this.wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}
