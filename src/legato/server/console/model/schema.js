/** JSON schemas as form fields, and validation of their values.
 *
 * Kinds of fields: text, number, integer, boolean, choice, list, object, and raw (JSON text) for everything else. The server validates
 * again by the tool's own rules; validation here only helps people before they submit.
 */

import { ExactNumber, stringifyJson } from "../lib/exact_json.js";

const MAX_DEPTH = 6;

/** Resolve the references of a schema, which point into `root`. */
export function resolveSchema(schema, root, depth = 0) {
  let found = schema === true || schema === undefined ? {} : schema;
  for (let hops = 0; found.$ref !== undefined && hops < 8; hops++) {
    const { $ref, ...beside } = found;
    found = { ...(followPointer($ref, root) ?? {}), ...beside };
  }
  if (found.allOf?.length === 1 && depth < MAX_DEPTH) {
    const { allOf, ...beside } = found;
    found = { ...resolveSchema(allOf[0], root, depth + 1), ...beside };
  }
  return found;
}

function followPointer(ref, root) {
  if (!ref.startsWith("#/")) return null;
  return ref
    .slice(2)
    .split("/")
    .reduce((at, step) => at?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

/** Return the field for a schema: { kind, nullable, schema, options }. */
export function describeField(unresolved, root, depth = 0) {
  const schema = resolveSchema(unresolved, root);
  if (depth > MAX_DEPTH) return { kind: "raw", nullable: false, schema };
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return describeVariants(schema, variants, root, depth);
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

function describeVariants(schema, variants, root, depth) {
  const { anyOf, oneOf, ...beside } = schema;
  const plain = variants.map((variant) => resolveSchema(variant, root)).filter((variant) => variant.type !== "null");
  const nullable = plain.length < variants.length;
  if (plain.length === 1) {
    const field = describeField({ ...plain[0], ...beside }, root, depth + 1);
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

/** Return the initial value of a new field. */
export function initialValue(unresolved, root, depth = 0) {
  const { kind, schema, options } = describeField(unresolved, root, depth);
  if (schema.default !== undefined) return schema.default;
  if (kind === "text") return "";
  if (kind === "number" || kind === "integer") return schema.minimum ?? 0;
  if (kind === "boolean") return false;
  if (kind === "choice") return options[0];
  if (kind === "list") return [];
  if (kind === "object" && depth < MAX_DEPTH) {
    const required = schema.required ?? [];
    return Object.fromEntries(
      Object.entries(schema.properties)
        .filter(([name]) => required.includes(name))
        .map(([name, each]) => [name, initialValue(each, root, depth + 1)]),
    );
  }
  return kind === "object" || schema.type === "object" ? {} : kind === "raw" && schema.type === "array" ? [] : null;
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/** Parse a typed number: as an ExactNumber if JavaScript cannot represent it exactly. Throws an error that says what is expected. */
export function parseNumber(text, kind) {
  const typed = text.trim();
  if (!(kind === "integer" ? INTEGER : NUMBER).test(typed))
    throw new Error(kind === "integer" ? "a whole number" : "a number, with a point for decimals");
  const value = Number(typed);
  return String(value) === typed ? value : new ExactNumber(typed);
}

/** Return what is expected instead of an invalid value; empty if the value is valid, as far as can be checked here. */
export function findProblem(value, { kind, schema, options }) {
  if (kind === "text") {
    if (typeof value !== "string") return "text";
    if (schema.minLength !== undefined && value.length < schema.minLength)
      return schema.minLength === 1 ? "a text" : `at least ${schema.minLength} characters`;
    if (schema.maxLength !== undefined && value.length > schema.maxLength) return `at most ${schema.maxLength} characters`;
    if (schema.pattern !== undefined && !matchesPattern(value, schema.pattern)) return `text that matches ${schema.pattern}`;
  } else if (kind === "number" || kind === "integer") {
    const number = value instanceof ExactNumber ? Number(value.source) : value;
    if (schema.minimum !== undefined && number < schema.minimum) return `at least ${schema.minimum}`;
    if (schema.maximum !== undefined && number > schema.maximum) return `at most ${schema.maximum}`;
    if (schema.exclusiveMinimum !== undefined && number <= schema.exclusiveMinimum) return `more than ${schema.exclusiveMinimum}`;
    if (schema.exclusiveMaximum !== undefined && number >= schema.exclusiveMaximum) return `less than ${schema.exclusiveMaximum}`;
  } else if (kind === "choice") {
    if (!options.some((option) => stringifyJson(option) === stringifyJson(value)))
      return `one of ${options.map((option) => stringifyJson(option)).join(", ")}`;
  } else if (kind === "list") {
    if (schema.minItems !== undefined && value.length < schema.minItems) return `at least ${schema.minItems} items`;
    if (schema.maxItems !== undefined && value.length > schema.maxItems) return `at most ${schema.maxItems} items`;
  }
  return "";
}

function matchesPattern(text, pattern) {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true; // a pattern in another dialect: the server checks it
  }
}

/** Return true if a field of this kind can show the value without changing it. */
export function fitsField(value, { kind, options, schema }) {
  if (kind === "text") return typeof value === "string";
  if (kind === "number" || kind === "integer") return typeof value === "number" || value instanceof ExactNumber;
  if (kind === "boolean") return typeof value === "boolean";
  if (kind === "choice") return options.some((option) => stringifyJson(option) === stringifyJson(value));
  if (kind === "list") return Array.isArray(value);
  if (kind === "object") return isObject(value) && Object.keys(value).every((name) => name in schema.properties);
  return true;
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof ExactNumber);
