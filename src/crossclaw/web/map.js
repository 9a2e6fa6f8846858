// @ts-check
// The map: sessions as nodes, messages as lights between them, who waits for whom. Everything drawn is a
// function of a time, so the same code shows what happens now and replays the last hour.
import {
  Part,
  agentOf,
  agentOfRow,
  debounce,
  empty,
  exactTime,
  fill,
  h,
  icon,
  learnNames,
  nameOf,
  plural,
  stateOf,
  within,
} from "./dom.js";
import { tellInWords } from "./beside.js";
import { listen } from "./hands.js";
import { holdupsOf } from "./holdups.js";
import { complain, gateway } from "./gateway.js";
import { t } from "./language.js";
import { isFold, relevant } from "./relevance.js";
import { dress, fit, layout, wake } from "./stage.js";
import { Lost, wire } from "./wire.js";

const HOUR = 3_600_000;
const SPEEDS = [10, 60, 300];

/** @typedef {{row: Page.Row, x: number, y: number, tx: number, ty: number, fresh: boolean, rank?: number}} MapNode where it is,
 * and where it goes to */
/** @typedef {{id: string, nodes: MapNode[], x: number, y: number, r: number}} Circle of an agent */
/** @typedef {Pick<Api.RunRow, "runId" | "key" | "kind" | "status" | "createdAt" | "startedAt" | "endedAt" | "exchangeId" | "source" | "standing">} Flight
 * what passes between sessions: a run, or the report of a child */

export class MapView extends Part {
  /** @type {Map<string, MapNode>} */ every = new Map(); // all that are known
  /** @type {Map<string, MapNode>} */ nodes = new Map(); // those that are shown
  /** @type {Map<string, MapNode>} */ folds = new Map(); // by agent: the dot that stands for its idle sessions
  /** @type {Set<string>} */ unfolded = new Set(); // agents whose idle sessions are shown
  /** @type {Record<string, number>} */ totals = {}; // by agent: how many sessions it has
  ranks = 0;
  shownKeys = "";
  /** @type {Api.RunRow[]} */ runs = [];
  /** @type {Flight[]} */ flights = [];
  /** @type {{from: string, to: string}[]} */ roads = [];
  /** @type {Map<string, Api.RunRow>} */ known = new Map();
  /** @type {Api.RunRow[]} */ open_ = [];
  /** @type {Api.WaitRow[]} */ waits = [];
  /** @type {Map<string, import("./holdups.js").Holdup>} */ holdups = new Map(); // by key: who waits for it, along all chains
  /** @type {Api.SpawnRow[]} */ spawns = [];
  /** @type {import("./labels.js").Label[]} */ labels = []; // as they were drawn, for those who look
  /** @type {{key: string, parent: string, by: number}[]} */ kin = [];
  since = 0;
  skew = 0;
  playing = false;
  cursor = 0;
  live = true;
  at = Date.now();
  speed = 60;
  view = { x: 0, y: 0, zoom: 1, moved: false };
  drawn = 0; // frames so far
  /** @type {Circle[] | null} */ circles = null; // once the nodes have their places
  /** @type {string | null} */ chosen = null;
  /** @type {MapNode | null} */ over = null; // the node under the pointer
  /** @type {Record<string, string>} */ ink = {};
  dark = false;
  /** @type {number | null} */ frame = null;
  painted = 0;
  still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  soon = debounce(() => this.read(), 120);
  sized = new ResizeObserver(() => {
    fit(this);
    wake(this);
  });
  canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of sessions" });
  pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
  legend = h(
    "p",
    { cls: "legend", "aria-hidden": "true" },
    legend("running", "running"),
    legend("queued", "queued"),
    legend("waiting", "waits for", "dash"),
    legend("bad", "failed, or waits for over a minute"),
    legend("idle", "larger: cost more"),
  );
  picked = h("p", { cls: "sr", role: "status" });
  tip = h("div", { cls: "tip", hidden: true });
  nobody = empty(
    "Nobody here yet",
    "Each session is a dot; what one says to another is a line that lights up.",
    h("p", null, h("a", { href: "#/chat" }, t("Talk with an agent"))),
  );
  side = h("aside", { cls: "side", tabindex: "-1", "aria-label": "What happens" });
  player = h(
    "button",
    {
      type: "button",
      cls: "icon",
      "aria-label": "Replay the last hour",
      title: "Replay the last hour",
      onclick: () => this.play(),
    },
    icon("play"),
  );
  slider = h("input", {
    type: "range",
    "aria-label": "Time",
    step: 1000,
    oninput: (event) => this.seek(Number(event.currentTarget.value)),
  });
  clock = h("output", { "aria-live": "off" });
  rate = h(
    "select",
    {
      "aria-label": "Speed of the replay",
      onchange: () => {
        this.speed = Number(this.rate.value);
      },
    },
    SPEEDS.map((each) => h("option", { value: each }, `${each}×`)),
  );
  now = h("button", { type: "button", "aria-pressed": "true", onclick: () => this.goLive() }, "Live");

