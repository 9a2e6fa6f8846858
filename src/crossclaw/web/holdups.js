// @ts-check
// Where it is stuck: from every wait along the chain to whoever does not wait, and holds up all the others.

export const STUCK = 60_000; // a wait that is worth a look

/** @typedef {{key: string, waiting: Set<string>, since: number, circle: boolean}} Holdup who wait, since when, and whether they
 * wait in a circle */

/** By key of whoever holds others up.
 * @param {Api.WaitRow[]} waits */
export function holdupsOf(waits) {
  /** @type {Map<string, string[]>} */
  const targets = new Map();
  for (const { key, targetKey } of waits) targets.set(key, [...(targets.get(key) || []), targetKey]);
  /** @type {Map<string, Holdup>} */
  const found = new Map();
  for (const { key, since } of waits)
    for (const { key: end, circle } of endsOf(key, targets)) {
      const known = found.get(end) || { key: end, waiting: new Set(), since, circle: false };
      known.waiting.add(key);
      known.since = Math.min(known.since, since);
      known.circle ||= circle;
      found.set(end, known);
    }
  for (const each of found.values()) each.waiting.delete(each.key);
  return found;
}

/** All that is reached over waits and does not wait itself; where there is none, the circle it runs into.
 * @param {string} key @param {Map<string, string[]>} targets */
function endsOf(key, targets) {
  const seen = new Set([key]);
  for (const each of seen) for (const next of targets.get(each) || []) seen.add(next);
  const ends = [...seen].filter((each) => !targets.has(each));
  if (ends.length) return ends.map((end) => ({ key: end, circle: false }));
  const after = (/** @type {string} */ each) => targets.get(each)?.[0] ?? each;
  let inside = key;
  for (let step = 0; step < seen.size; step++) inside = after(inside);
  const circle = new Set([inside]);
  for (const each of circle) circle.add(after(each));
  return [{ key: [...circle].sort()[0], circle: true }]; // one name, whoever asks
}
