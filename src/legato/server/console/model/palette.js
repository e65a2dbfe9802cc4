/** Colours of agents. May know: names. Decides: which of the colours in style.css an agent has, the same on every page. */

export const COLOURS = 8;

export class Palette {
  /** The agents of a workflow first, in their order; then others as they appear. */
  constructor(agents = []) {
    this.numbers = new Map();
    for (const agent of agents) this.of(agent);
  }

  /** The class that gives an element an agent's colour. */
  of(agent) {
    if (!this.numbers.has(agent)) this.numbers.set(agent, this.numbers.size % COLOURS);
    return `agent-${this.numbers.get(agent)}`;
  }
}
