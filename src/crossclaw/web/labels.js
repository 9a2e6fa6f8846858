// The names on the map: as many as there is room for, those that matter first.
import { cost, nameOf } from "./dom.js";
import { radius } from "./nodes.js";
import { LABELS_MAX } from "./places.js";

const LABEL_PX_MIN = 10.5; // on the screen: smaller is not read
const LABEL_CHARS = 28; // of a name on the map; the rest is in the list

export function drawLabels(map, states) {
  const { pen, ink, view } = map;
  const all = map.nodes.size <= LABELS_MAX || view.zoom > 1.3;
  const size = Math.max(12 / Math.min(1.15, Math.max(0.6, view.zoom)), LABEL_PX_MIN / view.zoom);
  pen.textAlign = "center";
  map.labels = [];
  for (const { node, main, busy } of named(map, states, all)) {
    pen.font = `${main ? 600 : 500} ${size}px system-ui, sans-serif`;
    const paid = node.row.costUsd && all ? cost(node.row.costUsd) : "";
    const label = placeLabel(map, node, size, paid ? 2 : 1);
    if (!label) continue;
    pen.lineWidth = size / 4;
    pen.strokeStyle = ink.paper;
    pen.strokeText(label.name, label.x, label.y);
    pen.fillStyle = main || busy ? ink.ink : ink.soft;
    pen.fillText(label.name, label.x, label.y);
    if (!paid) continue;
    pen.font = `${size - 1}px system-ui, sans-serif`;
    pen.fillStyle = ink.soft;
    pen.fillText(paid, label.x, label.y + size + 2);
  }
}

/** Whose name is drawn: first those that matter most, for they get the room. */
function named(map, states, all) {
  const wanted = [];
  for (const [key, node] of map.nodes) {
    const main = key.endsWith(":main") && map.circles.length < 30,
      busy = states.has(key),
      picked = node === map.over || key === map.chosen;
    if (all || main || busy || picked) wanted.push({ node, main, busy, weight: 4 * picked + 2 * main + busy });
  }
  return wanted.sort((a, b) => b.weight - a.weight);
}

/** Below its node, else above it, whole within the canvas and on no other name; else nowhere: the list
 * beside the map and a touch of the node tell it. */
function placeLabel(map, node, size, lines) {
  const { pen, view, canvas, labels } = map;
  const whole = nameOf(node.row),
    name = whole.length > LABEL_CHARS ? `${whole.slice(0, LABEL_CHARS - 1)}…` : whole;
  const half = pen.measureText(name).width / 2,
    left = (4 - view.x) / view.zoom + half,
    right = (canvas.clientWidth - 4 - view.x) / view.zoom - half;
  if (node.x < left - half || node.x > right + half) return null;
  const x = Math.max(left, Math.min(right, node.x)),
    far = radius(map, node) + 5;
  for (const y of [node.y + far + size, node.y - far - (lines - 1) * (size + 2)]) {
    const box = { l: x - half, r: x + half, t: y - size, b: y + (lines - 1) * size + 3 };
    if (labels.some((each) => each.l < box.r && box.l < each.r && each.t < box.b && box.t < each.b)) continue;
    const label = { key: node.row.key, name, x, y, ...box };
    labels.push(label);
    return label;
  }
  return null;
}
