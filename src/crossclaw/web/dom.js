// @ts-check
// Small tools for making elements and telling times and amounts. Words of others go in as text; the one
// door for HTML is `setSanitised`.
import { t } from "./language.js";

/** @template {string} Tag
 * @param {Tag} tag @param {Page.Props<Page.Made<Tag>> | null} [props] @param {Page.Child[]} children
 * @returns {Page.Made<Tag>} */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "selected") Object.assign(element, { [name]: value });
    else element.setAttribute(name === "cls" ? "class" : name, value === true ? "" : String(value));
  }
  element.append(...real(children));
  return /** @type {Page.Made<Tag>} */ (element);
}

/** Without those that are left out.
 * @param {Page.Child[]} children @returns {(Node | string)[]} */
const real = (children) =>
  /** @type {(Node | string)[]} */ (children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));

/** Puts these in place of what was there. The browser's own replaceChildren would write "false" for a part
 * that is left out, so nothing else calls it.
 * @param {Element} element @param {Page.Child[]} children */
export function fill(element, ...children) {
  element.replaceChildren(...real(children));
}

/** What stands in index.html by this id.
 * @param {string} id */
export const fixed = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** A piece of what was made here, which is always there.
 * @template {string} Selector
 * @param {Element} element @param {Selector} selector */
export const within = (element, selector) => /** @type {Page.Made<Selector>} */ (element.querySelector(selector));

/** Why something failed, as whoever threw it says.
 * @param {unknown} error */
export const whyOf = (error) => (error instanceof Error ? error.message : String(error));

const SVG = "http://www.w3.org/2000/svg";

/** As `h`, of a picture.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag @param {Page.Attributes | null} [props] @param {Page.Child[]} children */
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props || {})) element.setAttribute(name === "cls" ? "class" : name, String(value));
  element.append(...real(children));
  return element;
}

