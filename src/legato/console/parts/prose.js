/** Words with their simplest marks. May know: text. Decides: what of Markdown is shown as more than text; none of it becomes markup.
 *
 * Paragraphs, headings, lists, quotes, code, emphasis, and addresses. Everything else stays as it was written: what a model said should
 * look like what it said.
 */

import { el } from "./dom.js";

const FENCE = /^ {0,3}(```+|~~~+)\s*([\w+#.-]*)\s*$/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+•]|\d{1,4}[.)])\s+(.*)$/;
const QUOTE = /^>\s?(.*)$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const INLINE = new RegExp(
  [
    /(?<!`)(`{1,8})(?!`)([\s\S]{0,999}?[^`])\1(?!`)/, // code; all are bounded, so that no text takes long
    /\*\*(?=\S)([\s\S]{0,999}?\S)\*\*/, // strong
    /(?<![\w*])\*(?=[^\s*])([^*\n]{0,999}?[^\s*])\*(?![\w*])/, // emphasised
    /(https?:\/\/[^\s<>"'`]{0,999}[^\s<>"'`.,;:!?)\]])/, // an address
  ]
    .map((pattern) => pattern.source)
    .join("|"),
  "g",
);
const DEEPEST = 4;

/** The blocks of a text, as elements. */
export function prose(text, depth = 0) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const [block, next] = depth > DEEPEST ? paragraph(lines, at) : blockAt(lines, at, depth);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [el("p", { class: `heading level-${Math.min(3, heading[1].length)}` }, inline(heading[2])), at + 1];
  if (RULE.test(line)) return [el("hr"), at + 1];
  if (QUOTE.test(line)) return quote(lines, at, depth);
  if (ITEM.test(line)) return list(lines, at, depth);
  return paragraph(lines, at);
}

function code(lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(fence[1])) end++;
  const text = lines.slice(at + 1, end).join("\n");
  return [el("pre", { class: "code", "data-language": fence[2] || undefined, tabindex: "0" }, el("code", null, text)), end + 1];
}

function quote(lines, at, depth) {
  let end = at;
  const inner = [];
  for (let found; end < lines.length && (found = QUOTE.exec(lines[end])); end++) inner.push(found[1]);
  return [el("blockquote", null, prose(inner.join("\n"), depth + 1)), end];
}

function list(lines, at, depth) {
  const [, margin, mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const made = el(ordered ? "ol" : "ul", ordered ? { start: parseInt(mark, 10) } : null);
  let end = at;
  for (;;) {
    const found = end < lines.length && ITEM.exec(lines[end]);
    if (!found || found[1].length !== margin.length || /\d/.test(found[2]) !== ordered) break;
    const inner = [found[3]];
    end++;
    // What is indented deeper belongs to the item, also after an empty line.
    while (
      end < lines.length &&
      (deeper(lines[end], margin.length) || (!lines[end].trim() && deeper(lines[end + 1] ?? "", margin.length)))
    ) {
      inner.push(lines[end].slice(Math.min(margin.length + 2, lines[end].length - lines[end].trimStart().length)));
      end++;
    }
    const blocks = prose(inner.join("\n"), depth + 1);
    made.append(el("li", null, blocks.length === 1 && blocks[0].matches("p:not(.heading)") ? [...blocks[0].childNodes] : blocks));
    if (end < lines.length && !lines[end].trim() && ITEM.test(lines[end + 1] ?? "")) end++;
  }
  return [made, end];
}

const deeper = (line, margin) => line.trim() !== "" && line.length - line.trimStart().length > margin;

function paragraph(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].trim() && (end === at || !begins(lines[end]))) end++;
  return [el("p", { dir: "auto" }, inline(lines.slice(at, Math.max(end, at + 1)).join("\n"))), Math.max(end, at + 1)];
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || RULE.test(line);

function inline(text) {
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) pieces.push(text.slice(at, found.index));
    const [whole, , code, strong, emphasised, address] = found;
    if (code !== undefined) pieces.push(el("code", null, code.replace(/^ (.+) $/, "$1")));
    else if (strong !== undefined) pieces.push(el("strong", null, strong));
    else if (emphasised !== undefined) pieces.push(el("em", null, emphasised));
    else pieces.push(outward(address));
    at = found.index + whole.length;
  }
  pieces.push(text.slice(at));
  return pieces;
}

/** A link to elsewhere: its whole address is its text, so that nobody is led to where they did not mean to go. */
export function outward(address) {
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, address);
}
