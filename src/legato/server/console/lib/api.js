/** Requests to Legato's HTTP API. Only the server that this page came from is called. */

import { parseJson, stringifyJson } from "./exact_json.js";
import { getToken } from "./token.js";

const ROOT = new URL("../../", import.meta.url);

/** A refused or failed request. `status` is 0 if the server was not reached. */
export class ApiError extends Error {
  constructor(status, fields) {
    super(fields.message || `the server answered ${status}`);
    this.status = status;
    this.code = fields.code ?? "";
    this.expected = fields.expected ?? "";
    this.found = fields.found ?? "";
    this.advice = fields.do ?? "";
  }
}

let unauthorizedHandler = () => {};

/** Set the function that is called when the server does not accept the token. */
export function onUnauthorized(handler) {
  unauthorizedHandler = handler;
}

/** Build a path of the API. As a template tag, it percent-encodes the values: apiPath`sessions/${id}/facts`. */
export function apiPath(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1]) + part);
}

/** Send a request, and return the response if its status is a success.
 * @param {string} url
 * @param {{ method?: string, body?: any, headers?: Record<string, string>, signal?: AbortSignal }} [options] */
export async function send(url, { method = "GET", body, headers = {}, signal } = {}) {
  const requestHeaders = { Authorization: `Bearer ${getToken()}`, ...headers };
  if (body !== undefined) requestHeaders["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(url, ROOT), {
      method,
      headers: requestHeaders,
      signal,
      body: body === undefined ? undefined : stringifyJson(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      code: "unreachable",
      message: "the server cannot be reached",
      do: "nothing is lost: the page tries again",
    });
  }
  if (response.ok) return response;
  if (response.status === 401) unauthorizedHandler();
  throw new ApiError(response.status, await readError(response));
}

async function readError(response) {
  try {
    return (await response.json()).error ?? {};
  } catch {
    return {};
  }
}

/** Send a request, and return the JSON of the response. With `exact`, numbers keep all their digits. */
export async function requestJson(url, options = {}) {
  const response = await send(url, options);
  return options.exact ? parseJson(await response.text()) : response.json();
}

/** Create an idempotency key: a request that is sent again with its key is recorded once. */
export function newDeliveryKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
