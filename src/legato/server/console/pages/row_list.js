/** The scrolling rows of a transcript, with keyboard focus. */

import { createIcon } from "../components/icons.js";
import { VirtualList } from "../components/virtual_list.js";
import { el, focusedElement } from "../lib/dom.js";
import { rowElement } from "./transcript_row.js";

export class RowList {
  /** `rowContext`: see `rowElement`. `footer` follows the rows. */
  constructor(rowContext, footer, followsEnd = true) {
    this.conversation = null;
    this.rowContext = { ...rowContext, size: () => this.conversation?.rows.length ?? 0 };
    this.list = new VirtualList({
      createRow: (index) => rowElement(this.conversation.rows[index], index, this.conversation.rows[index - 1], this.rowContext),
      rowKey: (index) => `${rowContext.generation()} ${this.conversation.rows[index].id} ${this.conversation.rows[index].version}`,
      estimatedHeight: 78,
      role: "feed",
      label: "Transcript",
      footer,
      followsEnd,
      className: "transcript",
    });
    this.toEndButton = el(
      "button",
      { class: "to-end", type: "button", hidden: true, onclick: () => this.list.scrollToEnd() },
      "New messages below",
      createIcon("step"),
    );
    this.list.onEndChange = (isAtEnd) => {
      if (isAtEnd) this.toEndButton.hidden = true;
    };
    this.element = el("div", { class: "rows-with-end" }, this.list.element, this.toEndButton);
    this.list.element.addEventListener("keydown", (event) => this.#onKey(event));
  }

  close() {
    this.list.close();
  }

  /** Show a conversation, which may have more rows than before. */
  update(conversation) {
    const hasGrown = this.conversation === conversation && conversation.rows.length > this.list.count;
    this.conversation = conversation;
    this.list.update(conversation.rows.length);
    if (hasGrown && this.list.followsEnd && !this.list.isAtEnd) this.toEndButton.hidden = false;
  }

  /** Scroll to the row of a fact, and focus it. */
  showPosition(position, focus = true) {
    const index = this.conversation.rows.findLastIndex((row) => row.position <= position);
    if (index < 0) return;
    this.list.scrollTo(index);
    if (focus) this.list.findRowElement(index)?.focus({ preventScroll: true });
  }

  /** The position and the reply number of the focused row; null if no row has the focus. */
  get focusedRow() {
    const row = /** @type {HTMLElement | null | undefined} */ (focusedElement()?.closest(".transcript article"));
    return row && this.list.element.contains(row) ? { position: Number(row.dataset.position), reply: Number(row.dataset.reply) } : null;
  }

  /** Move the focus by a number of rows. */
  moveFocus(by) {
    const current = document.activeElement?.closest?.("article");
    const index =
      current && this.list.element.contains(current)
        ? Number(current.getAttribute("aria-posinset")) - 1
        : by > 0
          ? this.#firstVisible() - 1
          : this.#firstVisible() + 1;
    this.#focusRow(index + by);
  }

  #firstVisible() {
    return this.list.heights.indexAt(this.list.element.scrollTop + 20);
  }

  #focusRow(index) {
    if (!this.conversation || index < 0 || index >= this.conversation.rows.length) return;
    this.list.scrollTo(index, false);
    this.list.findRowElement(index)?.focus({ preventScroll: true });
  }

  #onKey(event) {
    if (event.target.closest("input, textarea, select, details, .with-copy")) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && event.target.closest("article")) this.moveFocus(step);
    else if (event.key === "Home") this.#focusRow(0);
    else if (event.key === "End") this.list.scrollToEnd();
    else return;
    event.preventDefault();
  }
}
