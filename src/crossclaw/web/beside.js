// @ts-check
// What the map shows, in words beside it: who is at work, what was said, and the node that is picked.
import {
  ago,
  cost,
  count,
  empty,
  exactTime,
  face,
  fill,
  h,
  lasted,
  nameOf,
  nameOfKey,
  plural,
  routeOf,
  stateMark,
  to,
} from "./dom.js";
import { STUCK } from "./holdups.js";

const LISTED = 40;
const UNDER_WAY = new Set(["queued", "running", "waiting", "needs approval"]);

/** @typedef {import("./map.js").MapView} MapView */

/** @param {MapView} map */
export function tellInWords(map) {
  if (!map.side) return;
  const time = map.time,
    now = Date.now() - (map.skew || 0);
  const chosen = map.nodes.get(map.chosen ?? "");
  const seen = map.flights
    .filter((run) => run.createdAt <= time && (!chosen || run.key === map.chosen || run.source === map.chosen))
    .slice(-LISTED)
    .reverse();
  const focused = map.side.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
  fill(
    map.side,
    ...(chosen ? about(map, chosen) : []),
    ...(map.live && !chosen ? [...holdupList(map, now), ...busyList(map, now)] : []),
    h("h3", null, map.live ? "Messages" : `Messages until ${exactTime(time)}`),
    seen.length
      ? h(
          "ul",
          { cls: "flow" },
          seen.map((run) => flow(run, now)),
        )
      : empty("Quiet", "No message in the last hour. When agents talk, their messages light up here."),
  );
  if (focused) (/** @type {HTMLElement | null} */ (map.side.querySelector(`a[href="${CSS.escape(focused)}"]`)) || map.side).focus();
}

/** Whom all the others wait for, the longest wait first.
 * @param {MapView} map @param {number} now */
function holdupList(map, now) {
  const held = [...map.holdups.values()].sort((a, b) => a.since - b.since);
  if (!held.length) return [];
  return [
    h("h3", null, "Who is waited for"),
    h("ul", { cls: "flow" }, held.slice(0, LISTED).map((each) => h("li", null, holdup(map, each, now)))),
  ];
}

/** @param {MapView} map @param {import("./holdups.js").Holdup} held @param {number} now */
function holdup(map, { key, waiting, since, circle }, now) {
  const late = circle || now - since > STUCK;
  const who = plural(waiting.size, "session");
  return h(
    "a",
    { href: `#/map/${encodeURIComponent(key)}` },
    h("span", { cls: "route" }, nameOfKey(key)),
    h("span", { cls: `when${late ? " late" : ""}` }, lasted(Math.max(0, now - since))),
    h(
      "span",
      { cls: "what" },
      circle ? `and ${who} wait for each other` : `${who} ${waiting.size === 1 ? "waits" : "wait"} for it · `,
      !circle && stateMark(map.nodes.get(key)?.row.standing),
    ),
  );
}

/** @param {MapView} map @param {number} now */
function busyList(map, now) {
  const open = map.open_.filter((run) => run.status !== "queued");
  const queued = map.open_.length - open.length;
  if (!map.open_.length) return [];
  return [
    h("h3", null, queued ? `At work, ${count(queued)} queued` : "At work"),
    h(
      "ul",
      { cls: "flow" },
      open.slice(0, LISTED).map((run) => {
        const wait = map.waits.find((each) => each.runId === run.runId);
        const since = wait?.since || run.startedAt || run.createdAt;
        const late = wait && now - since > STUCK;
        return h(
          "li",
          null,
          h(
            "a",
            { href: to.run(run.runId) },
            h("span", { cls: "route" }, nameOfKey(run.key)),
            h("span", { cls: `when${late ? " late" : ""}` }, lasted(Math.max(0, now - since))),
            h(
              "span",
              { cls: "what" },
              stateMark(wait ? { name: "waiting", waitsFor: [wait.targetKey] } : map.nodes.get(run.key)?.row.standing || run.standing),
            ),
          ),
        );
      }),
    ),
  ];
}

/** @param {MapView} map @param {import("./map.js").MapNode} node */
function about(map, { row }) {
  const children = [...map.nodes.values()].filter((node) => node.row.spawnedBy === row.key);
  return [
    h("header", { cls: "picked" }, face(row.key), h("h3", null, nameOf(row))),
    h("p", null, h("code", null, row.key)),
    h(
      "dl",
      { cls: "facts" },
      h("dt", null, "State"),
      h("dd", null, stateMark(row.standing, true)),
      h("dt", null, "Tokens"),
      h("dd", null, count(row.tokens || 0)),
      h("dt", null, "Cost"),
      h("dd", null, cost(row.costUsd)),
      row.spawnedBy && [
        h("dt", null, "Parent"),
        h("dd", null, h("a", { href: `#/map/${encodeURIComponent(row.spawnedBy)}` }, nameOfKey(row.spawnedBy))),
      ],
      children.length > 0 && [
        h("dt", null, "Children"),
        h(
          "dd",
          null,
          children.map((node) =>
            h("a", { href: `#/map/${encodeURIComponent(node.row.key)}` }, `${nameOf(node.row)} `),
          ),
        ),
      ],
    ),
    h(
      "p",
      { cls: "acts" },
      h("a", { cls: "button", href: to.chat(row.key) }, "Open chat"),
      h("a", { cls: "button", href: "#/map" }, "All"),
    ),
  ];
}

/** @param {import("./map.js").Flight} run @param {number} now */
function flow(run, now) {
  const href = run.exchangeId
    ? to.exchange(run.exchangeId)
    : run.kind === "spawn"
      ? to.exchange(run.runId)
      : to.run(run.runId);
  return h(
    "li",
    null,
    h(
      "a",
      { href, data: { run: run.runId } },
      h("span", { cls: "route" }, routeOf(run)),
      h("span", { cls: "when", title: exactTime(run.createdAt) }, ago(run.createdAt, now)),
      h(
        "span",
        { cls: "what" },
        run.kind,
        run.standing && !UNDER_WAY.has(run.standing.name) ? h("span", null, " · ", stateMark(run.standing, true)) : "",
      ),
    ),
  );
}