  open() {
    this.nobody.hidden = true;
    this.rate.value = String(this.speed);
    this.place();
    dress(this);
    this.hearAll();
    listen(this);
    this.sized.observe(this.canvas);
    this.repeat(5000, () => {
      if (!this.live) return;
      this.list();
      wake(this);
    });
    this.read();
    wake(this);
  }

  place() {
    fill(
      this,
      h(
        "section",
        { cls: "stage", "aria-label": "Map" },
        h("h2", { cls: "sr" }, "Map"),
        this.canvas,
        this.legend,
        this.tip,
        this.picked,
        this.nobody,
      ),
      this.side,
      h(
        "div",
        { cls: "clockbar", role: "group", "aria-label": "Time of the map" },
        this.player,
        this.slider,
        this.clock,
        this.rate,
        this.now,
      ),
    );
  }

  hearAll() {
    this.hear(globalThis, "dressed", () => dress(this));
    this.hear(matchMedia("(prefers-color-scheme: dark)"), "change", () => dress(this));
    this.hear(gateway, "open", () => {
      this.greet();
      this.cursor = 0;
      this.read();
    });
    this.hear(gateway, "recent", () => {
      for (const row of gateway.recent) this.node(row);
      this.changed();
    });
    this.hear(wire, "sessions.changed", () => this.soon());
    this.hear(wire, "agent", ({ detail }) => {
      if (detail.stream === "lifecycle") this.soon();
    });
  }

  close() {
    cancelAnimationFrame(this.frame ?? 0);
    this.frame = null;
    this.sized.disconnect();
  }

  /** @param {string | null} key */
  go(key) {
    this.chosen = key;
    this.arrange();
    const node = this.nodes.get(key ?? "");
    this.picked.textContent = node ? `${nameOf(node.row)}, ${stateOf(node.row.standing).text}` : "";
    this.list();
    wake(this);
  }

  // ── what is known ─────────────────────────────────────────────────────────────────────────

