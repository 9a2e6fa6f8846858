// @ts-check
// The stage of the map: it is drawn when something moves, as it was at a time.
import { h, isBad, stateOf } from "./dom.js";
import { drawLabels } from "./labels.js";
import { drawFlights, drawRoads, drawWaits } from "./lines.js";
import { drawCircles, drawNodes } from "./nodes.js";
import { boxOf, circlesOf } from "./places.js";

const INKS = ["ink", "soft", "faint", "line", "accent", "amber", "red", "blue", "card", "paper", "tint"];

/** @typedef {import("./map.js").MapView} MapView */

/** @param {MapView} map */
export function layout(map) {
  map.circles = circlesOf(map.nodes);
  fit(map);
}

/** @param {MapView} map */
export function fit(map) {
  const width = map.canvas.clientWidth,
    height = map.canvas.clientHeight;
  if (!width || !map.circles?.length || map.view.moved) return;
  const box = boxOf(map.circles);
  const zoom = Math.min(1.7, (width - 60) / (box.r - box.l + 30), (height - 90) / (box.b - box.t + 30));
  Object.assign(map.view, {
    zoom,
    x: width / 2 - (zoom * (box.l + box.r)) / 2,
    y: height / 2 + 8 - (zoom * (box.t + box.b)) / 2,
  });
}

/** @param {MapView} map */
export function wake(map) {
  map.frame ??= requestAnimationFrame((now) => paint(map, now));
}

/** @param {MapView} map */
export function dress(map) {
  const probe = map.appendChild(h("i"));
  map.ink = {};
  for (const name of INKS) {
    probe.style.color = `var(--${name})`;
    map.ink[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  const [r, g, b] = (map.ink.paper.match(/[\d.]+/g) || []).map(Number);
  map.dark = r + g + b < (r > 1 || g > 1 ? 380 : 1.5);
  wake(map);
}

/** @param {MapView} map @param {number} now */
function paint(map, now) {
  map.frame = null;
  if (!map.isConnected) return;
  const passed = Math.min(100, now - (map.painted || now));
  map.painted = now;
  if (map.playing) {
    map.at += passed * map.speed;
    if (map.at >= Date.now() - (map.skew || 0)) map.goLive();
  }
  map.showClock();
  const time = map.time,
    stretch = map.live ? 1 : map.playing ? map.speed : 4;
  const moving = settle(map);
  const { pen, canvas, view } = map,
    ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth,
    height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio))
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.translate(view.x, view.y);
  pen.scale(view.zoom, view.zoom);
  const states = statesAt(map, time);
  drawCircles(map);
  drawRoads(map);
  drawWaits(map, time, now);
  const flying = drawFlights(map, time, stretch);
  drawNodes(map, states, now);
  drawLabels(map, states);
  map.drawn++;
  const busy = [...states.values()].some((state) => state !== "idle" && state !== "bad");
  if (moving || flying || map.playing || (busy && !map.still)) wake(map);
}

/** @param {MapView} map */
function settle(map) {
  let moving = false;
  for (const node of map.nodes.values()) {
    const dx = node.tx - node.x,
      dy = node.ty - node.y;
    if (Math.abs(dx) + Math.abs(dy) < 0.3) continue;
    node.x += dx * 0.14;
    node.y += dy * 0.14;
    moving = true;
  }
  return moving;
}

/** What each session did at that time; now it is what the gateway says.
 * @param {MapView} map @param {number} time */
function statesAt(map, time) {
  /** @type {Map<string, string>} */
  const states = new Map();
  if (map.live) {
    for (const [key, node] of map.nodes) {
      const name = stateOf(node.row.standing).name;
      if (node.row.lane || name === "bad") states.set(key, name);
    }
    return states;
  }
  for (const run of map.runs) {
    if (run.createdAt > time) break;
    if (run.endedAt && run.endedAt <= time) {
      if (isBad(run.standing)) states.set(run.key, "bad");
      else if (states.get(run.key) === "bad") states.delete(run.key);
    } else
      states.set(run.key, run.startedAt && run.startedAt <= time ? "running" : states.get(run.key) || "queued");
  }
  return states;
}
