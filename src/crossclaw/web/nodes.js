// The nodes of the map: the circle of each agent, a dot for each session, and what goes on in it.
import { agentName, agentOf, hueOf, nameOf } from "./dom.js";
import { LABELS_MAX } from "./places.js";

function hue(map, node, light, chroma, alpha = 1) {
  return `oklch(${light} ${chroma} ${hueOf(node.row.agentId || agentOf(node.row.key))} / ${alpha})`;
}

export function radius(map, node) {
  const { costUsd, tokens: used } = node.row;
  const weight = costUsd ? costUsd * 60 : (used || 0) / 40_000;
  return (map.nodes.size <= LABELS_MAX ? 14 : 9) + Math.min(15, 6 * Math.sqrt(weight));
}

export function drawCircles(map) {
  const { pen } = map;
  for (const circle of map.circles || []) {
    if (circle.nodes.length < 2 && map.circles.length > 1) continue;
    pen.beginPath();
    pen.arc(circle.x, circle.y, circle.r, 0, 7);
    pen.fillStyle = `oklch(${map.dark ? 0.32 : 0.86} 0.05 ${hueOf(circle.id)} / ${map.dark ? 0.25 : 0.22})`;
    pen.fill();
    if (circle.nodes.length > 3) {
      pen.fillStyle = map.ink.soft;
      pen.font = `600 ${13 / Math.min(1, map.view.zoom)}px system-ui, sans-serif`;
      pen.textAlign = "center";
      pen.fillText(agentName(circle.id), circle.x, circle.y - circle.r - 8 / map.view.zoom);
    }
  }
}

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
    pen.fillStyle = hue(map, circle.nodes[0], map.dark ? 0.5 : 0.72, 0.085);
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
  const chosen = map.nodes.get(map.chosen);
  for (const [node, color] of [
    [chosen, ink.ink],
    [map.over, ink.soft],
  ]) {
    if (!node) continue;
    pen.beginPath();
    pen.arc(node.x, node.y, radius(map, node) + 4, 0, 7);
    pen.strokeStyle = color;
    pen.lineWidth = 1.8;
    pen.stroke();
  }
}

function drawLetters(map) {
  const { pen } = map;
  pen.font = "600 13px system-ui, sans-serif";
  pen.textAlign = "center";
  for (const node of map.nodes.values()) {
    pen.fillStyle = hue(map, node, map.dark ? 0.93 : 0.34, 0.06);
    pen.fillText(nameOf(node.row).replace(/^the /i, "").slice(0, 1).toUpperCase(), node.x, node.y + 4.6);
  }
}

function drawState(map, node, state, now) {
  const { pen, ink } = map,
    r = radius(map, node) + 4.5;
  pen.strokeStyle = { running: ink.accent, waiting: ink.amber, queued: ink.blue }[state] || ink.soft;
  pen.lineWidth = 2.4;
  pen.beginPath();
  const turn = map.still ? 0 : now / 500;
  if (state === "running") pen.arc(node.x, node.y, r, turn, turn + 4.4);
  else pen.arc(node.x, node.y, r, 0, 7);
  pen.stroke();
  const queued = map.live && node.row.lane?.queued;
  if (!queued) return;
  pen.fillStyle = ink.blue;
  pen.beginPath();
  pen.arc(node.x + r * 0.8, node.y - r * 0.8, 8, 0, 7);
  pen.fill();
  pen.fillStyle = ink.card;
  pen.font = "600 10px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.fillText(queued > 99 ? "99" : queued, node.x + r * 0.8, node.y - r * 0.8 + 3.5);
}
