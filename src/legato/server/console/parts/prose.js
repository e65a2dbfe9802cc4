/** Words with their marks. May know: Markdown's tokens. Decides: how each is drawn; none of it becomes markup, and nothing is loaded. */

import { beginsCode, endMarks, lexMarkdown, piecesOf, splitSettled, withPlainEnds } from "../model/markdown.js";
import { el } from "./dom.js";

const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
const MAX_GROWING_CHARS = 20_000; // of what is drawn anew with every piece

/** The blocks of a text, as elements. */
export function prose(text) {
  return blocks(lexMarkdown(withPlainEnds(text)));
}

/** Words that are still being said. What is drawn of them stays as it is; only its last two blocks are drawn anew. */
export class GrowingProse {
  constructor() {
    this.element = el("div", { class: "prose" });
    this.#begin();
  }

  #begin() {
    this.settled = ""; // the text of the blocks that stay
    this.rest = [];
    this.element.replaceChildren();
  }

  /** All of the words so far. */
  show(words) {
    const text = withPlainEnds(words);
    if (!text.startsWith(this.settled)) this.#begin();
    let rest = text.slice(this.settled.length);
    const isFirst = !this.element.hasChildNodes();
    for (const each of this.rest) each.remove();
    if (rest.length <= MAX_GROWING_CHARS || isFirst) {
      const split = splitSettled(rest);
      this.element.append(...blocks(split.settled));
      this.settled = text.slice(0, text.length - split.rest.length);
      rest = split.rest;
    }
    const short = rest.length <= MAX_GROWING_CHARS || beginsCode(rest);
    this.rest = short ? blocks(lexMarkdown(endMarks(rest))) : [unmarked(rest)];
    this.element.append(...this.rest);
  }
}

const blocks = (tokens) => tokens.flatMap((token) => (BLOCKS[token.type] ?? plain)(token) ?? []);
const inline = (tokens) => tokens.flatMap((token) => (INLINE[token.type] ?? written)(token));

const BESIDE_BULLET = new Set(["text", "checkbox"]); // no paragraph of their own, where items stand close together
const plain = (token) => unmarked(token.raw);
const written = (token) => token.raw;

/** A text as it was written, of any length: what of it is not seen is not laid out. */
function unmarked(text) {
  return el(
    "div",
    { class: "unmarked", tabindex: "0", role: "group", "aria-label": "Text as it was written" },
    piecesOf(text).map((piece) => el("p", { dir: "auto" }, piece)),
  );
}

const BLOCKS = {
  space: () => null,
  checkbox: (token) => inline([token]),
  hr: () => el("hr"),
  paragraph: (token) => el("p", { dir: "auto" }, inline(token.tokens)),
  text: (token) => el("p", { dir: "auto" }, inline(token.tokens ?? [token])),
  heading: (token) => el("p", { class: `heading level-${Math.min(3, token.depth)}`, dir: "auto" }, inline(token.tokens)),
  blockquote: (token) => el("blockquote", null, blocks(token.tokens)),
  code: (token) => el("pre", { class: "code", "data-language": token.lang || undefined, tabindex: "0" }, el("code", null, token.text)),

  list: (token) =>
    el(
      token.ordered ? "ol" : "ul",
      token.ordered ? { start: token.start } : null,
      token.items.map((item) =>
        el(
          "li",
          { dir: "auto", class: item.task ? "task" : undefined },
          item.tokens.map((each) => (BESIDE_BULLET.has(each.type) && !item.loose ? inline([each]) : blocks([each]))),
        ),
      ),
    ),

  table: (token) =>
    el(
      "div",
      { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
      el(
        "table",
        null,
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            token.header.map((cell) => tableCell("th", cell)),
          ),
        ),
        el(
          "tbody",
          null,
          token.rows.map((row) =>
            el(
              "tr",
              null,
              row.map((cell) => tableCell("td", cell)),
            ),
          ),
        ),
      ),
    ),
};

const tableCell = (tag, cell) => el(tag, { class: cell.align ? `to-${cell.align}` : undefined, dir: "auto" }, inline(cell.tokens));

const INLINE = {
  text: (token) => (token.tokens ? inline(token.tokens) : token.text),
  escape: (token) => token.text,
  br: () => el("br"),
  codespan: (token) => el("code", null, token.text),
  strong: (token) => el("strong", null, inline(token.tokens)),
  em: (token) => el("em", null, inline(token.tokens)),
  del: (token) => el("del", null, inline(token.tokens)),
  checkbox: (token) => (token.checked ? "☑ " : "☐ "),
  link: (token) => linked(token, inline(token.tokens)),
  image: (token) => linked(token, token.text || "picture"), // nothing is loaded from elsewhere
};

/** A link that says where it leads, beside its words; as it was written, if it leads to where no link may. */
function linked(token, words) {
  const address = URL.canParse(token.href) ? new URL(token.href) : null;
  if (!address || !PROTOCOLS.has(address.protocol)) return token.raw;
  if ([token.text, `http://${token.text}`, `mailto:${token.text}`].includes(token.href)) return outward(token.href, words);
  const place = address.protocol === "mailto:" ? address.pathname : address.host;
  return [outward(token.href, words), el("span", { class: "soft" }, ` (${place})`)];
}

/** A link to elsewhere. Unless it is given words, its whole address is its text, so that nobody is led to where they did not mean to go. */
export function outward(address, words = address) {
  return el("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer nofollow" }, words);
}
