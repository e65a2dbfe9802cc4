/** Heights of rows, with their sums: the offset of a row and the row at an offset in O(log n).
 *
 * It is a binary indexed tree. Estimated heights are replaced by measured ones as rows become visible.
 */

export class RowHeights {
  constructor(estimatedHeight) {
    this.estimatedHeight = estimatedHeight;
    this.count = 0;
    this.heights = new Float64Array(16);
    this.tree = new Float64Array(17);
  }

  get total() {
    return this.offsetOf(this.count);
  }

  /** Set the number of rows. New rows have the estimated height. */
  resize(count) {
    if (count > this.heights.length) {
      const larger = new Float64Array(Math.max(count, this.heights.length * 2));
      larger.set(this.heights);
      this.heights = larger;
    }
    if (count > this.count) this.heights.fill(this.estimatedHeight, this.count, count);
    this.count = count;
    this.#rebuild();
  }

  #rebuild() {
    const size = this.heights.length;
    this.tree = new Float64Array(size + 1);
    for (let index = 1; index <= this.count; index++) this.tree[index] = this.heights[index - 1];
    for (let index = 1; index <= size; index++) {
      const above = index + (index & -index);
      if (above <= size) this.tree[above] += this.tree[index];
    }
  }

  /** Reset the heights from a row on to the estimated one. */
  resetFrom(from) {
    if (from >= this.count) return;
    this.heights.fill(this.estimatedHeight, from, this.count);
    this.#rebuild();
  }

  /** Set a measured height. Return true if it differs from the known one. */
  setHeight(row, height) {
    const change = height - this.heights[row];
    if (Math.abs(change) < 0.25) return false;
    this.heights[row] = height;
    for (let index = row + 1; index < this.tree.length; index += index & -index) this.tree[index] += change;
    return true;
  }

  /** Return the offset at which a row begins. */
  offsetOf(row) {
    let sum = 0;
    for (let index = row; index > 0; index -= index & -index) sum += this.tree[index];
    return sum;
  }

  /** Return the row at an offset from the top. */
  indexAt(offset) {
    let row = 0;
    let rest = offset;
    let step = 1;
    while (step * 2 < this.tree.length) step *= 2;
    for (; step > 0; step = step >> 1) {
      if (row + step < this.tree.length && this.tree[row + step] <= rest) {
        row += step;
        rest -= this.tree[row];
      }
    }
    return Math.max(0, Math.min(row, this.count - 1));
  }
}
