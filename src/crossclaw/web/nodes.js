// @ts-check
// The nodes of the map: the circle of each agent, a dot for each session, and what goes on in it.
import { agentOfRow, nameOf, shadeOf } from "./dom.js";
import { STUCK } from "./holdups.js";
import { LABELS_MAX } from "./places.js";
import { isFold } from "./relevance.js";

const BUSY_PX = 6; // at least, of a node where something goes on

/** @typedef {import("./map.js").MapView} MapView */
/** @typedef {import("./map.js").MapNode} MapNode */

/** @param {MapNode} node @param {number} light @param {number} chroma */
function hue(node, light, chroma) {
  const { hue: angle, lift } = shadeOf(agentOfRow(node.row));
  return `oklch(${light + lift} ${chroma} ${angle} / 1)`;
}

/** As many units of the map as a pixel has when the map is small: what must be seen does not shrink with it.
 * @param {MapView} map */
export const onScreen = (map) => 1 / Math.min(1, map.view.zoom);

/** @param {MapView} map @param {MapNode} node */
export function radius(map, node, busy = false) {
  if (isFold(node)) return 12;
  const { costUsd, tokens: used } = node.row;
  const weight = costUsd ? costUsd * 60 : (used || 0) / 40_000;
  const r = (map.nodes.size <= LABELS_MAX ? 14 : 9) + Math.min(15, 6 * Math.sqrt(weight));
  return busy ? Math.max(r, BUSY_PX * onScreen(map)) : r;
}

/** @param {MapView} map */
export function drawCircles(map) {
  const { pen } = map,
    circles = map.circles || [];
  for (const circle of circles) {
    if (circle.nodes.length < 2 && circles.length > 1) continue;
    pen.beginPath();
    pen.arc(circle.x, circle.y, circle.r, 0, 7);
    pen.fillStyle = `oklch(${map.dark ? 0.32 : 0.86} 0.05 ${shadeOf(circle.id).hue} / ${map.dark ? 0.25 : 0.22})`;
    pen.fill();
  }
}

/** @param {MapView} map @param {Map<string, string>} states @param {number} now */
export function drawNodes(map, states, now) {
  const { pen, ink } = map;
  for (const circle of map.circles || []) {
    if (!circle.nodes.length) continue;
    pen.beginPath();
    for (const node of circle.nodes) {
      const r = radius(map, node);
      pen.moveTo(node.x + r, node.y);
      pen.arc(node.x, node.y, r, 0, 7);
    }
    pen.fillStyle = hue(circle.nodes[0], map.dark ? 0.5 : 0.72, 0.11);
    pen.fill();
    pen.strokeStyle = ink.paper;
    pen.lineWidth = 1.5;
    pen.stroke();
  }
  if (map.nodes.size <= LABELS_MAX) drawLetters(map);
  for (const [key, state] of states) {
    const node = map.nodes.get(key);
    if (node) drawState(map, node, state, now);
  }
  if (map.live) drawHoldups(map, map.time);
  drawRing(map, map.nodes.get(map.chosen ?? ""), ink.ink);
  drawRing(map, map.over, ink.soft);
}

/** @param {MapView} map @param {MapNode | null | undefined} node @param {string} color */
function drawRing(map, node, color) {
  const { pen } = map;
  if (!node) return;
  pen.beginPath();
  pen.arc(node.x, node.y, radius(map, node) + 4, 0, 7);
  pen.strokeStyle = color;
  pen.lineWidth = 1.8;
  pen.stroke();
}

/** @param {MapView} map */
function drawLetters(map) {
  const { pen } = map;
  pen.font = "600 13px system-ui, sans-serif";
  pen.textAlign = "center";
  for (const node of map.nodes.values()) {
    pen.fillStyle = hue(node, map.dark ? 0.93 : 0.34, 0.06);
    if (isFold(node)) continue;
    pen.fillText(nameOf(node.row).replace(/^the /i, "").slice(0, 1).toUpperCase(), node.x, node.y + 4.6);
  }
}

/** @type {Record<string, string>} */
const INK_OF = { running: "accent", waiting: "amber", queued: "blue", bad: "red", unsure: "amber" };

/** @param {MapView} map @param {MapNode} node @param {string} state @param {number} now */
function drawState(map, node, state, now) {
  const { pen, ink } = map,
    px = onScreen(map),
    color = ink[INK_OF[state] || "soft"],
    r = radius(map, node, true) + 4.5 * px;
  if (map.nodes.size > LABELS_MAX) {
    pen.fillStyle = color; // among hundreds a ring is not enough
    pen.beginPath();
    pen.arc(node.x, node.y, r - 3 * px, 0, 7);
    pen.fill();
  }
  pen.strokeStyle = color;
  pen.lineWidth = 2.4 * px;
  pen.beginPath();
  const turn = map.still ? 0 : now / 500;
  if (state === "running") pen.arc(node.x, node.y, r, turn, turn + 4.4);
  else pen.arc(node.x, node.y, r, 0, 7);
  pen.stroke();
  if (map.live && node.row.lane?.queued) drawQueue(map, node, node.row.lane.queued, r * 0.8, px);
}

/** @param {MapView} map @param {MapNode} node @param {number} queued @param {number} off @param {number} px */
function drawQueue(map, node, queued, off, px) {
  const { pen, ink } = map;
  pen.fillStyle = ink.blue;
  pen.beginPath();
  pen.arc(node.x + off, node.y - off, 8 * px, 0, 7);
  pen.fill();
  pen.fillStyle = ink.card;
  pen.font = `600 ${10 * px}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.fillText(queued > 99 ? "99" : String(queued), node.x + off, node.y - off + 3.5 * px);
}

/** Whoever holds others up for long has a red ring around it.
 * @param {MapView} map @param {number} time */
function drawHoldups(map, time) {
  const { pen } = map,
    px = onScreen(map);
  for (const { key, since, circle } of map.holdups.values()) {
    const node = map.nodes.get(key);
    if (!node || (!circle && time - since <= STUCK)) continue;
    pen.strokeStyle = map.ink.red;
    pen.lineWidth = 2.4 * px;
    pen.beginPath();
    pen.arc(node.x, node.y, radius(map, node, true) + 9 * px, 0, 7);
    pen.stroke();
  }
}
