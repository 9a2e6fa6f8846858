// @ts-check
// Where everything stands on the map. Places depend on nothing that moves, so the map stays as people
// remember it.
import { agentOfRow } from "./dom.js";
import { isFold } from "./relevance.js";

/** @typedef {import("./map.js").MapNode} MapNode */
/** @typedef {import("./map.js").Circle} Circle */

const GAP = 52; // between the nodes of one agent
const WIDE_GAP = 88; // while there is room for their names
export const LABELS_MAX = 70; // nodes that all have their names

/** Each agent has its circle: its main session in the middle, the others around it in the order in which they were first
 * seen, so that nobody moves when another comes.
 * @param {Map<string, MapNode>} nodes */
export function circlesOf(nodes) {
  const gap = nodes.size <= LABELS_MAX ? WIDE_GAP : GAP;
  const circles = [...byAgent(nodes)].map(([id, inside]) => ({
    id,
    nodes: inside,
    x: 0,
    y: 0,
    r: gap * Math.sqrt(Math.max(0, inside.length - 1)) + 50,
  }));
  circles.sort((a, b) => (a.id < b.id ? -1 : 1));
  placeCircles(circles);
  for (const circle of circles) placeNodes(circle, gap);
  return circles;
}

/** @param {Map<string, MapNode>} nodes */
function byAgent(nodes) {
  /** @type {Map<string, MapNode[]>} */
  const agents = new Map();
  for (const node of nodes.values()) {
    const id = agentOfRow(node.row);
    const inside = agents.get(id);
    if (inside) inside.push(node);
    else agents.set(id, [node]);
  }
  return agents;
}

/** @param {Circle} circle @param {number} gap */
function placeNodes(circle, gap) {
  /** @param {MapNode} node */
  const placeOf = (node) => (node.row.key === `agent:${circle.id}:main` ? 0 : isFold(node) ? 2 : 1);
  circle.nodes.sort((a, b) => placeOf(a) - placeOf(b) || (a.rank ?? 0) - (b.rank ?? 0));
  circle.nodes.forEach((node, i) => {
    const r = gap * Math.sqrt(i),
      turn = i * 2.39996;
    node.tx = circle.x + r * Math.cos(turn);
    node.ty = circle.y + r * Math.sin(turn);
    if (node.fresh) [node.x, node.y, node.fresh] = [node.tx, node.ty, false];
  });
}

/** @param {Circle[]} circles */
export const boxOf = (circles) =>
  circles.reduce(
    (b, c) => ({
      l: Math.min(b.l, c.x - c.r),
      r: Math.max(b.r, c.x + c.r),
      t: Math.min(b.t, c.y - c.r),
      b: Math.max(b.b, c.y + c.r),
    }),
    { l: Infinity, r: -Infinity, t: Infinity, b: -Infinity },
  );

/** Few circles stand in a ring; many on a spiral, the largest in the middle.
 * @param {Circle[]} circles */
function placeCircles(circles) {
  if (circles.length <= 8) {
    const widest = Math.max(...circles.map((circle) => circle.r), 0);
    const ring = circles.length < 2 ? 0 : Math.max(110, (widest + 34) / Math.sin(Math.PI / circles.length));
    circles.forEach((circle, i) => {
      const turn = (i / circles.length) * 2 * Math.PI + Math.PI;
      Object.assign(circle, { x: ring * 1.15 * Math.cos(turn), y: ring * 0.85 * Math.sin(turn) });
    });
    return;
  }
  /** @type {Circle[]} */
  const placed = [];
  for (const circle of [...circles].sort((a, b) => b.r - a.r)) {
    for (let step = 0, turn = 0; ; step++) {
      turn += 0.35;
      const r = step * 6;
      const spot = { x: r * Math.cos(turn) * 1.25, y: r * Math.sin(turn) };
      if (placed.every((other) => Math.hypot(other.x - spot.x, other.y - spot.y) > other.r + circle.r + 22)) {
        placed.push(Object.assign(circle, spot));
        break;
      }
    }
  }
}
