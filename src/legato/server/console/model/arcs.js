/** The handoff graph as slurs. May know: names and numbers. Decides: where each agent and each allowed handoff is drawn.
 *
 * Agents stand below one another, in the order in which control can reach them. A handoff downwards is a slur on the right, one upwards is
 * a slur on the left; longer ones lie outside of shorter ones, so that no two that share an end cross.
 */

export const NODE = { width: 148, height: 38, pitch: 62 };
const FIRST_BULGE = 26;
const NEXT_BULGE = 15;
const MARGIN = 10;

/** The names in the order in which control can reach them from the start; those that it cannot reach come last. */
export function reachedOrder(agents, edges, start) {
  const order = [];
  const waiting = agents.includes(start) ? [start] : agents.slice(0, 1);
  while (waiting.length) {
    const name = waiting.shift();
    if (order.includes(name)) continue;
    order.push(name);
    for (const edge of edges) if (edge.source === name && agents.includes(edge.target)) waiting.push(edge.target);
  }
  return [...order, ...agents.filter((name) => !order.includes(name))];
}

/** Where everything is: `{ width, height, nodes: [{ name, x, y }], arcs: [{ source, target, path, head, label: { x, y } }] }`. */
export function layout(agents, edges, start, longest = 96) {
  const order = reachedOrder(agents, edges, start);
  const row = new Map(order.map((name, index) => [name, index]));
  const at = (name) => row.get(name) ?? 0;
  const drawn = edges.filter((edge) => row.has(edge.source) && row.has(edge.target) && edge.source !== edge.target);
  const spans = drawn.map((edge) => Math.abs(at(edge.target) - at(edge.source)));
  const bulge = (span) => Math.min(longest, FIRST_BULGE + NEXT_BULGE * (span - 1));
  const side = Math.max(30, ...spans.map(bulge)) + MARGIN;
  const left = side;
  const right = side + NODE.width;
  const top = (name) => MARGIN + at(name) * NODE.pitch;
  const ports = portsOf(drawn, row);
  const arcs = drawn.map((edge, index) => {
    const down = at(edge.target) > at(edge.source);
    const x = down ? right : left;
    const out = (down ? 1 : -1) * bulge(spans[index]);
    const from = top(edge.source) + NODE.height * ports.get(`${index} out`);
    const to = top(edge.target) + NODE.height * ports.get(`${index} in`);
    const tip = x + (down ? 1 : -1) * 3;
    return {
      source: edge.source,
      target: edge.target,
      asks: Boolean(edge.asks),
      down,
      path: `M${x} ${round(from)}C${x + out} ${round(from)} ${x + out} ${round(to)} ${tip + (down ? 4 : -4)} ${round(to)}`,
      head: `M${tip} ${round(to)}l${down ? 6 : -6} -3.5v7z`,
      label: { x: x + out * 0.75, y: round((from + to) / 2) },
    };
  });
  const nodes = order.map((name) => ({ name, x: left, y: top(name) }));
  return { width: 2 * side + NODE.width, height: 2 * MARGIN + (order.length - 1) * NODE.pitch + NODE.height, nodes, arcs };
}

/** Where along an agent's edge each slur begins and ends: what lies inside begins nearer to where it ends. */
function portsOf(edges, row) {
  const ends = new Map();
  edges.forEach((edge, index) => {
    const [from, to] = [row.get(edge.source), row.get(edge.target)];
    const side = to > from ? "right" : "left";
    for (const [name, other, end] of [
      [edge.source, to, "out"],
      [edge.target, from, "in"],
    ]) {
      const key = `${row.get(name)} ${side}`;
      if (!ends.has(key)) ends.set(key, []);
      ends.get(key).push({ port: `${index} ${end}`, distance: other - row.get(name) });
    }
  });
  const ports = new Map();
  for (const list of ends.values()) {
    // From top to bottom: those to agents above, the nearest first; then those to agents below, the farthest first.
    list.sort((one, other) => (one.distance < 0 === other.distance < 0 ? other.distance - one.distance : one.distance - other.distance));
    list.forEach((end, index) => ports.set(end.port, (index + 1) / (list.length + 1)));
  }
  return ports;
}

const round = (number) => Math.round(number * 10) / 10;
