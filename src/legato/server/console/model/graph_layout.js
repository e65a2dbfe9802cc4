/** Layout of the handoff graph.
 *
 * Agents are in one column, in the order in which control can reach them. A handoff downwards is an arc on the right, one upwards an arc on
 * the left. Longer arcs lie outside of shorter ones, so that arcs with a common end do not cross.
 */

export const NODE = { width: 148, height: 38, pitch: 62 };
const MIN_BULGE = 26;
const BULGE_STEP = 15;
const MARGIN = 10;

/** Return the agents in the order in which control can reach them from the start; unreachable ones come last. */
export function orderByReachability(agents, edges, start) {
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

/** Compute the layout: `{ width, height, nodes: [{ name, x, y }], arcs: [{ source, target, path, head, label: { x, y } }] }`. */
export function layoutGraph(agents, edges, start, maxBulge = 96) {
  const order = orderByReachability(agents, edges, start);
  const row = new Map(order.map((name, index) => [name, index]));
  const at = (name) => row.get(name) ?? 0;
  const drawn = edges.filter((edge) => row.has(edge.source) && row.has(edge.target) && edge.source !== edge.target);
  const spans = drawn.map((edge) => Math.abs(at(edge.target) - at(edge.source)));
  const bulge = (span) => Math.min(maxBulge, MIN_BULGE + BULGE_STEP * (span - 1));
  const side = Math.max(30, ...spans.map(bulge)) + MARGIN;
  const left = side;
  const right = side + NODE.width;
  const top = (name) => MARGIN + at(name) * NODE.pitch;
  const ports = assignPorts(drawn, row);
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

/** Assign each arc the points at its agents' sides where it begins and ends, so that inner arcs lie between outer ones. */
function assignPorts(edges, row) {
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
    // From top to bottom: arcs to agents above, the nearest first; then arcs to agents below, the farthest first.
    list.sort((one, other) => (one.distance < 0 === other.distance < 0 ? other.distance - one.distance : one.distance - other.distance));
    list.forEach((end, index) => ports.set(end.port, (index + 1) / (list.length + 1)));
  }
  return ports;
}

const round = (number) => Math.round(number * 10) / 10;
