/** A session's server-sent events, with reconnection.
 *
 * They are read with fetch, because the browser's EventSource cannot send the token in a header.
 */

import { ApiError, send } from "./api.js";

const FIRST_RETRY_MS = 400;
const MAX_RETRY_MS = 10_000;
const SILENCE_TIMEOUT_MS = 45_000; // the server sends a comment every 15 seconds; after three missing ones the connection is dead

/** Parses server-sent events from chunks of any size. `onEvent` is called with each event: `{ id, type, data }`. */
export class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.buffer = "";
    this.event = { id: "", type: "message", data: /** @type {string[]} */ ([]) };
  }

  feed(chunk) {
    const lines = (this.buffer + chunk).split("\n");
    this.buffer = lines.pop() ?? "";
    for (const line of lines) this.#readLine(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #readLine(line) {
    if (line === "") {
      if (this.event.data.length) this.onEvent({ ...this.event, data: this.event.data.join("\n") });
      this.event = { id: "", type: "message", data: [] };
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.event.data.push(value);
    else if (name === "event") this.event.type = value;
    else if (name === "id") this.event.id = value;
  }
}

/** Follows the events at a URL, after a cursor, until `close()`. `onState` is called with "open", "lost" (it reconnects) or "gone". */
export class EventStream {
  constructor(url, after, { onEvent, onState }) {
    this.url = url;
    this.cursor = after;
    this.onEvent = onEvent;
    this.onState = onState;
    this.failures = 0;
    this.abort = new AbortController();
    this.retryNow = () => {};
    const retry = () => this.retryNow();
    addEventListener("online", retry, { signal: this.abort.signal });
    document.addEventListener("visibilitychange", retry, { signal: this.abort.signal });
    this.#run();
  }

  close() {
    this.abort.abort();
    this.retryNow();
  }

  async #run() {
    while (!this.abort.signal.aborted) {
      try {
        if ((await this.#connect()) === "gone") return this.onState("gone");
      } catch (error) {
        if (this.abort.signal.aborted) return undefined;
        if (error instanceof ApiError && (error.status === 404 || error.status === 401))
          return this.onState(error.status === 404 ? "gone" : "lost");
      }
      if (this.abort.signal.aborted) return undefined;
      this.onState("lost");
      await this.#waitToRetry();
    }
    return undefined;
  }

  async #connect() {
    const connection = new AbortController();
    const stop = () => connection.abort();
    this.abort.signal.addEventListener("abort", stop, { once: true });
    let silenceTimer = setTimeout(stop, SILENCE_TIMEOUT_MS);
    try {
      const headers = { Accept: "text/event-stream", ...(this.cursor ? { "Last-Event-ID": this.cursor } : {}) };
      const response = await send(this.url, { headers, signal: connection.signal });
      if (response.status === 204) return "gone";
      this.failures = 0;
      this.onState("open");
      const parser = new EventParser((event) => {
        this.onEvent(event.type, JSON.parse(event.data));
        if (event.id) this.cursor = event.id;
      });
      const body = response.body ?? new Blob().stream();
      const chunks = body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await chunks.read();
        clearTimeout(silenceTimer);
        if (done) return "ended";
        silenceTimer = setTimeout(stop, SILENCE_TIMEOUT_MS);
        parser.feed(value);
      }
    } finally {
      clearTimeout(silenceTimer);
      this.abort.signal.removeEventListener("abort", stop);
    }
  }

  /** Wait before the next attempt: exponential backoff with jitter, ended early when the browser is online or visible again. */
  #waitToRetry() {
    const delay = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures++);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay * (0.6 + 0.4 * Math.random()));
      this.retryNow = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}
