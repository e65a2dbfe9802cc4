/** A form made from a JSON schema. May know: schemas and elements. Decides: what is typed where, and how a mistake is shown.
 *
 * `formOf(schema, value, secrets)` gives `{ element, read() }`; `read` gives the value as it stands in the form, or throws `Mistaken` after
 * having marked where. A secret's value is not here: its digest stands for it, and means that it stays as it is.
 */

import { fieldOf, fits, initial, isObject, numberTyped, resolved, wrong } from "../model/schema.js";
import { el, show } from "./dom.js";
import { parse, write } from "./exact.js";
import { brief, visible } from "./format.js";
import { icon } from "./icons.js";

export class Mistaken extends Error {}

let numbered = 0;

/** A form for a whole value, with its text of JSON as the other way to write it. */
export function formOf(schema, value, secrets = []) {
  const root = schema ?? {};
  let field = made(fieldFor(root, root, value, secrets), root, value, secrets);
  let asText = !schema || fieldFor(root, root, value, secrets).kind === "raw";
  const place = el("div", { class: "form-body" });
  const toggle = el("button", { class: "plain small", type: "button" });
  const draw = () => {
    show(place, field.element);
    toggle.textContent = asText ? "As a form" : "As JSON";
    toggle.hidden = !schema;
  };
  toggle.addEventListener("click", () => {
    try {
      const now = field.read();
      asText = !asText;
      field = asText ? rawField(now, { schema: root }) : made(fieldFor(root, root, now, secrets), root, now, secrets);
      draw();
    } catch (error) {
      if (!(error instanceof Mistaken)) throw error;
    }
  });
  if (asText) field = rawField(value, { schema: root });
  draw();
  return { element: el("div", { class: "schema-form" }, place, toggle), read: () => field.read() };
}

function fieldFor(schema, root, value, secrets) {
  const field = fieldOf(schema, root);
  return value === undefined || fits(value, field) || (value === null && field.nullable) || secrets.length
    ? field
    : { ...field, kind: "raw" };
}

/** The control for one field. */
function made(field, root, value, secrets = []) {
  return {
    text: textField,
    number: numberField,
    integer: numberField,
    boolean: booleanField,
    choice: choiceField,
    list: listField,
    object: objectField,
    raw: rawField,
  }[field.kind](value, field, root, secrets);
}

// -- plain fields ------------------------------------------------------------------------------------------------------

function withProblem(control, read) {
  const id = `problem-${++numbered}`;
  const problem = el("p", { class: "problem", id, hidden: true });
  control.setAttribute("aria-describedby", id);
  const check = () => {
    try {
      const value = read();
      problem.hidden = true;
      control.removeAttribute("aria-invalid");
      return value;
    } catch (error) {
      if (error instanceof Mistaken) throw error; // what is within has said so where it is
      problem.textContent = `Expected: ${error.message}`;
      problem.hidden = false;
      control.setAttribute("aria-invalid", "true");
      control.focus();
      throw new Mistaken(error.message);
    }
  };
  return { element: el("div", { class: "control" }, control, problem), read: check, control };
}

function expected(value, field) {
  const told = wrong(value, field);
  if (told) throw new Error(told);
  return value;
}

function textField(value, field) {
  const long = String(value ?? "").length > 60 || String(value ?? "").includes("\n");
  const control = long
    ? el("textarea", { rows: 4, value: value ?? "" })
    : el("input", { type: "text", value: value ?? "", autocomplete: "off", spellcheck: "false" });
  return withProblem(control, () => expected(control.value, field));
}

function numberField(value, field) {
  const before = value === undefined ? "" : write(value);
  const control = el("input", {
    type: "text",
    inputmode: field.kind === "integer" ? "numeric" : "decimal",
    value: before,
    autocomplete: "off",
    class: "number",
  });
  return withProblem(control, () =>
    control.value === before && value !== undefined ? value : expected(numberTyped(control.value, field.kind), field),
  );
}

function booleanField(value) {
  const control = el("input", { type: "checkbox", checked: Boolean(value) });
  return { element: control, read: () => control.checked, control };
}

