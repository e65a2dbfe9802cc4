/** How high rows are, summed. May know: numbers. Decides: nothing; it answers where a row begins and which row is somewhere, in log(n).
 *
 * A binary indexed tree: heights that are guessed are replaced by measured ones as rows are seen.
 */

export class Heights {
  constructor(guess) {
    this.guess = guess;
    this.count = 0;
    this.heights = new Float64Array(16);
    this.tree = new Float64Array(17);
  }

  get total() {
    return this.before(this.count);
  }

  /** Have so many rows: new ones are guessed, those past the end are forgotten. */
  resize(count) {
    if (count > this.heights.length) {
      const larger = new Float64Array(Math.max(count, this.heights.length * 2));
      larger.set(this.heights);
      this.heights = larger;
    }
    if (count > this.count) this.heights.fill(this.guess, this.count, count);
    this.count = count;
    this.#build();
  }

  #build() {
    const size = this.heights.length;
    this.tree = new Float64Array(size + 1);
    for (let index = 1; index <= this.count; index++) this.tree[index] = this.heights[index - 1];
    for (let index = 1; index <= size; index++) {
      const above = index + (index & -index);
      if (above <= size) this.tree[above] += this.tree[index];
    }
  }

  /** Forget what was measured from a row on. */
  forget(from) {
    if (from >= this.count) return;
    this.heights.fill(this.guess, from, this.count);
    this.#build();
  }

  /** Whether this was news. */
  measured(row, height) {
    const change = height - this.heights[row];
    if (Math.abs(change) < 0.25) return false;
    this.heights[row] = height;
    for (let index = row + 1; index < this.tree.length; index += index & -index) this.tree[index] += change;
    return true;
  }

  /** Where a row begins. */
  before(row) {
    let sum = 0;
    for (let index = row; index > 0; index -= index & -index) sum += this.tree[index];
    return sum;
  }

  /** The row at a distance from the top. */
  at(offset) {
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
