/** A virtual list: of any number of rows, only those near the visible part are in the document.
 *
 * Rows may have any height and may change it. The visible rows stay in place when rows above turn out to be higher or lower than estimated.
 * A list that is scrolled to its end stays there when rows are added.
 */

import { el, oncePerFrame } from "../lib/dom.js";
import { RowHeights } from "../model/row_heights.js";

const OVERSCAN_PX = 500; // rows this far beyond the visible part are rendered too
const END_TOLERANCE_PX = 48;

export class VirtualList {
  /** `createRow(index)` returns an element. It is called again when `rowKey(index)` changes. `footer` follows the rows. */
  constructor({ createRow, rowKey, estimatedHeight = 60, role = "list", label, footer = null, followsEnd = false, className = "" }) {
    this.createRow = createRow;
    this.rowKey = rowKey;
    this.heights = new RowHeights(estimatedHeight);
    this.rowsElement = el("div", { class: "rows", role: "presentation" });
    // In a listbox the list itself has the focus and the role; otherwise the scrolling element is only a group.
    const isListbox = role === "listbox";
    this.spacer = el(
      "div",
      { class: "space", role: isListbox ? "presentation" : role, "aria-label": isListbox ? undefined : label },
      this.rowsElement,
    );
    this.element = el(
      "div",
      {
        class: `scroll ${className}`,
        tabindex: "0",
        role: isListbox ? role : "group",
        "aria-label": isListbox ? label : `${label}, scrolls`,
      },
      this.spacer,
      footer,
    );
    this.footer = footer;
    this.followsEnd = followsEnd;
    this.isAtEnd = followsEnd;
    this.rendered = new Map(); // index -> { element, key }
    this.onEndChange = (_isAtEnd) => {};
    this.scheduleDraw = oncePerFrame(() => this.#draw());
    this.element.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.resizeObserver = new ResizeObserver(() => this.scheduleDraw());
    this.resizeObserver.observe(this.element);
    if (footer) this.resizeObserver.observe(footer);
  }

  close() {
    this.resizeObserver.disconnect();
  }

  get count() {
    return this.heights.count;
  }

  /** Set the number of rows, and render rows whose key has changed again. */
  update(newCount) {
    for (const index of [...this.rendered.keys()]) if (index >= newCount) this.#remove(index);
    if (newCount !== this.count) this.heights.resize(newCount);
    this.scheduleDraw();
  }

  /** Discard all rows and heights, for other content. */
  reset(count) {
    for (const index of [...this.rendered.keys()]) this.#remove(index);
    this.heights.resetFrom(0);
    this.heights.resize(count);
    this.scheduleDraw();
  }

  /** Scroll to a row: so that it is in the middle, or only as far as needed. */
  scrollTo(index, middle = true) {
    this.isAtEnd = false;
    for (let round = 0; round < 2; round++) {
      // The first round uses estimated heights, the second one measured heights.
      const top = this.heights.offsetOf(index);
      const bottom = top + this.heights.heights[index];
      const { scrollTop, clientHeight } = this.element;
      if (middle) this.element.scrollTop = Math.max(0, top - clientHeight / 3);
      else if (top < scrollTop) this.element.scrollTop = top;
      else if (bottom > scrollTop + clientHeight) this.element.scrollTop = bottom - clientHeight;
      this.#draw();
    }
  }

  scrollToEnd() {
    this.isAtEnd = true;
    this.#draw();
  }

  /** Return the element of a row; null if it is not rendered. */
  findRowElement(index) {
    return this.rendered.get(index)?.element ?? null;
  }

  #onScroll() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const isAtEnd = this.followsEnd && scrollHeight - scrollTop - clientHeight < END_TOLERANCE_PX;
    if (isAtEnd !== this.isAtEnd) {
      this.isAtEnd = isAtEnd;
      this.onEndChange(isAtEnd);
    }
    this.scheduleDraw();
  }

  #draw() {
    const height = this.element.clientHeight;
    if (!height || !this.element.isConnected) return;
    const anchor = this.heights.indexAt(this.element.scrollTop);
    const within = this.element.scrollTop - this.heights.offsetOf(anchor);
    let isStable = false;
    for (let round = 0; round < 4 && !isStable; round++) {
      this.spacer.style.height = `${this.heights.total}px`;
      if (this.isAtEnd) this.element.scrollTop = this.element.scrollHeight;
      const first = this.heights.indexAt(Math.max(0, this.element.scrollTop - OVERSCAN_PX));
      const last = this.heights.indexAt(this.element.scrollTop + height + OVERSCAN_PX);
      isStable = !this.#renderRows(first, last);
      if (!isStable && !this.isAtEnd && this.count)
        this.element.scrollTop = this.heights.offsetOf(Math.min(anchor, this.count - 1)) + within;
    }
    if (this.isAtEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Render exactly these rows. Return true if a measured height differs from the known one. */
  #renderRows(first, last) {
    for (const index of [...this.rendered.keys()]) if (index < first || index > last) this.#remove(index);
    let next = this.rowsElement.firstChild;
    for (let index = first; index <= last && index < this.count; index++) {
      const key = this.rowKey(index);
      const old = this.rendered.get(index);
      if (old && old.key === key) {
        next = old.element.nextSibling;
        continue;
      }
      const element = this.createRow(index);
      if (old) {
        next = old.element.nextSibling;
        const hadFocus = old.element.contains(document.activeElement);
        this.resizeObserver.unobserve(old.element);
        old.element.replaceWith(element);
        if (hadFocus && element.tabIndex >= 0) element.focus({ preventScroll: true });
      } else this.rowsElement.insertBefore(element, next);
      this.rendered.set(index, { element, key });
      this.resizeObserver.observe(element);
    }
    let changed = false;
    for (const [index, { element }] of this.rendered)
      changed = this.heights.setHeight(index, element.getBoundingClientRect().height) || changed;
    this.rowsElement.style.transform = `translateY(${this.heights.offsetOf(first)}px)`;
    this.spacer.style.height = `${this.heights.total}px`;
    return changed;
  }

  #remove(index) {
    const { element } = this.rendered.get(index);
    if (element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
    this.resizeObserver.unobserve(element);
    element.remove();
    this.rendered.delete(index);
  }
}
