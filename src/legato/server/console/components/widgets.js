/** Elements that several pages show: statuses, agents, JSON, attachments and tabs. */

import { apiPath, send } from "../lib/api.js";
import { el, setChildren, visuallyHidden } from "../lib/dom.js";
import { prettyPrintJson } from "../lib/exact_json.js";
import { escapeInvisible } from "../lib/format.js";
import { externalLink } from "./formatted_text.js";
import { copyButton, showError } from "./notices.js";

export const STATUS_HINTS = {
  running: "work is in progress",
  pending: "a request is pending",
  waiting: "waits for the user",
  failed: "failed",
  cancelled: "stopped",
  terminated: "has ended",
  new: "has no messages yet",
};

/** Create a status label. It has a text and a shape, because not everyone sees colours. */
export function statusPill(status) {
  return el(
    "span",
    { class: `status status-${status}`, title: STATUS_HINTS[status] ?? "" },
    el("span", { class: "dot", "aria-hidden": "true" }),
    status,
  );
}

export function agentTag(palette, name) {
  return el(
    "span",
    { class: `agent ${palette.classOf(name)}` },
    el("span", { class: "agent-dot", "aria-hidden": "true" }),
    el("bdi", null, name),
  );
}

/** Create a block of JSON with a copy button: indented, and highlighted unless it is very long. */
export function jsonBlock(text, { label = "", raw = false, className = "" } = {}) {
  const formatted = raw ? text : prettyPrintJson(text);
  const block = el("pre", { class: `code json ${className}`, tabindex: "0", "aria-label": label || undefined }, highlightJson(formatted));
  return el("div", { class: "with-copy" }, block, copyButton(formatted));
}

const JSON_TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const MAX_HIGHLIGHTED_CHARS = 40_000;

export function highlightJson(json) {
  const text = escapeInvisible(json);
  if (text.length > MAX_HIGHLIGHTED_CHARS) return text;
  const nodes = [];
  let at = 0;
  for (const match of text.matchAll(JSON_TOKEN)) {
    const kind = match[2] !== undefined ? "key" : match[1] !== undefined ? "text" : match[3] !== undefined ? "word" : "number";
    const token = match[2] !== undefined ? match[1] : match[0];
    nodes.push(text.slice(at, match.index), el("span", { class: `json-${kind}` }, token));
    at = match.index + token.length;
  }
  nodes.push(text.slice(at));
  return nodes;
}

/** Create a view of an image or file of a session. Images at a URL become links: nothing is loaded from other servers. */
export function attachmentView(session, part) {
  if (part.url && !part.digest)
    return el(
      "span",
      { class: "attachment" },
      `${part.part}: `,
      /^https?:/.test(part.url) ? externalLink(part.url) : part.url.slice(0, 80),
    );
  const name = part.name || part.media_type || part.part;
  const url = apiPath`api/sessions/${session}/contents/${part.digest}`;
  if (part.part === "image") {
    const holder = el("figure", { class: "picture" }, el("figcaption", null, name));
    loadImage(url).then(
      (address) => setChildren(holder, el("img", { src: address, alt: `An image (${name})`, loading: "lazy" })),
      () => holder.append(visuallyHidden("could not be loaded")),
    );
    return holder;
  }
  return el(
    "button",
    { class: "attachment", onclick: () => saveFile(url, part.name || part.digest.slice(0, 12)).catch(showError) },
    `Save ${name}`,
  );
}

const loadedImages = new Map(); // URL -> a promise of the object URL; images are identified by digest and never change

function loadImage(url) {
  if (!loadedImages.has(url)) {
    loadedImages.set(
      url,
      send(url)
        .then((response) => response.blob())
        .then((blob) => URL.createObjectURL(blob)),
    );
    loadedImages.get(url).catch(() => loadedImages.delete(url));
  }
  return loadedImages.get(url);
}

/** Download a URL of the server as a file. */
export async function saveFile(url, name) {
  const response = await send(url);
  const header = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  el("a", { href: address, download: header ? decodeURIComponent(header[1]) : name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Create tabs as links. The route determines the selected one. */
export function tabs(label, selected, entries) {
  return el(
    "nav",
    { class: "tabs", "aria-label": label },
    entries.map(([name, href, title, hint]) =>
      el("a", { href, class: `tab tab-${name}`, "aria-current": name === selected ? "page" : undefined, title: hint }, title),
    ),
  );
}
