// @ts-check
// The lines of the map: who was begun by whom, who talked with whom, who waits, and what is on its way.
import { STUCK } from "./holdups.js";
import { onScreen, radius } from "./nodes.js";

const BENDS = [0.06, -0.12, 0.24, -0.24, 0.34];
const FLIGHT = 1100; // milliseconds that a message is seen on its way
const GLOW = 9000; // and its road shines after it

/** @typedef {import("./map.js").MapView} MapView */
/** @typedef {import("./map.js").MapNode} MapNode */
/** @typedef {{x: number, y: number}} Spot */

/** @param {MapView} map */
export function drawRoads(map) {
  const { pen } = map;
  pen.lineWidth = 1.3 / Math.max(0.5, map.view.zoom);
  pen.strokeStyle = map.ink.soft;
  pen.globalAlpha = map.dark ? 0.75 : 0.5;
  pen.setLineDash([2, 4]);
  pen.beginPath();
  /** @type {Map<MapNode, number>} */
  const children = new Map(); // how many lines leave a parent so far
  map.kin = [];
  for (const node of map.nodes.values()) {
    const parent = node.row.spawnedBy && map.nodes.get(node.row.spawnedBy);
    if (!parent) continue;
    const place = children.get(parent) || 0;
    children.set(parent, place + 1);
    const c = bend(parent, node, BENDS[place % BENDS.length]); // several children are several lines
    map.kin.push({ key: node.row.key, parent: parent.row.key, by: BENDS[place % BENDS.length] });
    pen.moveTo(parent.x, parent.y);
    pen.quadraticCurveTo(c.x, c.y, node.x, node.y);
  }
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  for (const { from, to: target } of map.roads) {
    const a = map.nodes.get(from),
      b = map.nodes.get(target);
    if (!a || !b) continue;
    const c = bend(a, b);
    pen.moveTo(a.x, a.y);
    pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
  }
  pen.stroke();
  pen.globalAlpha = 1;
}

/** A dashed arrow from whoever waits to whom it waits for; red when that takes long.
 * @param {MapView} map @param {number} time @param {number} now */
export function drawWaits(map, time, now) {
  if (!map.live) return;
  const { pen } = map,
    px = onScreen(map);
  pen.lineWidth = 2 * px;
  pen.lineDashOffset = map.still ? 0 : (-now / 60) * px;
  for (const wait of map.waits) {
    const a = map.nodes.get(wait.key),
      b = map.nodes.get(wait.targetKey);
    if (!a || !b) continue;
    const c = bend(a, b);
    pen.strokeStyle = pen.fillStyle = time - wait.since > STUCK ? map.ink.red : map.ink.amber;
    pen.setLineDash([6 * px, 5 * px]);
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
    pen.stroke();
    pen.setLineDash([]);
    drawHead(map, c, b, px);
  }
}

/** @param {MapView} map @param {Spot} from @param {MapNode} node @param {number} px */
function drawHead(map, from, node, px) {
  const { pen } = map,
    turn = Math.atan2(node.y - from.y, node.x - from.x),
    far = radius(map, node, true) + 6 * px,
    tip = { x: node.x - far * Math.cos(turn), y: node.y - far * Math.sin(turn) };
  pen.beginPath();
  pen.moveTo(tip.x, tip.y);
  for (const side of [-0.45, 0.45])
    pen.lineTo(tip.x - 11 * px * Math.cos(turn + side), tip.y - 11 * px * Math.sin(turn + side));
  pen.fill();
}

/** @param {MapView} map @param {number} time @param {number} stretch */
export function drawFlights(map, time, stretch) {
  const { pen } = map;
  const px = onScreen(map);
  let some = false;
  for (let i = map.flights.length - 1; i >= 0; i--) {
    const run = map.flights[i],
      age = (time - run.createdAt) / stretch;
    if (age < 0) continue;
    if (age > GLOW) break;
    const b = map.nodes.get(run.key),
      a = run.source ? map.nodes.get(run.source) : b && { x: b.x - 30, y: b.y - 90 };
    if (!a || !b || a === b) continue;
    some = true;
    const c = bend(a, b),
      way = Math.min(1, age / FLIGHT),
      fade = age < FLIGHT ? 1 : 1 - (age - FLIGHT) / (GLOW - FLIGHT);
    pen.globalAlpha = fade * (run.source ? 0.8 : 0.35);
    pen.strokeStyle = map.ink.accent;
    pen.lineWidth = (1 + 1.4 * fade) * px;
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
    if (run.source || age < FLIGHT) pen.stroke();
    pen.fillStyle = map.ink.accent;
    for (let tail = 0; age < FLIGHT && !map.still && tail < 5; tail++) {
      const spot = along(a, c, b, ease(Math.max(0, way - tail * 0.035)));
      pen.globalAlpha = 1 - tail * 0.2;
      pen.beginPath();
      pen.arc(spot.x, spot.y, (4.4 - tail * 0.7) * px, 0, 7);
      pen.fill();
    }
    if (age > FLIGHT * 0.9 && age < FLIGHT * 2) {
      const ring = (age - FLIGHT * 0.9) / (FLIGHT * 1.1);
      pen.globalAlpha = 0.5 * (1 - ring);
      pen.beginPath();
      pen.arc(b.x, b.y, radius(map, b) + 3 + 16 * ring, 0, 7);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
  return some;
}

/** Every road bends to its right, so that there and back are two.
 * @param {Spot} a @param {Spot} b */
function bend(a, b, by = 0.16) {
  const dx = b.x - a.x,
    dy = b.y - a.y;
  return { x: (a.x + b.x) / 2 - dy * by, y: (a.y + b.y) / 2 + dx * by };
}

/** @param {Spot} a @param {Spot} c @param {Spot} b @param {number} t */
function along(a, c, b, t) {
  const u = 1 - t;
  return { x: u * u * a.x + 2 * u * t * c.x + t * t * b.x, y: u * u * a.y + 2 * u * t * c.y + t * t * b.y };
}

/** @param {number} t */
const ease = (t) => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);
