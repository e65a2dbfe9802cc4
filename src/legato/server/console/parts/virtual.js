/** A list of any length, of which only what is visible is in the document. May know: how high rows are. Decides: which rows exist now.
 *
 * Rows may be of any height and may change it. What the reader looks at stays where it is when rows above turn out to be higher or lower
 * than was guessed; a reader at the end stays at the end when more comes.
 */

import { Heights } from "../model/heights.js";
import { el, framed } from "./dom.js";

const AHEAD = 500; // pixels beyond what is visible that are there already
const NEAR_END = 48;

export class VirtualList {
  /** `row(index)` makes an element; `name(index)` changes when it has to be made anew. `footer` follows the rows and is always there. */
  constructor({ row, name, guess = 60, role = "list", label, footer = null, followEnd = false, className = "" }) {
    this.row = row;
    this.name = name;
    this.heights = new Heights(guess);
    this.holder = el("div", { class: "rows", role: "presentation" });
    // What has the focus is the list itself where one of its rows is chosen; else it is what scrolls.
    const chooses = role === "listbox";
    this.space = el(
      "div",
      { class: "space", role: chooses ? "presentation" : role, "aria-label": chooses ? undefined : label },
      this.holder,
    );
    this.element = el(
      "div",
      { class: `scroll ${className}`, tabindex: "0", role: chooses ? role : "group", "aria-label": chooses ? label : `${label}, scrolls` },
      this.space,
      footer,
    );
    this.footer = footer;
    this.followEnd = followEnd;
    this.pinned = followEnd;
    this.made = new Map(); // index -> { element, name }
    this.onEnd = (_pinned) => {};
    this.draw = framed(() => this.#draw());
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.resizes = new ResizeObserver(() => this.draw());
    this.resizes.observe(this.element);
    if (footer) this.resizes.observe(footer);
  }

  close() {
    this.resizes.disconnect();
  }

  get count() {
    return this.heights.count;
  }

  /** There are so many rows now. Those whose name is another than before are made anew. */
  update(count) {
    for (const index of [...this.made.keys()]) if (index >= count) this.#remove(index);
    if (count !== this.count) this.heights.resize(count);
    this.draw();
  }

  /** Forget all rows and heights: what is listed is something else. */
  reset(count) {
    for (const index of [...this.made.keys()]) this.#remove(index);
    this.heights.forget(0);
    this.heights.resize(count);
    this.draw();
  }

  /** Make a row visible: in the middle, or just so that it can be seen. */
  show(index, middle = true) {
    this.pinned = false;
    for (let round = 0; round < 2; round++) {
      // The first time it may be where it was guessed to be; then it is measured.
      const top = this.heights.before(index);
      const bottom = top + this.heights.heights[index];
      const { scrollTop, clientHeight } = this.element;
      if (middle) this.element.scrollTop = Math.max(0, top - clientHeight / 3);
      else if (top < scrollTop) this.element.scrollTop = top;
      else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight;
      this.#draw();
    }
  }

  showEnd() {
    this.pinned = true;
    this.#draw();
  }

  /** The element of a row, if it is there now. */
  elementOf(index) {
    return this.made.get(index)?.element ?? null;
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const pinned = this.followEnd && scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (pinned !== this.pinned) {
      this.pinned = pinned;
      this.onEnd(pinned);
    }
    this.draw();
  }

  #draw() {
    const height = this.element.clientHeight;
    if (!height || !this.element.isConnected) return;
    const anchor = this.heights.at(this.element.scrollTop);
    const within = this.element.scrollTop - this.heights.before(anchor);
    let settled = false;
    for (let round = 0; round < 4 && !settled; round++) {
      this.space.style.height = `${this.heights.total}px`;
      if (this.pinned) this.element.scrollTop = this.element.scrollHeight;
      const first = this.heights.at(Math.max(0, this.element.scrollTop - AHEAD));
      const last = this.heights.at(this.element.scrollTop + height + AHEAD);
      settled = !this.#place(first, last);
      if (!settled && !this.pinned && this.count) this.element.scrollTop = this.heights.before(Math.min(anchor, this.count - 1)) + within;
    }
    if (this.pinned) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Have exactly these rows in the document. Whether heights turned out to be others. */
  #place(first, last) {
    for (const index of [...this.made.keys()]) if (index < first || index > last) this.#remove(index);
    let next = this.holder.firstChild;
    for (let index = first; index <= last && index < this.count; index++) {
      const name = this.name(index);
      const made = this.made.get(index);
      if (made && made.name === name) {
        next = made.element.nextSibling;
        continue;
      }
      const element = this.row(index);
      if (made) {
        next = made.element.nextSibling;
        const focused = made.element.contains(document.activeElement);
        this.resizes.unobserve(made.element);
        made.element.replaceWith(element);
        if (focused && element.tabIndex >= 0) element.focus({ preventScroll: true });
      } else this.holder.insertBefore(element, next);
      this.made.set(index, { element, name });
      this.resizes.observe(element);
    }
    let changed = false;
    for (const [index, { element }] of this.made) changed = this.heights.measured(index, element.getBoundingClientRect().height) || changed;
    this.holder.style.transform = `translateY(${this.heights.before(first)}px)`;
    this.space.style.height = `${this.heights.total}px`;
    return changed;
  }

  #remove(index) {
    const { element } = this.made.get(index);
    if (element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
    this.resizes.unobserve(element);
    element.remove();
    this.made.delete(index);
  }
}
