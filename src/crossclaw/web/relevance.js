// @ts-check
// What of all sessions is worth a place on the map: what was active in the hour, every agent, whatever is chosen. The
// idle ones of an agent are one dot that says how many they are and unfolds.
import { agentOfRow } from "./dom.js";

const FOLD_MIN = 4; // fewer idle ones are shown as they are
const UNFOLDED_MAX = 300; // of one agent

/** @typedef {import("./map.js").MapView} MapView */
/** @typedef {import("./map.js").MapNode} MapNode */

const FOLD = "idle:";
/** @param {MapNode} node */
export const isFold = (node) => node.row.key.startsWith(FOLD);

/** The nodes to be shown, by key; those that were shown before keep their place.
 * @param {MapView} map */
export function relevant(map) {
  const active = activeKeys(map);
  /** @type {Map<string, MapNode>} */
  const shown = new Map();
  /** @type {Map<string, MapNode[]>} */
  const idle = new Map();
  for (const [key, node] of map.every) {
    const agent = agentOfRow(node.row);
    if (active.has(key) || node.row.lane || (node.row.updatedAt || 0) >= map.since || key === `agent:${agent}:main`)
      shown.set(key, node);
    else {
      const others = idle.get(agent);
      if (others) others.push(node);
      else idle.set(agent, [node]);
    }
  }
  for (const agent of new Set([...idle.keys(), ...Object.keys(map.totals)])) fold(map, agent, idle.get(agent) || [], shown);
  for (const node of shown.values()) node.rank ??= map.ranks++;
  return shown;
}

/** @param {MapView} map */
function activeKeys(map) {
  /** @type {Set<string | null | undefined>} */
  const keys = new Set([map.chosen]);
  for (const run of map.runs) keys.add(run.key).add(run.source);
  for (const wait of map.waits) keys.add(wait.key).add(wait.targetKey);
  for (const spawn of map.spawns) keys.add(spawn.childKey).add(spawn.parentKey);
  return keys;
}

/** @param {MapView} map @param {string} agent @param {MapNode[]} nodes @param {Map<string, MapNode>} shown */
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
  /** @type {Page.Row} */
  const row = { key, agentId: agent, label: `+${left} idle`, createdAt: Infinity, updatedAt: 0, tokens: 0, costUsd: 0, standing: { name: "idle" } };
  const known = map.folds.get(agent) || { row, x: 0, y: 0, tx: 0, ty: 0, fresh: true };
  map.folds.set(agent, Object.assign(known, { row }));
  shown.set(key, known);
}

/** Archived children count among the shown, not among the idle.
 * @param {string} agent @param {Map<string, MapNode>} shown */
const countOf = (agent, shown) =>
  [...shown.values()].filter(({ row }) => agentOfRow(row) === agent && !row.archivedAt && !row.ghost).length;
