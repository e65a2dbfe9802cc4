/** Elements from plain values. May know: the document. Decides: that whatever is shown is text, and never markup. */

const SVG = "http://www.w3.org/2000/svg";

/** What is set as a property, since the attribute of that name is only its beginning. */
const PROPERTIES = new Set(["value", "checked", "disabled", "open", "hidden", "indeterminate", "selected", "readOnly", "required"]);

/** An element: `el("button", { class: "quiet", onclick: go }, "Go")`. Children are elements and text; what is null or false is left out. */
export function el(tag, given, ...children) {
  return filled(document.createElement(tag), given, children);
}

/** The same for pictures that are drawn. */
export function svg(tag, given, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

function filled(made, given, children) {
  made.append(...present(children)); // first: a browser looks at all words again for each that comes after `dir="auto"`
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (PROPERTIES.has(name)) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  return made;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
}

/** Put these in place of what an element held. */
export function show(element, ...children) {
  element.replaceChildren(...present(children));
}

/** An element that the page always has.
 * @param {string} id */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** The element that has the focus.
 * @returns {HTMLElement | null} */
export function focused() {
  return document.activeElement instanceof HTMLElement ? document.activeElement : null;
}

/** Words for those who hear the page and do not see it. */
export function unseen(text) {
  return el("span", { class: "unseen" }, text);
}

/** Call once per frame however often it is asked for, with what it was asked with last. */
export function framed(work) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      work();
    });
  };
}

/** Call when nobody has asked for so many milliseconds. */
export function settled(work, milliseconds) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
