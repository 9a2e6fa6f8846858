// @ts-check
// Where everything stands on the map. Places depend on nothing that moves, so the map stays as people
// remember it.
import { agentOfRow } from "./dom.js";
import { isFold as folded } from "./relevance.js";

const GAP = 52; // between the nodes of one agent
const WIDE_GAP = 88; // while there is room for their names
export const LABELS_MAX = 70; // nodes that all have their names

/** Each agent has its circle: its main session in the middle, the others around it in the order in which they were first
 * seen, so that nobody moves when another comes. */
export function circlesOf(nodes) {
  const gap = nodes.size <= LABELS_MAX ? WIDE_GAP : GAP;
  const circles = [...byAgent(nodes)].map(([id, inside]) => ({
    id,
    nodes: inside,
    r: gap * Math.sqrt(Math.max(0, inside.length - 1)) + 50,
  }));
  circles.sort((a, b) => (a.id < b.id ? -1 : 1));
  placeCircles(circles);
  for (const circle of circles) placeNodes(circle, gap);
  return circles;
}

function byAgent(nodes) {
  const agents = new Map();
  for (const node of nodes.values()) {
    const id = agentOfRow(node.row);
    if (!agents.has(id)) agents.set(id, []);
    agents.get(id).push(node);
  }
  return agents;
}

function placeNodes(circle, gap) {
  const isFold = (node) => Number(folded(node));
  const isMain = (node) => (node.row.key === `agent:${circle.id}:main` ? 0 : 1);
  circle.nodes.sort(
    (a, b) => isMain(a) - isMain(b) || isFold(a) - isFold(b) || a.rank - b.rank,
  );
  circle.nodes.forEach((node, i) => {
    const r = gap * Math.sqrt(i),
      turn = i * 2.39996;
    node.tx = circle.x + r * Math.cos(turn);
    node.ty = circle.y + r * Math.sin(turn);
    if (node.fresh) [node.x, node.y, node.fresh] = [node.tx, node.ty, false];
  });
}

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

/** Few circles stand in a ring; many on a spiral, the largest in the middle. */
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
