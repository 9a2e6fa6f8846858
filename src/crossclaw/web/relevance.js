// @ts-check
// What of all sessions is worth a place on the map: what was active in the hour, every agent, whatever is chosen. The
// idle ones of an agent are one dot that says how many they are and unfolds.
import { agentOfRow } from "./dom.js";

const FOLD_MIN = 4; // fewer idle ones are shown as they are
const UNFOLDED_MAX = 300; // of one agent

/** @typedef {import("./map.js").MapView} MapView */

const FOLD = "idle:";
export const isFold = (node) => Boolean(node?.row.key.startsWith(FOLD));

/** The nodes to be shown, by key; those that were shown before keep their place.
 * @param {MapView} map */
export function relevant(map) {
  const active = activeKeys(map);
  const shown = new Map();
  const idle = new Map();
  for (const [key, node] of map.every) {
    const agent = agentOfRow(node.row);
    if (active.has(key) || node.row.lane || node.row.updatedAt >= (map.since || 0) || key === `agent:${agent}:main`)
      shown.set(key, node);
    else if (idle.has(agent)) idle.get(agent).push(node);
    else idle.set(agent, [node]);
  }
  for (const agent of new Set([...idle.keys(), ...Object.keys(map.totals)])) fold(map, agent, idle.get(agent) || [], shown);
  for (const node of shown.values()) node.rank ??= map.ranks++;
  return shown;
}

function activeKeys(map) {
  const keys = new Set([map.chosen]);
  for (const run of map.runs) keys.add(run.key).add(run.source);
  for (const wait of map.waits) keys.add(wait.key).add(wait.targetKey);
  for (const spawn of map.spawns) keys.add(spawn.childKey).add(spawn.parentKey);
  return keys;
}


function fold(map, agent, nodes, shown) {
  let left = Math.max(nodes.length, (map.totals[agent] || 0) - countOf(agent, shown));
  const open = map.unfolded.has(agent) || left < FOLD_MIN;
  if (open)
    for (const node of nodes.slice(0, UNFOLDED_MAX)) {
      shown.set(node.row.key, node);
      left--;
    }
  if (left < 1) return;
  const key = `${FOLD}${agent}`;
  const row = { key, agentId: agent, label: `+${left} idle`, createdAt: Infinity, updatedAt: 0, tokens: 0, costUsd: 0, standing: { name: "idle" } };
  const known = map.folds.get(agent) || { x: 0, y: 0, fresh: true };
  map.folds.set(agent, Object.assign(known, { row }));
  shown.set(key, known);
}

/** Archived children count among the shown, not among the idle. */
const countOf = (agent, shown) =>
  [...shown.values()].filter(({ row }) => agentOfRow(row) === agent && !row.archivedAt && !row.ghost).length;
