/** JSON without loss of digits.
 *
 * People approve exact arguments. 12345678901234567890 and 24.50 must not become 12345678901234567000 and 24.5 on the way through the page.
 */

const MAX_INLINE_LIST_CHARS = 60;

/** A number that JavaScript cannot represent exactly, as its source text. */
export class ExactNumber {
  constructor(source) {
    this.source = source;
  }
}

/** Parse JSON. In browsers that do not report the source of numbers, numbers are JavaScript's. */
export function parseJson(text) {
  return JSON.parse(text, (_name, value, context) => {
    if (typeof value !== "number" || context?.source === undefined) return value;
    return String(value) === context.source ? value : new ExactNumber(context.source);
  });
}

/** Encode a value like `JSON.stringify`, with exact numbers as their source text. */
export function stringifyJson(value, indent = 0, depth = 0) {
  if (value instanceof ExactNumber) return value.source;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const entries = Array.isArray(value)
    ? value.map((each) => stringifyJson(each, indent, depth + 1))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(([name, each]) => `${JSON.stringify(name)}:${indent ? " " : ""}${stringifyJson(each, indent, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!indent || entries.length === 0) return `${open}${entries.join(",")}${close}`;
  const inline = `${open}${entries.join(", ")}${close}`;
  if (Array.isArray(value) && inline.length <= MAX_INLINE_LIST_CHARS && !inline.includes("\n")) return inline;
  const margin = " ".repeat(indent * (depth + 1));
  return `${open}\n${margin}${entries.join(`,\n${margin}`)}\n${" ".repeat(indent * depth)}${close}`;
}

/** Indent a JSON text; return the text unchanged if it does not parse. */
export function prettyPrintJson(text) {
  try {
    return stringifyJson(parseJson(text), 2);
  } catch {
    return text;
  }
}