  async read() {
    if (!wire.ready) return;
    const after = this.cursor;
    try {
      const seen = await wire.call("map.get", after ? { after, sinceMs: Date.now() - HOUR } : {});
      if (after !== this.cursor) {
        this.soon(); // another answer came before this one: what is new since then is asked for, not passed over
        return;
      }
      if (!after) this.forget(seen);
      this.take(seen);
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  /** @param {Api.MapResult} seen */
  forget(seen) {
    this.known = new Map();
    this.since = seen.since;
    const here = new Set(seen.nodes.map((row) => row.key));
    for (const key of this.every.keys()) if (!here.has(key)) this.every.delete(key);
    this.greet();
  }

  /** @param {Api.MapResult} seen */
  take(seen) {
    const skew = Date.now() - seen.ts; // the gateway's clock is the one that counts
    this.skew = skew;
    learnNames(seen.nodes);
    for (const row of seen.nodes) this.node(row);
    for (const run of [...seen.runs, ...seen.open]) this.known.set(run.runId, run);
    const open = new Set(seen.open.map((run) => run.runId));
    for (const run of this.known.values()) if (!run.endedAt && !open.has(run.runId)) run.endedAt = seen.ts;
    const busy = new Set(seen.open.map((run) => run.key));
    for (const node of this.every.values())
      if (node.row.lane && !busy.has(node.row.key)) node.row = { ...node.row, lane: undefined, standing: undefined };
    this.open_ = seen.open;
    this.waits = seen.waits;
    this.holdups = holdupsOf(seen.waits);
    this.spawns = seen.spawns;
    this.cursor = seen.cursor;
    if (seen.totals) this.totals = seen.totals;
    this.runs = [...this.known.values()].sort((a, b) => a.number - b.number);
    for (const run of this.runs)
      for (const key of [run.key, run.source])
        if (key && !this.every.has(key))
          this.node({
            key,
            agentId: agentOf(key),
            updatedAt: run.createdAt,
            createdAt: run.createdAt,
            tokens: 0,
            costUsd: 0,
            ghost: true,
          });
    this.flights = [...this.runs, ...this.spawns.flatMap(reportsOf)].sort((a, b) => a.createdAt - b.createdAt);
    this.roads = roadsOf(this.flights);
    this.changed();
  }

  /** @param {Page.Row} row */
  node(row) {
    const { standing } = row;
    const known = this.every.get(row.key);
    const last = this.known.get(standing?.runId ?? "");
    if (last && !row.lane) last.standing = standing?.name === "ok" ? undefined : standing;
    if (known) known.row = row;
    else this.every.set(row.key, { row, x: 0, y: 0, tx: 0, ty: 0, fresh: true });
  }

  /** Agents are there before anybody has talked to them. */
  greet() {
    for (const { id } of gateway.agents) {
      const key = `agent:${id}:main`;
      if (!this.every.has(key))
        this.node({ key, agentId: id, createdAt: 0, updatedAt: 0, tokens: 0, costUsd: 0, standing: { name: "idle" }, ghost: true });
    }
  }

  /** Who is shown; a new place only where that has changed. */
  arrange() {
    this.nodes = relevant(this);
    const keys = [...this.nodes.keys()].sort().join(" ");
    if (keys === this.shownKeys) return;
    this.shownKeys = keys;
    layout(this);
  }

  changed() {
    this.arrange();
    const waiting = this.waits.length,
      running = this.open_.length - waiting;
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${plural(this.every.size, "session")}: ${running} at work, ${waiting} waiting. The list beside it says the same in words.`,
    );
    this.nobody.hidden = this.nodes.size > 0;
    this.list();
    wake(this);
  }

  // ── time ──────────────────────────────────────────────────────────────────────────────────

  get time() {
    return this.live ? Date.now() - (this.skew || 0) : this.at;
  }

  /** @param {number} at */
  seek(at) {
    this.live = false;
    this.at = at;
    this.showClock();
    this.list();
    wake(this);
  }

  goLive() {
    this.live = true;
    this.playing = false;
    this.showClock();
    this.list();
    wake(this);
  }

  play() {
    if (this.live || this.at >= Number(this.slider.max) - 1000)
      this.at = this.runs[0]
        ? Math.max(this.runs[0].createdAt - 2000, this.since || 0)
        : this.since || Date.now() - HOUR;
    this.playing = this.live || !this.playing;
    this.live = false;
    this.showClock();
    wake(this);
  }

  showClock() {
    const now = Date.now() - (this.skew || 0);
    this.slider.min = String(Math.floor((now - HOUR) / 1000) * 1000);
    this.slider.max = String(Math.ceil(now / 1000) * 1000);
    this.slider.value = String(this.time);
    this.slider.setAttribute("aria-valuetext", exactTime(this.time));
    this.clock.textContent = exactTime(this.time);
    this.now.setAttribute("aria-pressed", String(this.live));
    within(this.player, "use").setAttribute("href", this.playing ? "#i-pause" : "#i-play");
    this.player.setAttribute("aria-label", this.playing ? "Pause" : "Replay the last hour");
  }

  // ── hands ─────────────────────────────────────────────────────────────────────────────────

  /** The one after or before the picked one, agent by agent.
   * @param {number} by */
  step(by) {
    const nodes = (this.circles || []).flatMap((circle) => circle.nodes);
    if (!nodes.length) return;
    const at = nodes.findIndex((node) => node.row.key === this.chosen);
    const next = at < 0 ? (by > 0 ? 0 : nodes.length - 1) : (at + by + nodes.length) % nodes.length;
    this.choose(nodes[next]);
  }

  /** @param {MapNode | null} node */
  choose(node) {
    if (node && isFold(node)) {
      const agent = agentOfRow(node.row);
      if (!this.unfolded.delete(agent)) this.unfolded.add(agent);
      this.view.moved = false;
      this.changed();
      return;
    }
    location.hash = node ? `#/map/${encodeURIComponent(node.row.key)}` : "#/map";
  }

  list() {
    if (this.side) tellInWords(this);
  }
}

/** @param {string} state @param {string} text */
function legend(state, text, mark = "dot") {
  return h("span", { cls: "state", data: { state } }, h("i", { cls: mark }), text);
}

/** A child's report comes without a run: it is written into its parent's transcript.
 * @param {Api.SpawnRow} spawn @returns {Flight[]} */
const reportsOf = ({ childKey, parentKey, announcedAt: at }) =>
  at
    ? [{ runId: childKey, exchangeId: childKey, key: parentKey, source: childKey, kind: "report", status: "ok", createdAt: at, endedAt: at }]
    : [];

/** One road a direction, however often it was taken.
 * @param {Flight[]} runs */
function roadsOf(runs) {
  /** @type {Map<string, {from: string, to: string}>} */
  const roads = new Map();
  for (const run of runs)
    if (run.source && run.source !== run.key)
      roads.set(`${run.source} ${run.key}`, { from: run.source, to: run.key });
  return [...roads.values()];
}

customElements.define("cc-map", MapView);