/** @param {string} name */
export const icon = (name) => svg("svg", { "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));

/** @param {string} name @param {string} label @param {() => void} onclick */
export function iconButton(name, label, onclick, cls = "icon") {
  return h("button", { type: "button", cls, "aria-label": label, title: label, onclick }, icon(name));
}

// The only place where HTML is put in. It comes from the gateway's Markdown pipeline, which sanitises it;
// the page's content policy allows no other maker of HTML.
const policy = globalThis.trustedTypes?.createPolicy("crossclaw", { createHTML: (html) => html });

/** @param {Element} element @param {string} html */
export function setSanitised(element, html) {
  element.innerHTML = policy ? policy.createHTML(html) : html;
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (element.querySelectorAll("a[href]"))) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
}

// ── times and amounts ───────────────────────────────────────────────────────────────────────

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const exact = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.NumberFormat(undefined);
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** @typedef {(value: number) => string} Written */

/** @type {Written} */
export const timeOf = (ms) => clock.format(ms);
/** @type {Written} */
export const exactTime = (ms) => exact.format(ms);
/** @type {Written} */
export const dayOf = (ms) => day.format(ms);
/** Of today the time, of other days the day too.
 * @type {Written} */
export const whenOf = (ms) =>
  new Date(ms).toDateString() === new Date().toDateString() ? timeOf(ms) : `${short.format(ms)}, ${timeOf(ms)}`;
/** @type {Written} */
export const count = (n) => whole.format(n);

/** @param {number} ms @param {number} [now] */
export function ago(ms, now = Date.now()) {
  const s = Math.max(0, Math.round((now - ms) / 1000));
  if (s < 10) return "now";
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  if (s < 7 * 86400) return `${Math.floor(s / 86400)} d`;
  return short.format(ms);
}

/** @param {number | null} [ms] */
export function lasted(ms) {
  if (ms === undefined || ms === null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** @param {number} [n] */
export const tokens = (n) => (n ? compact.format(n) : "0");

/** @param {number} [usd] */
export function cost(usd) {
  if (!usd) return "–";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** @param {number} n @param {string} word */
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// ── names ───────────────────────────────────────────────────────────────────────────────────

/** @type {Map<string, string>} */
const agentNames = new Map();

/** @param {Api.AgentRow[]} agents */
export function learnAgents(agents) {
  agentNames.clear();
  for (const agent of agents) agentNames.set(agent.id, agent.name || agent.id);
}

/** @type {Map<string, string>} */
const sessionNames = new Map();

/** Labels are told with rows; elsewhere only keys are.
 * @param {Page.Row[]} rows */
export function learnNames(rows) {
  for (const row of rows) {
    const name = row.label || row.displayName || row.title;
    if (name) sessionNames.set(row.key, brief(name));
    else sessionNames.delete(row.key);
  }
}

/** The agent of a row; the key of a job names none.
 * @param {Page.Row} row */
export const agentOfRow = (row) => row.agentId || agentOf(row.key);
/** @param {string | null} [key] */
export const agentOf = (key) => (key?.startsWith("agent:") ? key.split(":")[1] : "main");
/** @param {string} id */
export const agentName = (id) => agentNames.get(id) || id;

/** A session's name for people: its label, else what its key says.
 * @param {Page.Row} row */
export function nameOf(row) {
  const name = row.label || row.displayName || row.title;
  return name ? brief(name) : nameOfKey(row.key);
}

/** Of a session whose agent is no longer configured.
 * @param {Page.Row} row */
export const goneWords = (row) =>
  `The agent ${row.agentId} is no longer configured, so nobody answers here. Put it back ` +
  `(crossclaw agents add ${row.agentId}), or delete the session.`;

const UUID = /([0-9a-f]{6})[0-9a-f]{2}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;

/** Of an id the beginning tells it apart; nobody reads the rest.
 * @param {string} name */
const brief = (name) => name.replace(UUID, "$1");

/** @param {string | null} [key] */
export function nameOfKey(key) {
  if (!key) return "a person";
  const known = sessionNames.get(key);
  if (known !== undefined) return known;
  const parts = key.split(":");
  if (parts[0] !== "agent") return key;
  const agent = agentName(parts[1]);
  const rest = parts.slice(2);
  if (rest.length === 1 && rest[0] === "main") return agent;
  if (rest[0] === "subagent") return `${agent} · child ${(rest[1] || "").slice(0, 6)}`;
  if (rest[0] === "mcp") return rest.slice(1).join(" ");
  return `${agent} · ${brief(rest.join(" "))}`;
}

/** Who answers in a session: its agent, or the guest whose session it is.
 * @param {string | null} key */
export const speakerOf = (key) => (key?.split(":")[2] === "mcp" ? nameOfKey(key) : agentName(agentOf(key)));

/** @type {Record<string, string>} */
const BEGINNINGS = { cron: "a clock", hook: "a hook", node: "a node", system: "the gateway" };

/** What begins a run of this kind when no session does.
 * @param {string} kind */
export const beginning = (kind) => BEGINNINGS[kind] || "a person";

/** Whether the words are those of a person, as far as the gateway knows.
 * @param {Api.Message["provenance"]} provenance */
export const isPersons = (provenance) =>
  !provenance?.sourceSessionKey && (provenance?.kind ?? "person") === "person";

/** Who said a message, by what the gateway wrote beside it.
 * @param {Api.Message["provenance"]} provenance */
export function authorOf(provenance) {
  if (provenance?.sourceSessionKey) return nameOfKey(provenance.sourceSessionKey);
  const kind = provenance?.kind ?? "person";
  const name = provenance?.sender;
  if (!name || name.toLowerCase() === kind) return beginning(kind);
  return kind in BEGINNINGS && kind !== "system" ? `${name} (${kind})` : name;
}

/** Who brought a run about and whom it reached, in words. An announce is said by the session itself.
 * @param {{kind: string, key: string, source?: string}} run */
export function routeOf(run) {
  if (run.kind === "announce") return `${nameOfKey(run.key)} announces`;
  return `${run.source ? nameOfKey(run.source) : beginning(run.kind)} → ${nameOfKey(run.key)}`;
}

// Twelve colours that every eye tells apart (tests/unit/test_agent_colours.py reckons it): [hue, lift of the lightness].
const SHADES = [[180, -0.08], [305, -0.02], [75, -0.02], [260, 0.06], [355, 0.08], [190, -0.18], [105, 0.16], [305, -0.12], [240, 0.16], [55, -0.18], [105, 0.08], [75, -0.1]];

/** An agent's colour: by its place among the agents, so that the first twelve are all different.
 * @param {string} id */
export function shadeOf(id) {
  const at = [...agentNames.keys()].indexOf(id);
  if (at < 0) return { hue: hashHue(id), lift: 0 };
  const [hue, lift] = SHADES[at % SHADES.length];
  return { hue: (hue + 15 * Math.floor(at / SHADES.length)) % 360, lift };
}

/** @param {string} text */
export const hueOf = (text) => (agentNames.has(text) ? shadeOf(text).hue : hashHue(text));

/** @param {string} text */
function hashHue(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return ((hash >>> 0) * 137) % 360;
}

/** @param {string | null} key @param {string} [agent] */
export function face(key, agent = agentOf(key)) {
  return key?.split(":")[2] === "mcp" ? letter(nameOfKey(key), key) : letter(agentName(agent), agent);
}

/** @param {string} name @param {string} [hue] */
export function letter(name, hue = name) {
  const element = h(
    "i",
    { cls: "face", "aria-hidden": "true" },
    name
      .replace(/^(the|an?) /i, "")
      .slice(0, 1)
      .toUpperCase(),
  );
  element.style.setProperty("--hue", String(hueOf(hue)));
  if (agentNames.has(hue)) element.style.setProperty("--lift", String(shadeOf(hue).lift));
  return element;
}

// What the gateway says of sessions, runs, exchanges, children, jobs and deliveries (domain/states.py): one set of
// words, and a colour for each.
/** @type {Partial<Record<Api.State["name"], string>>} */
const COLOURS = {
  failed: "bad",
  "timed out": "bad",
  "over budget": "bad",
  uncertain: "unsure",
  "needs approval": "unsure",
  stopped: "stopped",
};
/** @type {Api.State} */
const OK = { name: "ok" };

/** What ended well has no state at all.
 * @param {Api.State} [standing] */
export const isBad = (standing) => !!standing && (COLOURS[standing.name] === "bad" || standing.name === "uncertain");

/** As a colour and a sentence.
 * @param {Api.State} [standing] */
export function stateOf(standing) {
  const { name, queued, waitsFor, why } = standing || OK;
  const behind = queued && name !== "queued" ? `, ${queued} queued` : "";
  if (name === "waiting")
    return { name, text: `waits for ${(waitsFor || []).map(nameOfKey).join(", ") || why || "a run"}${behind}` };
  if (name === "queued") return { name, text: queued ? `${queued} queued` : "queued" };
  return { name: COLOURS[name] || name, text: `${name}${behind}` };
}

/** @param {Api.State | undefined} standing @param {boolean} [withWhy] */
export function stateMark(standing, withWhy = false) {
  const state = stateOf(standing);
  const why = standing?.name === "waiting" ? null : standing?.why;
  return h(
    "span",
    { cls: "state", data: { state: state.name }, title: why },
    h("i", { cls: "dot", "aria-hidden": "true" }),
    withWhy && why ? `${state.text}: ${oneLine(why, 200)}` : state.text,
  );
}

/** Of what is no run: a health, a channel.
 * @param {string} name @param {string} [text] */
export const plainMark = (name, text = name) =>
  h("span", { cls: "state", data: { state: name } }, h("i", { cls: "dot", "aria-hidden": "true" }), text);

// ── links ───────────────────────────────────────────────────────────────────────────────────

/** @typedef {(id: string) => string} Way */
export const to = {
  /** @param {string} key @param {number} [seq] */
  chat: (key, seq) => `#/chat/${encodeURIComponent(key)}${seq ? `?seq=${seq}` : ""}`,
  /** @type {Way} */
  session: (key) => `#/sessions/${encodeURIComponent(key)}`,
  /** @type {Way} */
  run: (id) => `#/run/${encodeURIComponent(id)}`,
  /** @type {Way} */
  trace: (id) => `#/trace/${encodeURIComponent(id)}`,
  /** @type {Way} */
  exchange: (id) => `#/exchange/${encodeURIComponent(id)}`,
};

/** @param {unknown} value */
export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** @param {unknown} value */
export function oneLine(value, most = 120) {
  const text =
    typeof value === "string"
      ? value
      : Object.entries(value || {})
          .map(([k, v]) => `${k}: ${typeof v === "string" ? v : JSON.stringify(v)}`)
          .join(", ");
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** What a model thought: its first words, and all of it when it is opened.
 * @param {string} text */
export const thought = (text) =>
  h(
    "details",
    { cls: "tool" },
    h("summary", null, h("span", { cls: "verb" }, "thought"), h("span", { cls: "line" }, oneLine(text, 90))),
    h("pre", null, text),
  );

/** @param {Pick<Api.Message, "content"> | null} [message] */
export function textOf(message) {
  if (typeof message?.content === "string") return message.content;
  if (!Array.isArray(message?.content)) return "";
  return message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** @param {string} title @param {string} text @param {Page.Child[]} more */
export function empty(title, text, ...more) {
  return h("div", { cls: "empty" }, h("p", { cls: "title" }, t(title)), h("p", null, t(text)), ...more);
}

/** Calls the work once for all calls within a time. It never begins while it is still under way: of two answers to the
 * same question the older one could come last, and stay.
 * @param {() => unknown} work @param {number} ms */
export function debounce(work, ms) {
  let underWay = false,
    again = false;
  /** @type {number | null} */
  let timer = null;
  const begin = async () => {
    timer = null;
    underWay = true;
    try {
      await work();
    } finally {
      underWay = false;
      if (again) call();
    }
  };
  const call = () => {
    again = underWay;
    if (!underWay) timer ??= setTimeout(begin, ms);
  };
  call.cancel = () => {
    clearTimeout(timer ?? undefined);
    timer = null;
    again = false;
  };
  return call;
}

/** A part of the page. What it listens to ends when it is taken out. */
export class Part extends HTMLElement {
  ends = new AbortController();

  connectedCallback() {
    this.ends = new AbortController();
    this.open();
  }

  disconnectedCallback() {
    this.ends.abort();
    this.close();
  }

  /** It is in the document now. */
  open() {}

  /** It is not any more. */
  close() {}

  /** @template {keyof Page.WireEvents} Name
   * @overload @param {Page.Wire} target @param {Name} name @param {(event: CustomEvent<Page.WireEvents[Name]>) => void} listener
   * @returns {void} */
  /** @template {keyof Page.Named} Name
   * @overload @param {EventTarget} target @param {Name} name @param {(event: Page.Named[Name]) => void} listener
   * @param {AddEventListenerOptions} [options] @returns {void} */
  /** @param {EventTarget} target @param {string} name @param {(event: any) => void} listener @param {AddEventListenerOptions} [options] */
  hear(target, name, listener, options) {
    target.addEventListener(name, listener, { ...options, signal: this.ends.signal });
  }

  /** Does the work again and again, until this is taken out.
   * @param {number} ms @param {() => void} work */
  repeat(ms, work) {
    const timer = setInterval(work, ms);
    this.ends.signal.addEventListener("abort", () => clearInterval(timer));
  }
}
