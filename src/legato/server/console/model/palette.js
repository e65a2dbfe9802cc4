/** Colours of agents: each agent has the same one of the colours in style.css on every page. */

export const COLOUR_COUNT = 8;

export class Palette {
  /** Colours are assigned to the workflow's agents first, in their order, then to others as they appear. */
  constructor(agents = []) {
    this.numbers = new Map();
    for (const agent of agents) this.classOf(agent);
  }

  /** Return the CSS class with an agent's colour. */
  classOf(agent) {
    if (!this.numbers.has(agent)) this.numbers.set(agent, this.numbers.size % COLOUR_COUNT);
    return `agent-${this.numbers.get(agent)}`;
  }
}
