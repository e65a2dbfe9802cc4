/** Markdown as tokens. May know: text, marked's lexer. Decides: which marks count, and that no text takes long.
 *
 * Of what marked reads, HTML, definitions of links and underlined headings do not count: they hide words, or change what was drawn before.
 * What marked takes more than linear time for is bounded, or read by a simpler rule.
 */

import { Lexer, Tokenizer } from "../vendored/marked.js";

/** @typedef {import("../vendored/marked.js").Token} Token
 * @typedef {import("../vendored/marked.js").Tokens.Paragraph} Paragraph
 * @typedef {import("../vendored/marked.js").Tokens.Blockquote} Blockquote */

const MAX_CHARS = 100_000; // of a text; a longer one is shown as it was written
const MAX_LINES = 5_000; // likewise
const MAX_RUN_CHARS = 4_000; // of a paragraph, heading or cell; in a longer one no marks count
const MAX_DEPTH = 8; // of quotes, lists, links and emphasis within one another
const MAX_COLUMNS = 50; // of a table
const PIECE_CHARS = 1_000;
const MAX_CELLS = 10_000;

const HEADER = "[^\\n|]*\\|[^\\n]*\\n *\\|?[ :-]*-[ |:-]*(?:\\n|$)"; // the first two lines of a table
const TABLE = new RegExp(`^${HEADER}`);
const QUOTE = /^(?: {0,3}>[^\n]*(?:\n|$))+/;
const STARTS = [
  "[ \\t]*(?:\\n|$)", // an empty line, and the end
  " {0,3}(?:#{1,6}(?:\\s|$)|>|```|~~~|[*+-] +\\S|1[.)] +\\S)", // a heading, a quote, code, a list
  " {0,3}([-*_])(?: *\\1){2,} *(?:\\n|$)", // a rule
  HEADER,
];
const PARAGRAPH_END = new RegExp(`\\n(?=${STARTS.join("|")})`);

class BoundedTokenizer extends Tokenizer {
  #depth = 0;

  html() {
    return undefined;
  }
  tag() {
    return undefined;
  }
  def() {
    return undefined;
  }
  reflink() {
    return undefined;
  }
  lheading() {
    return undefined;
  }

  /** @returns {Paragraph} */
  paragraph(src) {
    const end = src.search(PARAGRAPH_END);
    const text = end < 0 ? src : src.slice(0, end);
    return { type: "paragraph", raw: text, text, tokens: this.lexer.inline(text) };
  }

