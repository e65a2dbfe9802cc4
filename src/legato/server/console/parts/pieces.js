/** What several rooms show. May know: elements. Decides: how a status, an agent, a JSON text and a picture look. */

import { path, send } from "./api.js";
import { el, show, unseen } from "./dom.js";
import { pretty } from "./exact.js";
import { visible } from "./format.js";
import { copier, tellFailure } from "./notices.js";
import { outward } from "./prose.js";

export const STATUSES = {
  running: "runs",
  pending: "asks somebody",
  waiting: "waits for the user",
  failed: "failed",
  cancelled: "stopped",
  terminated: "is over",
  new: "is new",
};

/** A status, by word and by shape: colour alone tells nothing to some. */
export function statusPill(status) {
  return el(
    "span",
    { class: `status status-${status}`, title: STATUSES[status] ?? "" },
    el("span", { class: "dot", "aria-hidden": "true" }),
    status,
  );
}

export function agentTag(palette, name) {
  return el(
    "span",
    { class: `agent ${palette.of(name)}` },
    el("span", { class: "note-head", "aria-hidden": "true" }),
    el("bdi", null, name),
  );
}

/** A text of JSON, indented, with quiet colours where it is short enough for that to be cheap. */
export function jsonBlock(text, { label = "", raw = false, className = "" } = {}) {
  const shown = raw ? text : pretty(text);
  const block = el("pre", { class: `code json ${className}`, tabindex: "0", "aria-label": label || undefined }, coloured(shown));
  return el("div", { class: "with-copy" }, block, copier(shown));
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const LONGEST_COLOURED = 40_000;

export function coloured(written) {
  const text = visible(written);
  if (text.length > LONGEST_COLOURED) return text;
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const kind = found[2] !== undefined ? "key" : found[1] !== undefined ? "text" : found[3] !== undefined ? "word" : "number";
    const token = found[2] !== undefined ? found[1] : found[0];
    pieces.push(text.slice(at, found.index), el("span", { class: `json-${kind}` }, token));
    at = found.index + token.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

/** A picture or a file of a session. Nothing is loaded from elsewhere: a picture that is only named by its address is a link. */
export function attachment(session, part) {
  if (part.url && !part.digest)
    return el("span", { class: "attachment" }, `${part.part}: `, /^https?:/.test(part.url) ? outward(part.url) : part.url.slice(0, 80));
  const name = part.name || part.media_type || part.part;
  const where = path`api/sessions/${session}/contents/${part.digest}`;
  if (part.part === "image") {
    const holder = el("figure", { class: "picture" }, el("figcaption", null, name));
    loaded(where).then(
      (address) => show(holder, el("img", { src: address, alt: `A picture (${name})`, loading: "lazy" })),
      () => holder.append(unseen("could not be loaded")),
    );
    return holder;
  }
  return el(
    "button",
    { class: "attachment", onclick: () => saved(where, part.name || part.digest.slice(0, 12)).catch(tellFailure) },
    `Save ${name}`,
  );
}

const pictures = new Map(); // address -> a promise of the local one; pictures are named by digest and never change

function loaded(where) {
  if (!pictures.has(where)) {
    pictures.set(
      where,
      send(where)
        .then((response) => response.blob())
        .then((blob) => URL.createObjectURL(blob)),
    );
    pictures.get(where).catch(() => pictures.delete(where));
  }
  return pictures.get(where);
}

/** Save what the server has at a path as a file. */
export async function saved(where, name) {
  const response = await send(where);
  const named = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  el("a", { href: address, download: named ? decodeURIComponent(named[1]) : name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Tabs as links: the address knows which is chosen. */
export function tabs(label, chosen, entries) {
  return el(
    "nav",
    { class: "tabs", "aria-label": label },
    entries.map(([name, href, title, hint]) =>
      el("a", { href, class: `tab tab-${name}`, "aria-current": name === chosen ? "page" : undefined, title: hint }, title),
    ),
  );
}
