/** A form for a value with a JSON schema.
 *
 * `createForm(schema, value, secrets)` returns `{ element, read() }`. `read` returns the value in the form, or marks the invalid field and
 * throws `InvalidValue`. The page does not have secret values: a secret is represented by its digest, which stands for the recorded value.
 */

import { el, setChildren } from "../lib/dom.js";
import { parseJson, stringifyJson } from "../lib/exact_json.js";
import { escapeInvisible, shorten } from "../lib/format.js";
import { describeField, findProblem, fitsField, initialValue, isObject, parseNumber, resolveSchema } from "../model/schema.js";
import { createIcon } from "./icons.js";

export class InvalidValue extends Error {}

let idCount = 0;

/** Create a form for a whole value. The value can also be edited as JSON. */
export function createForm(schema, value, secrets = []) {
  const root = schema ?? {};
  let field = createField(chooseField(root, root, value, secrets), root, value, secrets);
  let asText = !schema || chooseField(root, root, value, secrets).kind === "raw";
  const body = el("div", { class: "form-body" });
  const toggle = el("button", { class: "plain small", type: "button" });
  const draw = () => {
    setChildren(body, field.element);
    toggle.textContent = asText ? "As a form" : "As JSON";
    toggle.hidden = !schema;
  };
  toggle.addEventListener("click", () => {
    try {
      const now = field.read();
      asText = !asText;
      field = asText ? createRawField(now, { schema: root }) : createField(chooseField(root, root, now, secrets), root, now, secrets);
      draw();
    } catch (error) {
      if (!(error instanceof InvalidValue)) throw error;
    }
  });
  if (asText) field = createRawField(value, { schema: root });
  draw();
  return { element: el("div", { class: "schema-form" }, body, toggle), read: () => field.read() };
}

function chooseField(schema, root, value, secrets) {
  const field = describeField(schema, root);
  return value === undefined || fitsField(value, field) || (value === null && field.nullable) || secrets.length
    ? field
    : { ...field, kind: "raw" };
}

/** Create the controls of one field. */
function createField(field, root, value, secrets = []) {
  return {
    text: createTextField,
    number: createNumberField,
    integer: createNumberField,
    boolean: createBooleanField,
    choice: createChoiceField,
    list: createListField,
    object: createObjectField,
    raw: createRawField,
  }[field.kind](value, field, root, secrets);
}

// -- plain fields ------------------------------------------------------------------------------------------------------

function withValidation(control, read) {
  const id = `problem-${++idCount}`;
  const problem = el("p", { class: "problem", id, hidden: true });
  control.setAttribute("aria-describedby", id);
  const check = () => {
    try {
      const value = read();
      problem.hidden = true;
      control.removeAttribute("aria-invalid");
      return value;
    } catch (error) {
      if (error instanceof InvalidValue) throw error; // a nested field shows it
      problem.textContent = `Expected: ${error.message}`;
      problem.hidden = false;
      control.setAttribute("aria-invalid", "true");
      control.focus();
      throw new InvalidValue(error.message);
    }
  };
  return { element: el("div", { class: "control" }, control, problem), read: check, control };
}

function requireValid(value, field) {
  const expected = findProblem(value, field);
  if (expected) throw new Error(expected);
  return value;
}

function createTextField(value, field) {
  const long = String(value ?? "").length > 60 || String(value ?? "").includes("\n");
  const control = long
    ? el("textarea", { rows: 4, value: value ?? "" })
    : el("input", { type: "text", value: value ?? "", autocomplete: "off", spellcheck: "false" });
  return withValidation(control, () => requireValid(control.value, field));
}

function createNumberField(value, field) {
  const before = value === undefined ? "" : stringifyJson(value);
  const control = el("input", {
    type: "text",
    inputmode: field.kind === "integer" ? "numeric" : "decimal",
    value: before,
    autocomplete: "off",
    class: "number",
  });
  return withValidation(control, () =>
    control.value === before && value !== undefined ? value : requireValid(parseNumber(control.value, field.kind), field),
  );
}

function createBooleanField(value) {
  const control = el("input", { type: "checkbox", checked: Boolean(value) });
  return { element: control, read: () => control.checked, control };
}

function createChoiceField(value, field) {
  const chosen = field.options.findIndex((option) => stringifyJson(option) === stringifyJson(value));
  const control = el(
    "select",
    null,
    field.options.map((option, index) =>
      el("option", { value: index, selected: index === chosen }, typeof option === "string" ? option : stringifyJson(option)),
    ),
  );
  return { element: control, read: () => field.options[Number(control.value)], control };
}

function createRawField(value, field) {
  const control = el("textarea", {
    rows: 5,
    class: "raw",
    spellcheck: "false",
    value: value === undefined ? "" : escapeInvisible(stringifyJson(value, 2)),
  });
  return withValidation(control, () => {
    try {
      return parseJson(control.value);
    } catch (error) {
      throw new Error(`JSON${field.schema?.type ? ` (${[field.schema.type].flat().join(" or ")})` : ""}; ${error.message}`, {
        cause: error,
      });
    }
  });
}

// -- lists and objects ---------------------------------------------------------------------------------------------------

