/** The server's API. May know: HTTP. Decides: how a refusal reads, and that nothing but this page's own server is spoken to. */

import { token } from "./access.js";
import { parse, write } from "./exact.js";

const ROOT = new URL("../../", import.meta.url);

/** What the server, or the line to it, had against a request. `status` 0: it was not reached. */
export class Refused extends Error {
  constructor(status, told) {
    super(told.message || `the server answered ${status}`);
    this.status = status;
    this.code = told.code ?? "";
    this.expected = told.expected ?? "";
    this.found = told.found ?? "";
    this.advice = told.do ?? "";
  }
}

let whenStrangers = () => {};

/** Who is told when the server does not accept the token. */
export function onStranger(work) {
  whenStrangers = work;
}

/** A path of the API: `path`${id}/facts`` with what is put in encoded. */
export function path(parts, ...names) {
  return parts.reduce((sum, part, index) => sum + encodeURIComponent(names[index - 1]) + part);
}

/** Send a request, and give the response if it is a good one.
 * @param {string} where
 * @param {{ method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal }} [how] */
export async function send(where, { method = "GET", body, headers = {}, signal } = {}) {
  const sent = { Authorization: `Bearer ${token()}`, ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(where, ROOT), {
      method,
      headers: sent,
      signal,
      body: body === undefined ? undefined : write(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, {
      code: "unreachable",
      message: "the server cannot be reached",
      do: "nothing is lost: it is asked again when it is back",
    });
  }
  if (response.ok) return response;
  if (response.status === 401) whenStrangers();
  throw new Refused(response.status, await refusal(response));
}

async function refusal(response) {
  try {
    return (await response.json()).error ?? {};
  } catch {
    return {};
  }
}

/** What the server says. With `exact`, numbers stay as they were written. */
export async function ask(where, options = {}) {
  const response = await send(where, options);
  return options.exact ? parse(await response.text()) : response.json();
}

/** A name for one delivery: however often it is sent, it counts once. */
export function deliveryKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
