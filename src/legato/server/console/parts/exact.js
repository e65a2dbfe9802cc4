/** JSON without loss. May know: JSON. Decides: that a number which JavaScript cannot hold stays as it was written.
 *
 * A person approves exact arguments. 12345678901234567890 and 24.50 must not become 12345678901234567000 and 24.5 on the way through a
 * page.
 */

const SHORT = 60; // letters of a list that stands in one line

/** A number, as it was written. */
export class Written {
  constructor(source) {
    this.source = source;
  }
}

/** What a text of JSON says. Where a browser does not tell how a number was written, it is JavaScript's. */
export function parse(text) {
  return JSON.parse(text, (_name, value, context) => {
    if (typeof value !== "number" || context?.source === undefined) return value;
    return String(value) === context.source ? value : new Written(context.source);
  });
}

/** The text of a value, as `JSON.stringify` would write it, with written numbers as they were. */
export function write(value, indent = 0, depth = 0) {
  if (value instanceof Written) return value.source;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const entries = Array.isArray(value)
    ? value.map((each) => write(each, indent, depth + 1))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(([name, each]) => `${JSON.stringify(name)}:${indent ? " " : ""}${write(each, indent, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!indent || entries.length === 0) return `${open}${entries.join(",")}${close}`;
  const flat = `${open}${entries.join(", ")}${close}`;
  if (Array.isArray(value) && flat.length <= SHORT && !flat.includes("\n")) return flat;
  const margin = " ".repeat(indent * (depth + 1));
  return `${open}\n${margin}${entries.join(`,\n${margin}`)}\n${" ".repeat(indent * depth)}${close}`;
}

/** A text of JSON, indented; what is no JSON as it is. */
export function pretty(text) {
  try {
    return write(parse(text), 2);
  } catch {
    return text;
  }
}
