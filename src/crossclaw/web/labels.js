// @ts-check
// The names on the map: as many as there is room for, those that matter first.
import { agentName, cost, nameOf } from "./dom.js";
import { radius } from "./nodes.js";
import { isFold } from "./relevance.js";
import { LABELS_MAX } from "./places.js";

const LABEL_PX = 12; // on the screen
const LABEL_CHARS = 28; // of a name on the map; the rest is in the list
const TITLED = 4; // sessions of an agent whose circle has its name
/** @typedef {import("./map.js").MapView} MapView */
/** @typedef {import("./map.js").MapNode} MapNode */
/** @typedef {import("./map.js").Circle} Circle */
/** @typedef {{l: number, r: number, t: number, b: number}} Box */
/** @typedef {Box & {key: string, name: string, x: number, y: number}} Label */
/** @typedef {{node: MapNode, main: boolean, busy: boolean, waiting: number, paid: boolean, weight: number}} Wanted */

/** @type {Box[]} */
let taken = [];
const DEAREST = 3; // sessions that are named for what they cost, where not all are

/** @param {MapView} map @param {Map<string, string>} states */
export function drawLabels(map, states) {
  const all = map.nodes.size <= LABELS_MAX || map.view.zoom > 1.3;
  const size = LABEL_PX / map.view.zoom; // the same on the screen, however near
  map.pen.textAlign = "center";
  map.labels = [];
  taken = [legendBox(map)];
  if (!all) for (const circle of map.circles || []) if (titled(circle)) drawTitle(map, circle, size * 1.1);
  for (const each of named(map, states, all)) drawName(map, each, size);
}

/** What no name is written over: the legend.
 * @param {MapView} map */
function legendBox({ legend, view }) {
  const box = { l: legend.offsetLeft, t: legend.offsetTop, r: legend.offsetLeft + legend.offsetWidth, b: legend.offsetTop + legend.offsetHeight };
  return { l: (box.l - view.x) / view.zoom, r: (box.r - view.x) / view.zoom, t: (box.t - view.y) / view.zoom, b: (box.b - view.y) / view.zoom };
}

/** @param {Circle} circle */
const titled = (circle) => circle.nodes.length >= TITLED;

/** Whose circle it is, and what all in it cost together.
 * @param {MapView} map @param {Circle} circle @param {number} size */
function drawTitle(map, circle, size) {
  const spent = circle.nodes.reduce((sum, { row }) => sum + (row.costUsd || 0), 0);
  const name = brief(agentName(circle.id));
  map.pen.font = `600 ${size}px system-ui, sans-serif`;
  const text = spent ? `${name} · ${cost(spent)}` : name;
  const heights = [circle.y - circle.r - size / 2, circle.y + circle.r + size * 1.2];
  const label = placeText(map, `circle ${circle.id}`, text, circle.x, heights, size, 1);
  if (label) write(map, text, label.x, label.y, size, map.ink.soft);
}

/** @param {MapView} map @param {Wanted} wanted @param {number} size */
function drawName(map, { node, main, busy, waiting, paid }, size) {
  const { pen, ink } = map;
  pen.font = `${main ? 600 : 500} ${size}px system-ui, sans-serif`;
  const below = waiting ? `${waiting} wait` : paid && node.row.costUsd ? cost(node.row.costUsd) : "";
  const name = brief(nameOf(node.row)),
    lines = below ? 2 : 1,
    far = radius(map, node, busy) + 5;
  const above = node.y - far - size / 3 - (lines - 1) * size * 1.4; // clear of its ring
  const heights = [node.y + far + size, above];
  const label = placeText(map, node.row.key, name, node.x, heights, size, lines);
  if (!label) return;
  write(map, name, label.x, label.y, size, main || busy ? ink.ink : ink.soft);
  pen.font = `${waiting ? 600 : 400} ${size * 0.92}px system-ui, sans-serif`;
  if (below) write(map, below, label.x, label.y + size * 1.15, size, waiting ? ink.amber : ink.soft);
}

/** @param {MapView} map @param {string} text @param {number} x @param {number} y @param {number} size @param {string} color */
function write(map, text, x, y, size, color) {
  const { pen } = map;
  pen.lineWidth = size / 4;
  pen.strokeStyle = map.ink.paper;
  pen.strokeText(text, x, y);
  pen.fillStyle = color;
  pen.fillText(text, x, y);
}

/** @param {string} name */
const brief = (name) => (name.length > LABEL_CHARS ? `${name.slice(0, LABEL_CHARS - 1)}…` : name);

/** Whose name is drawn: first those that matter most, for they get the room.
 * @param {MapView} map @param {Map<string, string>} states @param {boolean} all */
function named(map, states, all) {
  /** @type {Wanted[]} */
  const wanted = [];
  const dear = all ? new Set() : dearest(map),
    circles = map.circles || [];
  for (const circle of circles)
    for (const node of circle.nodes) {
      const { key } = node.row,
        main = key.endsWith(":main") && circles.length < 30 && (all || !titled(circle)),
        busy = states.has(key),
        waiting = map.live ? map.holdups.get(key)?.waiting.size || 0 : 0,
        picked = node === map.over || key === map.chosen || isFold(node);
      if (all || main || busy || picked || waiting || dear.has(node))
        wanted.push({
          node,
          main,
          busy,
          waiting,
          paid: all || picked || dear.has(node),
          weight: (picked ? 8 : 0) + (waiting ? 4 : 0) + (main ? 2 : 0) + (busy ? 1 : 0),
        });
    }
  return wanted.sort((a, b) => b.weight - a.weight);
}

/** @param {MapView} map */
function dearest(map) {
  const paid = [...map.nodes.values()].filter(({ row }) => row.costUsd);
  return new Set(paid.sort((a, b) => (b.row.costUsd || 0) - (a.row.costUsd || 0)).slice(0, DEAREST));
}

/** At the first of these heights where it is whole within the canvas and on no other name; else nowhere:
 * the list beside the map and a touch of the node tell it.
 * @param {MapView} map @param {string} key @param {string} name @param {number} middle @param {number[]} heights
 * @param {number} size @param {number} lines @returns {Label | null} */
function placeText(map, key, name, middle, heights, size, lines) {
  const { pen, view, canvas, labels } = map;
  const half = pen.measureText(name).width / 2,
    left = (4 - view.x) / view.zoom + half,
    right = (canvas.clientWidth - 4 - view.x) / view.zoom - half;
  if (middle < left - half || middle > right + half) return null;
  const x = Math.max(left, Math.min(right, middle));
  const free = heights
    .map((y) => ({ key, name, x, y, l: x - half, r: x + half, t: y - size, b: y + (lines - 1) * size + 3 }))
    .filter((label) => ![...taken, ...labels].some((each) => touches(each, label)));
  const label = free.find((each) => !coversNode(map, each)) || free[0];
  if (label) labels.push(label);
  return label || null;
}

/** @param {Box} a @param {Box} b */
const touches = (a, b) => a.l < b.r && b.l < a.r && a.t < b.b && b.t < a.b;

/** Whether a name would be written over the dot of another session.
 * @param {MapView} map @param {Label} label */
function coversNode(map, label) {
  for (const node of map.nodes.values()) {
    const r = radius(map, node, true);
    if (node.row.key !== label.key && touches({ l: node.x - r, r: node.x + r, t: node.y - r, b: node.y + r }, label)) return true;
  }
  return false;
}