  /** Lines that begin with ">", and no others.
   * @returns {Blockquote | undefined} */
  blockquote(src) {
    return this.#within(() => {
      const raw = QUOTE.exec(src)?.[0];
      if (!raw) return undefined;
      const text = raw.replace(/^ {0,3}> ?/gm, "");
      const { top } = this.lexer.state;
      this.lexer.state.top = true;
      const tokens = this.lexer.blockTokens(text);
      this.lexer.state.top = top;
      return { type: "blockquote", raw, text, tokens };
    });
  }

  list(src) {
    return this.#within(() => super.list(src));
  }

  /** A table too large to draw is shown as it was written, up to the next empty line.
   * @returns {any} */
  table(src) {
    const header = TABLE.exec(src)?.[0];
    if (!header) return undefined;
    const columns = header.slice(0, header.indexOf("\n")).split("|").length;
    const end = src.search(/\n[ \t]*\n/);
    const run = end < 0 ? src : src.slice(0, end);
    return columns <= MAX_COLUMNS && columns * run.split("\n").length <= MAX_CELLS ? super.table(src) : unmarked(run);
  }

  link(src) {
    return this.#within(() => super.link(src));
  }

  emStrong(src, masked, before) {
    return this.#within(() => super.emStrong(src, masked, before));
  }

  del(src, masked, before) {
    return this.#within(() => super.del(src, masked, before));
  }

  /** @template T
   * @param {() => T} read */
  #within(read) {
    if (this.#depth >= MAX_DEPTH) return undefined;
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

export const withPlainEnds = (text) => text.replace(/\r\n?/g, "\n");

/** The blocks of a text, as marked's tokens. The `raw` texts of all are the text, whose lines must end in "\n" alone.
 * @returns {Token[]} */
export function lexMarkdown(text) {
  if (text.length > MAX_CHARS || hasLines(text, MAX_LINES)) return [unmarked(text)];
  const lexer = new Lexer({ gfm: true, breaks: true, tokenizer: new BoundedTokenizer() });
  lexer.blockTokens(text, lexer.tokens);
  for (const { src, tokens } of lexer.inlineQueue) {
    if (src.length > MAX_RUN_CHARS) tokens.push({ type: "text", raw: src, text: src });
    else lexer.inlineTokens(src, tokens);
  }
  return lexer.tokens;
}

const unmarked = (text) => ({ type: "unmarked", raw: text, text });

function hasLines(text, most) {
  let at = -1;
  for (let count = 0; count < most; count++) if ((at = text.indexOf("\n", at + 1)) < 0) return false;
  return true;
}

/** A text in pieces of whole lines, which a browser lays out one by one. */
export function piecesOf(text) {
  const pieces = [];
  for (let at = 0; at < text.length;) {
    const line = text.indexOf("\n", at + PIECE_CHARS);
    const end = line < 0 || line > at + 4 * PIECE_CHARS ? Math.min(text.length, at + 4 * PIECE_CHARS) : line + 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

/** A text that is still being written: the blocks that cannot change any more, and the rest of it, which is its last two blocks. */
export function splitSettled(text) {
  const tokens = lexMarkdown(text);
  const last = tokens.filter((token) => token.type !== "space").at(-2);
  const settled = last ? tokens.slice(0, tokens.indexOf(last)) : [];
  return { settled, rest: text.slice(settled.reduce((length, token) => length + token.raw.length, 0)) };
}

const FENCE = /^[ \t]*(?:```|~~~)/;
const FENCES = new RegExp(FENCE.source, "gm");
/** A line that may become anything yet. */
const MARK_ALONE = /^[ \t]*(?:[-*+_=|#>~`:][-*+_=|#>~`: \t]*|\d{1,9}[.)]?[ \t]*|[-*+] \[[ xX]?\]?[ \t]*|)$/;
const ROW = /^[ \t]*\|/;
const LINK_BEGUN = /!?\[[^[\]\n]{0,300}(?:\](?:\([^()\s]{0,1000})?)?$/;
const EMPHASIS = /(?<!\\)(?:\*\*|__|~~|\*|_)/g;

export const beginsCode = (text) => FENCE.test(text);

/** A text that is still being written, as it will probably be read: marks that are begun are ended, or left out until they are whole. */
export function endMarks(text) {
  const lines = text.split("\n");
  const last = lines.pop();
  if ((text.match(FENCES)?.length ?? 0) % 2) return /^[ \t]*[`~]{1,2}$/.test(last) ? lines.join("\n") : text;
  if (!MARK_ALONE.test(last)) lines.push(endRun(last));
  if (ROW.test(lines.at(-1) ?? "") && !ROW.test(lines.at(-2) ?? "")) lines.pop(); // a line, or the first of a table
  return lines.join("\n");
}

/** A line with its emphasis and code ended, and without the link that it ends with, if that is not whole. */
function endRun(line) {
  let code = "";
  let at = 0;
  for (const { 0: ticks, index } of line.matchAll(/`+/g)) {
    if (code === "") [code, at] = [ticks, index];
    else if (ticks === code) [code, at] = ["", index + ticks.length];
  }
  if (code && line.length === at + code.length) return endRun(line.slice(0, at));
  if (code) return line + code + openEmphasis(line.slice(0, at)).join("");
  const words = line.replace(LINK_BEGUN, "").replace(/[*_~]+$/, "");
  return words.trimEnd() + openEmphasis(words).join("");
}

/** The marks of emphasis that are begun and not ended, the last first. */
function openEmphasis(line) {
  const plain = line.replace(/(`+)[^`]*\1/g, (code) => "a".repeat(code.length));
  const open = [];
  for (const { 0: mark, index } of plain.matchAll(EMPHASIS)) {
    const [before, after] = [plain[index - 1] ?? " ", plain[index + mark.length] ?? " "];
    if (open[0] === mark && /\S/.test(before)) open.shift();
    else if (/\S/.test(after) && /[\s\p{P}\p{S}]/u.test(before)) open.unshift(mark);
  }
  return open;
}
