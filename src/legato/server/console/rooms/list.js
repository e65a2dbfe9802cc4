/** Rows that scroll. May know: a story. Decides: which of its rows has the focus, and that those who read the end stay there. */

import { el, focused } from "../parts/dom.js";
import { icon } from "../parts/icons.js";
import { VirtualList } from "../parts/virtual.js";
import { rowElement } from "./rows.js";

export class RowList {
  /** `at`: see `rowElement`. `footer`: what follows the rows. */
  constructor(at, footer, followEnd = true) {
    this.story = null;
    this.at = { ...at, size: () => this.story?.rows.length ?? 0 };
    this.list = new VirtualList({
      row: (index) => rowElement(this.story.rows[index], index, this.story.rows[index - 1], this.at),
      name: (index) => `${at.generation()} ${this.story.rows[index].id} ${this.story.rows[index].version}`,
      guess: 78,
      role: "feed",
      label: "Transcript",
      footer,
      followEnd,
      className: "transcript",
    });
    this.toEnd = el(
      "button",
      { class: "to-end", type: "button", hidden: true, onclick: () => this.list.showEnd() },
      "New below",
      icon("step"),
    );
    this.list.onEnd = (pinned) => {
      if (pinned) this.toEnd.hidden = true;
    };
    this.element = el("div", { class: "rows-with-end" }, this.list.element, this.toEnd);
    this.list.element.addEventListener("keydown", (event) => this.#key(event));
  }

  close() {
    this.list.close();
  }

  /** Show a story, which may have grown. */
  update(story) {
    const other = this.story !== null && this.story !== story;
    const grew = !other && this.story !== null && story.rows.length > this.list.count;
    this.story = story;
    this.list.update(story.rows.length);
    if (grew && this.list.followEnd && !this.list.pinned) this.toEnd.hidden = false;
  }

  /** Make the row of a fact visible, and give it the focus. */
  showPosition(position, focus = true) {
    const index = this.story.rows.findLastIndex((row) => row.position <= position);
    if (index < 0) return;
    this.list.show(index);
    if (focus) this.list.elementOf(index)?.focus({ preventScroll: true });
  }

  /** The row that has the focus: its position and its reply. */
  get focused() {
    const row = /** @type {HTMLElement | null | undefined} */ (focused()?.closest(".transcript article"));
    return row && this.list.element.contains(row) ? { position: Number(row.dataset.position), reply: Number(row.dataset.reply) } : null;
  }

  /** Focus the next row, or the one before. Whether there was one to go from. */
  move(by) {
    const now = document.activeElement?.closest?.("article");
    const index =
      now && this.list.element.contains(now)
        ? Number(now.getAttribute("aria-posinset")) - 1
        : by > 0
          ? this.#firstVisible() - 1
          : this.#firstVisible() + 1;
    this.#focus(index + by);
  }

  #firstVisible() {
    return this.list.heights.at(this.list.element.scrollTop + 20);
  }

  #focus(index) {
    if (!this.story || index < 0 || index >= this.story.rows.length) return;
    this.list.show(index, false);
    this.list.elementOf(index)?.focus({ preventScroll: true });
  }

  #key(event) {
    if (event.target.closest("input, textarea, select, details, .with-copy")) return;
    const to = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (to && event.target.closest("article")) this.move(to);
    else if (event.key === "Home") this.#focus(0);
    else if (event.key === "End") this.list.showEnd();
    else return;
    event.preventDefault();
  }
}
