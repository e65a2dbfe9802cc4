/** JSON schemas, as far as forms can be made from them. May know: JSON schema. Decides: which field one is, what is wrong with a value.
 *
 * Kinds: text, number, integer, boolean, choice, list, object, and raw (a text of JSON) for all that no plain field can hold. The server
 * checks everything again, by the tool's own rules: what is checked here is what somebody should know before they send it.
 */

import { Written, write } from "../parts/exact.js";

const DEEPEST = 6;

/** A schema with its references followed. `root` is where they lead to. */
export function resolved(schema, root, depth = 0) {
  let found = schema === true || schema === undefined ? {} : schema;
  for (let hops = 0; found.$ref !== undefined && hops < 8; hops++) {
    const { $ref, ...beside } = found;
    found = { ...(pointed($ref, root) ?? {}), ...beside };
  }
  if (found.allOf?.length === 1 && depth < DEEPEST) {
    const { allOf, ...beside } = found;
    found = { ...resolved(allOf[0], root, depth + 1), ...beside };
  }
  return found;
}

function pointed(ref, root) {
  if (!ref.startsWith("#/")) return null;
  return ref
    .slice(2)
    .split("/")
    .reduce((at, step) => at?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

/** What a field for this schema is: { kind, nullable, schema, options }. */
export function fieldOf(given, root, depth = 0) {
  const schema = resolved(given, root);
  if (depth > DEEPEST) return { kind: "raw", nullable: false, schema };
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return fieldOfVariants(schema, variants, root, depth);
  if (schema.const !== undefined) return { kind: "choice", nullable: false, schema, options: [schema.const] };
  if (Array.isArray(schema.enum)) {
    const options = schema.enum.filter((value) => value !== null);
    return { kind: "choice", nullable: options.length < schema.enum.length, schema, options };
  }
  const types = [schema.type ?? (schema.properties ? "object" : [])].flat();
  const plain = types.filter((type) => type !== "null");
  const nullable = plain.length < types.length;
  if (plain.length !== 1) return { kind: "raw", nullable: false, schema };
  return { kind: kindOf(plain[0], schema), nullable, schema };
}

function fieldOfVariants(schema, variants, root, depth) {
  const { anyOf, oneOf, ...beside } = schema;
  const plain = variants.map((variant) => resolved(variant, root)).filter((variant) => variant.type !== "null");
  const nullable = plain.length < variants.length;
  if (plain.length === 1) {
    const field = fieldOf({ ...plain[0], ...beside }, root, depth + 1);
    return { ...field, nullable: field.nullable || nullable };
  }
  const options = plain.map((variant) => variant.enum ?? (variant.const !== undefined ? [variant.const] : null));
  if (options.every(Boolean)) return { kind: "choice", nullable, schema, options: options.flat() };
  return { kind: "raw", nullable: false, schema };
}

function kindOf(type, schema) {
  if (type === "string") return "text";
  if (type === "number" || type === "integer" || type === "boolean") return type;
  if (type === "array") return schema.items && !schema.prefixItems ? "list" : "raw";
  if (type === "object") return schema.properties && Object.keys(schema.properties).length ? "object" : "raw";
  return "raw";
}

/** What a new field begins with. */
export function initial(given, root, depth = 0) {
  const { kind, schema, options } = fieldOf(given, root, depth);
  if (schema.default !== undefined) return schema.default;
  if (kind === "text") return "";
  if (kind === "number" || kind === "integer") return schema.minimum ?? 0;
  if (kind === "boolean") return false;
  if (kind === "choice") return options[0];
  if (kind === "list") return [];
  if (kind === "object" && depth < DEEPEST) {
    const required = schema.required ?? [];
    return Object.fromEntries(
      Object.entries(schema.properties)
        .filter(([name]) => required.includes(name))
        .map(([name, each]) => [name, initial(each, root, depth + 1)]),
    );
  }
  return kind === "object" || schema.type === "object" ? {} : kind === "raw" && schema.type === "array" ? [] : null;
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/** A number as somebody typed it: as a number where JavaScript can hold it, else as it was written. Throws what is wrong with it. */
export function numberTyped(text, kind) {
  const typed = text.trim();
  if (!(kind === "integer" ? INTEGER : NUMBER).test(typed))
    throw new Error(kind === "integer" ? "a whole number" : "a number, with a point for decimals");
  const value = Number(typed);
  return String(value) === typed ? value : new Written(typed);
}

/** What is wrong with a value, in a few words; empty if nothing is that can be told here. */
export function wrong(value, { kind, schema, options }) {
  if (kind === "text") {
    if (typeof value !== "string") return "text";
    if (schema.minLength !== undefined && value.length < schema.minLength)
      return schema.minLength === 1 ? "something" : `at least ${schema.minLength} letters`;
    if (schema.maxLength !== undefined && value.length > schema.maxLength) return `at most ${schema.maxLength} letters`;
    if (schema.pattern !== undefined && !matches(value, schema.pattern)) return `what fits ${schema.pattern}`;
  } else if (kind === "number" || kind === "integer") {
    const number = value instanceof Written ? Number(value.source) : value;
    if (schema.minimum !== undefined && number < schema.minimum) return `at least ${schema.minimum}`;
    if (schema.maximum !== undefined && number > schema.maximum) return `at most ${schema.maximum}`;
    if (schema.exclusiveMinimum !== undefined && number <= schema.exclusiveMinimum) return `more than ${schema.exclusiveMinimum}`;
    if (schema.exclusiveMaximum !== undefined && number >= schema.exclusiveMaximum) return `less than ${schema.exclusiveMaximum}`;
  } else if (kind === "choice") {
    if (!options.some((option) => write(option) === write(value))) return `one of ${options.map((option) => write(option)).join(", ")}`;
  } else if (kind === "list") {
    if (schema.minItems !== undefined && value.length < schema.minItems) return `at least ${schema.minItems} of them`;
    if (schema.maxItems !== undefined && value.length > schema.maxItems) return `at most ${schema.maxItems} of them`;
  }
  return "";
}

function matches(text, pattern) {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true; // a pattern of another language of patterns: the server knows
  }
}

/** Whether a value can be shown in a field of this kind without being changed by it. */
export function fits(value, { kind, options, schema }) {
  if (kind === "text") return typeof value === "string";
  if (kind === "number" || kind === "integer") return typeof value === "number" || value instanceof Written;
  if (kind === "boolean") return typeof value === "boolean";
  if (kind === "choice") return options.some((option) => write(option) === write(value));
  if (kind === "list") return Array.isArray(value);
  if (kind === "object") return isObject(value) && Object.keys(value).every((name) => name in schema.properties);
  return true;
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Written);
