/** Markdown rendered as elements. Text never becomes markup, and nothing is loaded from other servers. */

import { el } from "../lib/dom.js";
import { completeMarks, lexMarkdown, normalizeLineEnds, splitFinished, splitIntoChunks, startsCodeBlock } from "../model/markdown.js";

const SAFE_PROTOCOLS = new Set(["http:", "https:", "mailto:"]);
const MAX_GROWING_CHARS = 20_000; // of the part that is rendered again with every delta

/** Render a text as block elements. */
export function formatText(text) {
  return renderBlocks(lexMarkdown(normalizeLineEnds(text)));
}

/** A text that is still growing. Finished blocks keep their elements; only the last two blocks are rendered again. */
export class GrowingText {
  constructor() {
    this.element = el("div", { class: "prose" });
    this.#reset();
  }

  #reset() {
    this.finishedText = ""; // the text of the finished blocks
    this.openBlocks = [];
    this.element.replaceChildren();
  }

  /** Render the whole text so far. */
  update(newText) {
    const text = normalizeLineEnds(newText);
    if (!text.startsWith(this.finishedText)) this.#reset();
    let rest = text.slice(this.finishedText.length);
    const isFirst = !this.element.hasChildNodes();
    for (const each of this.openBlocks) each.remove();
    if (rest.length <= MAX_GROWING_CHARS || isFirst) {
      const split = splitFinished(rest);
      this.element.append(...renderBlocks(split.finished));
      this.finishedText = text.slice(0, text.length - split.rest.length);
      rest = split.rest;
    }
    const isParsed = rest.length <= MAX_GROWING_CHARS || startsCodeBlock(rest);
    this.openBlocks = isParsed ? renderBlocks(lexMarkdown(completeMarks(rest))) : [renderUnformatted(rest)];
    this.element.append(...this.openBlocks);
  }
}

const renderBlocks = (tokens) => tokens.flatMap((token) => (BLOCK_RENDERERS[token.type] ?? renderUnknownBlock)(token) ?? []);
const renderInline = (tokens) => tokens.flatMap((token) => (INLINE_RENDERERS[token.type] ?? rawText)(token));

const INLINE_IN_ITEMS = new Set(["text", "checkbox"]); // without paragraphs of their own in tight lists
const renderUnknownBlock = (token) => renderUnformatted(token.raw);
const rawText = (token) => token.raw;

/** Render a text of any length without formatting. The browser lays out only its visible chunks. */
function renderUnformatted(text) {
  return el(
    "div",
    { class: "unformatted", tabindex: "0", role: "group", "aria-label": "Unformatted text" },
    splitIntoChunks(text).map((chunk) => el("p", { dir: "auto" }, chunk)),
  );
}

const BLOCK_RENDERERS = {
  space: () => null,
  checkbox: (token) => renderInline([token]),
  hr: () => el("hr"),
  paragraph: (token) => el("p", { dir: "auto" }, renderInline(token.tokens)),
  text: (token) => el("p", { dir: "auto" }, renderInline(token.tokens ?? [token])),
  heading: (token) => el("p", { class: `heading level-${Math.min(3, token.depth)}`, dir: "auto" }, renderInline(token.tokens)),
  blockquote: (token) => el("blockquote", null, renderBlocks(token.tokens)),
  code: (token) => el("pre", { class: "code", "data-language": token.lang || undefined, tabindex: "0" }, el("code", null, token.text)),

  list: (token) =>
    el(
      token.ordered ? "ol" : "ul",
      token.ordered ? { start: token.start } : null,
      token.items.map((item) =>
        el(
          "li",
          { dir: "auto", class: item.task ? "task" : undefined },
          item.tokens.map((each) => (INLINE_IN_ITEMS.has(each.type) && !item.loose ? renderInline([each]) : renderBlocks([each]))),
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

const tableCell = (tag, cell) => el(tag, { class: cell.align ? `to-${cell.align}` : undefined, dir: "auto" }, renderInline(cell.tokens));

const INLINE_RENDERERS = {
  text: (token) => (token.tokens ? renderInline(token.tokens) : token.text),
  escape: (token) => token.text,
  br: () => el("br"),
  codespan: (token) => el("code", null, token.text),
  strong: (token) => el("strong", null, renderInline(token.tokens)),
  em: (token) => el("em", null, renderInline(token.tokens)),
  del: (token) => el("del", null, renderInline(token.tokens)),
  checkbox: (token) => (token.checked ? "☑ " : "☐ "),
  link: (token) => renderLink(token, renderInline(token.tokens)),
  image: (token) => renderLink(token, token.text || "picture"), // images are not loaded
};

/** Render a link followed by its host; links with unsafe protocols stay text. */
function renderLink(token, label) {
  const address = URL.canParse(token.href) ? new URL(token.href) : null;
  if (!address || !SAFE_PROTOCOLS.has(address.protocol)) return token.raw;
  if ([token.text, `http://${token.text}`, `mailto:${token.text}`].includes(token.href)) return externalLink(token.href, label);
  const place = address.protocol === "mailto:" ? address.pathname : address.host;
  return [externalLink(token.href, label), el("span", { class: "soft" }, ` (${place})`)];
}

/** Create a link to another site. Without a label it shows its whole URL, so that people see where it leads. */
export function externalLink(url, label = url) {
  return el("a", { href: url, title: url, target: "_blank", rel: "noopener noreferrer nofollow" }, label);
}
