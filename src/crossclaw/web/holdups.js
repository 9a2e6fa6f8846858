// @ts-check
// Where it is stuck: from every wait along the chain to whoever does not wait, and holds up all the others.

export const STUCK = 60_000; // a wait that is worth a look

/** By key of whoever holds others up: how many `wait`, `since` when, and whether they wait in a `circle`. */
export function holdupsOf(waits) {
  const targets = new Map();
  for (const { key, targetKey } of waits) targets.set(key, [...(targets.get(key) || []), targetKey]);
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

/** All that is reached over waits and does not wait itself; where there is none, the circle it runs into. */
function endsOf(key, targets) {
  const seen = new Set([key]);
  for (const each of seen) for (const next of targets.get(each) || []) seen.add(next);
  const ends = [...seen].filter((each) => !targets.has(each));
  if (ends.length) return ends.map((end) => ({ key: end, circle: false }));
  let inside = key;
  for (let step = 0; step < seen.size; step++) inside = targets.get(inside)[0];
  const circle = new Set([inside]);
  for (const each of circle) circle.add(targets.get(each)[0]);
  return [{ key: [...circle].sort()[0], circle: true }]; // one name, whoever asks
}