function createListField(value, field, root) {
  const items = [];
  const holder = el("ol", { class: "list-items" });
  const draw = () =>
    setChildren(
      holder,
      items.map((item, index) => {
        (item.control ?? item.element).setAttribute("aria-label", `item ${index + 1}`);
        return el(
          "li",
          null,
          el("span", { class: "soft small-print item-number" }, `${index + 1}`),
          item.element,
          el(
            "button",
            {
              class: "plain small",
              type: "button",
              "aria-label": `Remove item ${index + 1}`,
              onclick: () => {
                items.splice(index, 1);
                draw();
              },
            },
            createIcon("cross"),
          ),
        );
      }),
    );
  const add = (one) => items.push(createOptionalField(field.schema.items, root, one, true));
  for (const one of value ?? []) add(one);
  draw();
  const more = el(
    "button",
    {
      class: "plain small",
      type: "button",
      onclick: () => {
        add(initialValue(field.schema.items, root));
        draw();
        holder.lastElementChild?.querySelector("input, textarea, select")?.focus();
      },
    },
    createIcon("plus"),
    "Add one",
  );
  const checked = withValidation(el("div", { class: "list", tabindex: "-1" }, holder, more), () =>
    requireValid(
      items.map((item) => item.read()),
      field,
    ),
  );
  return { ...checked, control: null };
}

function createObjectField(value, field, root, secrets = []) {
  const { properties, required = [] } = field.schema;
  const fields = Object.entries(properties).map(([name, schema]) => [
    name,
    secrets.includes(name) ? createSecretField(value?.[name]) : createOptionalField(schema, root, value?.[name], required.includes(name)),
  ]);
  const element = el(
    "div",
    { class: "object", role: "group" },
    fields.map(([name, each]) => withLabel(name, resolveSchema(properties[name], root), required.includes(name), each)),
  );
  return {
    element,
    control: null,
    read() {
      const entries = fields.map(([name, each]) => [name, each.read()]).filter(([, each]) => each !== undefined);
      const others = isObject(value) ? Object.entries(value).filter(([name]) => !(name in properties)) : [];
      return Object.fromEntries([...entries, ...others]);
    },
  };
}

function withLabel(name, schema, required, field) {
  const id = `field-${++idCount}`;
  const control = field.control;
  field.element.querySelector(":scope > .maybe")?.setAttribute("aria-label", `${name}: given, null or left out`);
  if (control) control.id ||= id;
  else
    for (const [attribute, value] of [
      ["role", "group"],
      ["aria-label", name],
    ])
      field.element.setAttribute(attribute, value);
  return el(
    "div",
    { class: "field" },
    el(
      "div",
      { class: "field-name" },
      el(
        control ? "label" : "span",
        { class: "label", for: control?.id },
        el("code", null, name),
        required && el("span", { class: "required" }, " required"),
      ),
      schema.description && el("p", { class: "soft small-print" }, schema.description),
    ),
    field.element,
  );
}

/** Create a field that may be null or left out, as chosen in a list beside it. */
function createOptionalField(schema, root, value, required) {
  const field = chooseField(schema, root, value, []);
  const otherwise = resolveSchema(schema, root).default;
  const words = {
    value: "given",
    null: "null",
    "left out": otherwise === undefined ? "left out" : `left out: ${shorten(stringifyJson(otherwise), 24)}`,
  };
  const ways = ["value", ...(field.nullable ? ["null"] : []), ...(required ? [] : ["left out"])];
  if (ways.length === 1) return createField(field, root, value === undefined ? initialValue(schema, root) : value);
  const now = value === undefined && !required ? "left out" : value === null && field.nullable ? "null" : "value";
  let inner = now === "value" ? createField(field, root, value) : null;
  const place = el("div", { class: "maybe-value" }, inner?.element);
  const choice = el(
    "select",
    { class: "maybe", "aria-label": "given, null or left out" },
    ways.map((way) => el("option", { value: way, selected: way === now }, words[way])),
  );
  choice.addEventListener("change", () => {
    const before = inner?.control ?? choice;
    inner = choice.value === "value" ? createField(describeField(schema, root), root, initialValue(schema, root)) : null;
    const now = inner?.control ?? choice;
    [now.id, before.id] = [before.id, before === now ? before.id : ""]; // the label refers to the current control
    setChildren(place, inner?.element);
    now.focus();
  });
  return {
    element: el("div", { class: "maybe-field" }, place, choice),
    control: inner?.control ?? choice,
    read: () => (choice.value === "left out" ? undefined : choice.value === "null" ? null : inner.read()),
  };
}

/** Create a field for a secret: its digest, which keeps the recorded value, or a new value. */
function createSecretField(digest) {
  const control = el("input", { type: "password", autocomplete: "new-password", placeholder: "another value", hidden: true });
  const choice = el(
    "select",
    null,
    el("option", { value: "keep" }, `as recorded (${digest ?? "left out"})`),
    el("option", { value: "new" }, "another value"),
  );
  choice.addEventListener("change", () => {
    control.hidden = choice.value === "keep";
    if (!control.hidden) control.focus();
  });
  return {
    element: el("div", { class: "secret" }, choice, control),
    control: choice,
    read: () => (choice.value === "keep" ? digest : control.value),
  };
}
