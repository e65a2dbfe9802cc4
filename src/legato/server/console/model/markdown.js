/** Markdown as tokens of marked's lexer, in linear time.
 *
 * HTML, link definitions and underlined headings are read as text: they would hide text, or change blocks that were rendered before. Marks
 * for which marked needs more than linear time are limited, or read by a simpler rule.
 */

import { Lexer, Tokenizer } from "../vendored/marked.js";

/** @typedef {import("../vendored/marked.js").Token} Token
 * @typedef {import("../vendored/marked.js").Tokens.Paragraph} Paragraph
 * @typedef {import("../vendored/marked.js").Tokens.Blockquote} Blockquote */

const MAX_CHARS = 100_000; // of a text; longer ones are shown unformatted
const MAX_LINES = 5_000; // likewise
const MAX_INLINE_CHARS = 4_000; // of a paragraph, heading or cell; longer ones have no inline formatting
const MAX_DEPTH = 8; // of nested quotes, lists, links and emphasis
const MAX_COLUMNS = 50; // of a table
const CHUNK_CHARS = 1_000;
const MAX_TABLE_CELLS = 10_000;

const HEADER = "[^\\n|]*\\|[^\\n]*\\n *\\|?[ :-]*-[ |:-]*(?:\\n|$)"; // the first two lines of a table
const TABLE = new RegExp(`^${HEADER}`);
const QUOTE = /^(?: {0,3}>[^\n]*(?:\n|$))+/;
const BLOCK_STARTS = [
  "[ \\t]*(?:\\n|$)", // an empty line, or the end
  " {0,3}(?:#{1,6}(?:\\s|$)|>|```|~~~|[*+-] +\\S|1[.)] +\\S)", // a heading, a quote, code, a list
  " {0,3}([-*_])(?: *\\1){2,} *(?:\\n|$)", // a rule
  HEADER,
];
const PARAGRAPH_END = new RegExp(`\\n(?=${BLOCK_STARTS.join("|")})`);

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

  /** Read only lines that begin with ">".
   * @returns {Blockquote | undefined} */
  blockquote(src) {
    return this.#nested(() => {
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
    return this.#nested(() => super.list(src));
  }

  /** Read a table. One that is too large is unformatted text up to the next empty line.
   * @returns {any} */
  table(src) {
    const header = TABLE.exec(src)?.[0];
    if (!header) return undefined;
    const columns = header.slice(0, header.indexOf("\n")).split("|").length;
    const end = src.search(/\n[ \t]*\n/);
    const text = end < 0 ? src : src.slice(0, end);
    return columns <= MAX_COLUMNS && columns * text.split("\n").length <= MAX_TABLE_CELLS ? super.table(src) : unformattedToken(text);
  }

  link(src) {
    return this.#nested(() => super.link(src));
  }

  emStrong(src, masked, before) {
    return this.#nested(() => super.emStrong(src, masked, before));
  }

  del(src, masked, before) {
    return this.#nested(() => super.del(src, masked, before));
  }

  /** @template T
   * @param {() => T} read */
  #nested(read) {
    if (this.#depth >= MAX_DEPTH) return undefined;
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

export const normalizeLineEnds = (text) => text.replace(/\r\n?/g, "\n");

/** Return the blocks of a text, whose lines must end in "\n" alone. Their `raw` texts together are the text.
 * @returns {Token[]} */
export function lexMarkdown(text) {
  if (text.length > MAX_CHARS || hasMoreLines(text, MAX_LINES)) return [unformattedToken(text)];
  const lexer = new Lexer({ gfm: true, breaks: true, tokenizer: new BoundedTokenizer() });
  lexer.blockTokens(text, lexer.tokens);
  for (const { src, tokens } of lexer.inlineQueue) {
    if (src.length > MAX_INLINE_CHARS) tokens.push({ type: "text", raw: src, text: src });
    else lexer.inlineTokens(src, tokens);
  }
  return lexer.tokens;
}

const unformattedToken = (text) => ({ type: "unformatted", raw: text, text });

function hasMoreLines(text, most) {
  let at = -1;
  for (let count = 0; count < most; count++) if ((at = text.indexOf("\n", at + 1)) < 0) return false;
  return true;
}

/** Split a text into chunks of whole lines, which a browser can lay out one by one. */
export function splitIntoChunks(text) {
  const chunks = [];
  for (let at = 0; at < text.length;) {
    const line = text.indexOf("\n", at + CHUNK_CHARS);
    const end = line < 0 || line > at + 4 * CHUNK_CHARS ? Math.min(text.length, at + 4 * CHUNK_CHARS) : line + 1;
    chunks.push(text.slice(at, end));
    at = end;
  }
  return chunks;
}

/** Split a growing text into blocks that cannot change any more, and the rest: its last two blocks. */
export function splitFinished(text) {
  const tokens = lexMarkdown(text);
  const last = tokens.filter((token) => token.type !== "space").at(-2);
  const finished = last ? tokens.slice(0, tokens.indexOf(last)) : [];
  return { finished, rest: text.slice(finished.reduce((length, token) => length + token.raw.length, 0)) };
}

const FENCE = /^[ \t]*(?:```|~~~)/;
const FENCES = new RegExp(FENCE.source, "gm");
/** A line whose type is not certain yet. */
const INCOMPLETE_LINE = /^[ \t]*(?:[-*+_=|#>~`:][-*+_=|#>~`: \t]*|\d{1,9}[.)]?[ \t]*|[-*+] \[[ xX]?\]?[ \t]*|)$/;
const TABLE_ROW = /^[ \t]*\|/;
const INCOMPLETE_LINK = /!?\[[^[\]\n]{0,300}(?:\](?:\([^()\s]{0,1000})?)?$/;
const EMPHASIS = /(?<!\\)(?:\*\*|__|~~|\*|_)/g;

export const startsCodeBlock = (text) => FENCE.test(text);

/** Complete the marks of a growing text, or leave them out until they are complete, so that it is shown as it will probably be read. */
export function completeMarks(text) {
  const lines = text.split("\n");
  const last = lines.pop();
  if ((text.match(FENCES)?.length ?? 0) % 2) return /^[ \t]*[`~]{1,2}$/.test(last) ? lines.join("\n") : text;
  if (!INCOMPLETE_LINE.test(last)) lines.push(completeLine(last));
  if (TABLE_ROW.test(lines.at(-1) ?? "") && !TABLE_ROW.test(lines.at(-2) ?? "")) lines.pop(); // a rule, or the first line of a table
  return lines.join("\n");
}

/** Complete the emphasis and code of a line, and remove an incomplete link at its end. */
function completeLine(line) {
  let code = "";
  let at = 0;
  for (const { 0: ticks, index } of line.matchAll(/`+/g)) {
    if (code === "") [code, at] = [ticks, index];
    else if (ticks === code) [code, at] = ["", index + ticks.length];
  }
  if (code && line.length === at + code.length) return completeLine(line.slice(0, at));
  if (code) return line + code + findOpenEmphasis(line.slice(0, at)).join("");
  const words = line.replace(INCOMPLETE_LINK, "").replace(/[*_~]+$/, "");
  return words.trimEnd() + findOpenEmphasis(words).join("");
}

/** Return the marks of emphasis that are not closed, the last one first. */
function findOpenEmphasis(line) {
  const plain = line.replace(/(`+)[^`]*\1/g, (code) => "a".repeat(code.length));
  const open = [];
  for (const { 0: mark, index } of plain.matchAll(EMPHASIS)) {
    const [before, after] = [plain[index - 1] ?? " ", plain[index + mark.length] ?? " "];
    if (open[0] === mark && /\S/.test(before)) open.shift();
    else if (/\S/.test(after) && /[\s\p{P}\p{S}]/u.test(before)) open.unshift(mark);
  }
  return open;
}