function choiceField(value, field) {
  const chosen = field.options.findIndex((option) => write(option) === write(value));
  const control = el(
    "select",
    null,
    field.options.map((option, index) =>
      el("option", { value: index, selected: index === chosen }, typeof option === "string" ? option : write(option)),
    ),
  );
  return { element: control, read: () => field.options[Number(control.value)], control };
}

function rawField(value, field) {
  const control = el("textarea", {
    rows: 5,
    class: "raw",
    spellcheck: "false",
    value: value === undefined ? "" : visible(write(value, 2)),
  });
  return withProblem(control, () => {
    try {
      return parse(control.value);
    } catch (error) {
      throw new Error(`JSON${field.schema?.type ? ` (${[field.schema.type].flat().join(" or ")})` : ""}; ${error.message}`, {
        cause: error,
      });
    }
  });
}

// -- lists and objects ---------------------------------------------------------------------------------------------------

function listField(value, field, root) {
  const items = [];
  const holder = el("ol", { class: "list-items" });
  const draw = () =>
    show(
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
            icon("cross"),
          ),
        );
      }),
    );
  const add = (one) => items.push(nullableField(field.schema.items, root, one, true));
  for (const one of value ?? []) add(one);
  draw();
  const more = el(
    "button",
    {
      class: "plain small",
      type: "button",
      onclick: () => {
        add(initial(field.schema.items, root));
        draw();
        holder.lastElementChild?.querySelector("input, textarea, select")?.focus();
      },
    },
    icon("plus"),
    "Add one",
  );
  const checked = withProblem(el("div", { class: "list", tabindex: "-1" }, holder, more), () =>
    expected(
      items.map((item) => item.read()),
      field,
    ),
  );
  return { ...checked, control: null };
}

function objectField(value, field, root, secrets = []) {
  const { properties, required = [] } = field.schema;
  const fields = Object.entries(properties).map(([name, schema]) => [
    name,
    secrets.includes(name) ? secretField(value?.[name]) : nullableField(schema, root, value?.[name], required.includes(name)),
  ]);
  const element = el(
    "div",
    { class: "object", role: "group" },
    fields.map(([name, each]) => labelled(name, resolved(properties[name], root), required.includes(name), each)),
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

function labelled(name, schema, required, field) {
  const id = `field-${++numbered}`;
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

/** A field that may be left out, or be null: what it is, is chosen beside it. */
function nullableField(schema, root, value, required) {
  const field = fieldFor(schema, root, value, []);
  const otherwise = resolved(schema, root).default;
  const words = {
    value: "given",
    null: "null",
    "left out": otherwise === undefined ? "left out" : `left out: ${brief(write(otherwise), 24)}`,
  };
  const ways = ["value", ...(field.nullable ? ["null"] : []), ...(required ? [] : ["left out"])];
  if (ways.length === 1) return made(field, root, value === undefined ? initial(schema, root) : value);
  const now = value === undefined && !required ? "left out" : value === null && field.nullable ? "null" : "value";
  let inner = now === "value" ? made(field, root, value) : null;
  const place = el("div", { class: "maybe-value" }, inner?.element);
  const choice = el(
    "select",
    { class: "maybe", "aria-label": "given, null or left out" },
    ways.map((way) => el("option", { value: way, selected: way === now }, words[way])),
  );
  choice.addEventListener("change", () => {
    const before = inner?.control ?? choice;
    inner = choice.value === "value" ? made(fieldOf(schema, root), root, initial(schema, root)) : null;
    const now = inner?.control ?? choice;
    [now.id, before.id] = [before.id, before === now ? before.id : ""]; // its label names what is there now
    show(place, inner?.element);
    now.focus();
  });
  return {
    element: el("div", { class: "maybe-field" }, place, choice),
    control: inner?.control ?? choice,
    read: () => (choice.value === "left out" ? undefined : choice.value === "null" ? null : inner.read()),
  };
}

/** A secret: its digest, which keeps what was recorded, or something new in its place. */
function secretField(digest) {
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
