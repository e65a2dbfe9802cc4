/** Creation and lookup of DOM elements. Content is always set as text, never as markup. */

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Names that are set as properties, because the attribute is only the initial value. */
const PROPERTIES = new Set(["value", "checked", "disabled", "open", "hidden", "indeterminate", "selected", "readOnly", "required"]);

/** Create an HTML element: `el("button", { class: "quiet", onclick: go }, "Go")`. Children that are null or false are left out. */
export function el(tag, attributes, ...children) {
  return populate(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function svg(tag, attributes, ...children) {
  return populate(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

function populate(element, attributes, children) {
  element.append(...flatten(children)); // first: after `dir="auto"`, browsers scan all text again for each added child
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

function flatten(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
}

/** Replace the children of an element. */
export function setChildren(element, ...children) {
  element.replaceChildren(...flatten(children));
}

/** Return an element that index.html contains.
 * @param {string} id */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Return the element that has the focus.
 * @returns {HTMLElement | null} */
export function focusedElement() {
  return document.activeElement instanceof HTMLElement ? document.activeElement : null;
}

/** Create text that only screen readers get. */
export function visuallyHidden(text) {
  return el("span", { class: "visually-hidden" }, text);
}

/** Wrap a function so that it runs at most once per animation frame. */
export function oncePerFrame(work) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      work();
    });
  };
}

/** Wrap a function so that it runs when it was not called for so many milliseconds, with the arguments of the last call. */
export function debounce(work, milliseconds) {
  let timer = 0;
  const debounced = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), milliseconds);
  };
  debounced.cancel = () => clearTimeout(timer);
  return debounced;
}
