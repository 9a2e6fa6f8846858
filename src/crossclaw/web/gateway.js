// @ts-check
// The gateway as this page knows it: agents, newest sessions, what is unread; the Markdown queue and notices.
import { debounce, fixed, h, isBad, learnAgents, learnNames, setSanitised, whyOf } from "./dom.js";
import { wire } from "./wire.js";

const RECENT = 60;
const WORDS_CHARS = 120; // of the last words of a conversation: more than a line of the list shows
const LAST = 8; // messages looked at for words: calls and their results have none
const SILENT = /^\s*(REPLY_SKIP|ANNOUNCE_SKIP|NO_REPLY|HEARTBEAT_OK)\s*$/;
const REPORT = /^Status: \w+\s+Result: ([\s\S]*?)\s*(\nNotes:[\s\S]*)?$/; // of a child: its result is what was said
const SEEN = "crossclaw.seen";
const SEEN_MAX = 500;
const ATTEND_MS = 20_000;

const store = {
  /** @template Value @param {string} name @param {Value} otherwise @returns {Value} */
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(name) ?? "null") ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  /** @param {string} name @param {unknown} value */
  set(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      /* a full or forbidden store: drafts and marks last as long as the page */
    }
  },
};
export { store };

/** @typedef {Api.TableRow & {budget?: Api.BudgetRow}} Known a session as it is shown alone */

/** Tells `recent` when the newest sessions changed and `open` when the page may ask. */
class GatewayState extends EventTarget {
  /** @type {Api.AgentRow[]} */ agents = [];
  /** @type {Api.TableRow[]} */ recent = [];
  /** @type {Api.AttentionResult | null} */ attention = null;
  mainKey = "agent:main:main";
  /** @type {Api.HelloOk | null} */ hello = null;
  helloAt = 0;
  /** @type {Map<string, {at: number, text?: string} | undefined>} by key: its last words, and of when they are */
  #words = new Map();
  /** @type {Promise<boolean> | null} */ #rehearses = null;
  /** @type {{since: number, [key: string]: number} | null} */ #seen = store.get(SEEN, null);

  constructor() {
    super();
    wire.on("open", (hello) => this.#opened(hello));
    wire.addEventListener("sessions.changed", () => this.refreshSoon());
    this.refreshSoon = debounce(() => this.refresh().catch(() => {}), 250);
    const attend = debounce(() => this.refreshAttention(), 1500);
    for (const name of ["sessions.changed", "device.pair.requested", "device.pair.resolved", "exec.approval.requested", "exec.approval.resolved", "cron"])
      wire.addEventListener(name, attend);
    setInterval(() => document.hidden || this.refreshAttention(), ATTEND_MS); // a wait gets long in silence
  }

  /** @param {Api.HelloOk} hello */
  async #opened(hello) {
    this.hello = hello;
    this.#rehearses = null;
    this.helloAt = performance.now();
    this.mainKey = hello.snapshot?.sessionDefaults?.mainSessionKey || this.mainKey;
    this.#seen ??= { since: Date.now() };
    try {
      this.agents = (await wire.call("agents.list")).agents || [];
      learnAgents(this.agents);
      await this.refresh();
    } catch {
      return;
    } // the line went: the next `open` does it again
    this.dispatchEvent(new Event("open"));
    this.refreshAttention();
  }

  /** What needs a person: the count in the rail, the rows in their view. */
  async refreshAttention() {
    if (!wire.ready || !wire.offers("attention.list")) return;
    try {
      this.attention = await wire.call("attention.list", {});
      this.dispatchEvent(new Event("attention"));
    } catch {
      /* the line went: the next look tells */
    }
  }

  async refresh() {
    if (!wire.ready) return;
    this.recent = (await wire.call("sessions.table", { limit: RECENT })).rows;
    learnNames(this.recent);
    this.dispatchEvent(new Event("recent"));
    this.#listen().catch(() => {}); // the line went: the next look hears it
  }

  /** The last words of what changed and is at rest; while somebody works, that is told instead. */
  async #listen() {
    const news = this.recent.filter((row) => !row.lane && this.#words.get(row.key)?.at !== row.updatedAt);
    if (!news.length || !wire.offers("sessions.preview")) return;
    const keys = news.map((row) => row.key);
    const { previews } = await wire.call("sessions.preview", { keys, limit: LAST, maxChars: WORDS_CHARS });
    const here = new Map(this.recent.map((row) => [row.key, this.#words.get(row.key)]));
    previews.forEach(({ items }, i) => here.set(keys[i], { at: news[i].updatedAt, text: lastWords(items) }));
    this.#words = here; // of those in the list, and no others
    this.dispatchEvent(new Event("recent"));
  }

  /** @param {string} key */
  lastWords(key) {
    return this.#words.get(key)?.text;
  }

  /** Whether no real model is set up; asked once a connection, and only where somebody is new. */
  rehearses() {
    this.#rehearses ??= wire.call("status").then((status) => Boolean(status.rehearsal));
    return this.#rehearses;
  }

  /** @param {string} key */
  row(key) {
    return this.recent.find((row) => row.key === key);
  }

  /** A session however old, archived ones too, with its budget where it has one; null when it was never begun.
   * @param {string} key @returns {Promise<Known | null>} */
  async find(key) {
    const [{ rows }, { session }] = await Promise.all([
      wire.call("sessions.table", { key }),
      wire.call("sessions.describe", { key }),
    ]);
    learnNames(rows);
    return rows.length ? { ...rows[0], budget: session?.budget } : null;
  }

  // A session is unread when something happened in it since it was last looked at, also while this page
  // was away: times are compared, not counted.
  /** @param {Pick<Api.TableRow, "key" | "updatedAt" | "lane"> & {standing?: Api.State}} row */
  unread(row) {
    const words = this.#words.get(row.key);
    if (row.lane || (words && !words.text && !isBad(row.standing))) return false; // nothing was said in it
    return row.updatedAt > (this.#seen?.[row.key] ?? this.#seen?.since ?? Infinity);
  }

  /** @param {string} key */
  look(key) {
    if (!this.#seen || document.hidden) return;
    const { since, ...seen } = this.#seen;
    seen[key] = Date.now();
    const newest = Object.entries(seen)
      .sort((a, b) => b[1] - a[1])
      .slice(0, SEEN_MAX);
    this.#seen = { since, ...Object.fromEntries(newest) };
    store.set(SEEN, this.#seen);
    this.dispatchEvent(new Event("recent"));
  }
}

/** What was said last, without the marks of Markdown: a list has no room for them. What the gateway asks for and
 * is answered with silence is not said.
 * @param {Api.Preview["items"]} items */
function lastWords(items) {
  const spoken = items.filter(({ role, text }) => role !== "tool" && text.trim());
  const answer = spoken.findLast(({ role, text }) => role === "assistant" && !SILENT.test(text));
  const said = spoken.at(-1)?.role === "user" ? spoken.at(-1) : answer;
  return said?.text
    .replace(REPORT, "$1")
    .replace(/^\s*(#{1,6}|>|[-*+]|```\w*)(\s|$)/gm, "")
    .replace(/\*\*|__|`+|~~/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

export const gateway = new GatewayState();

// ── Markdown: rendered and sanitised by the gateway, many at once ───────────────────────────

const BATCH_CHARS = 100_000; // of one call; the gateway takes a little more
const BATCH = 100;
/** @typedef {HTMLElement & {said?: string, rendered?: boolean}} Words an element, and the text that it shows */
/** @type {Map<Words, string>} */
let queue = new Map();

/** Shows the text at once and, where the gateway renders, replaces it by its Markdown.
 * @param {Words} element @param {string} text */
export function showWords(element, text) {
  if (element.said === text) return;
  element.said = text;
  if (!element.rendered) {
    element.classList.add("plain");
    element.textContent = text;
  }
  if (!wire.offers("display.render") || !text.trim()) return;
  if (!queue.size) setTimeout(renderQueue, 30);
  queue.set(element, text);
}

/** To the clipboard, and says so on the button.
 * @param {HTMLElement} button @param {string} text */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  } catch {
    complain(new Error("The browser lets no page copy here; select the text instead."));
  }
}

async function renderQueue() {
  const waiting = [...queue];
  queue = new Map();
  while (waiting.length) {
    /** @type {[Words, string][]} */
    const batch = [];
    let room = BATCH_CHARS;
    for (const each of waiting) {
      if (batch.length && (batch.length >= BATCH || room < each[1].length)) break;
      room -= each[1].length;
      batch.push(each);
    }
    waiting.splice(0, batch.length);
    try {
      const answer = await wire.call("display.render", {
        items: batch.map(([, markdown], id) => ({ id: String(id), markdown })),
      });
      for (const { id, html } of answer.items) {
        const [element, asked] = batch[Number(id)];
        if (element.said !== asked) continue;
        element.classList.remove("plain");
        element.rendered = true;
        setSanitised(element, html);
        for (const block of element.querySelectorAll("pre > code")) {
          const text = block.textContent;
          block.parentElement?.append(
            h("button", { type: "button", cls: "copy", onclick: (event) => copy(event.currentTarget, text) }, "Copy"),
          );
        }
      }
    } catch {
      /* plain text stays, which is readable */
    }
  }
}

// ── notices ─────────────────────────────────────────────────────────────────────────────────

const NOTICES_MAX = 4; // more would cover the rail: the oldest ends as if its time were over

/** A short notice; with `undo` it waits `ms` before `done` is called, and Undo prevents that. The time stands
 * still while somebody is at it.
 * @param {string} text
 * @param {{ bad?: boolean, ms?: number, undo?: () => void, done?: () => void }} [how] */
export function notice(text, { bad = false, ms = 5000, undo, done } = {}) {
  const box = fixed("toasts");
  if (bad) [...box.children].find((each) => each.textContent === text)?.remove(); // once is enough
  let timer = 0;
  const hold = () => clearTimeout(timer);
  const run = () => {
    hold();
    timer = setTimeout(end, ms);
  };
  const end = () => {
    leave();
    done?.();
  };
  const leave = () => {
    hold();
    if (toast.contains(document.activeElement)) fixed("view").focus({ preventScroll: true });
    toast.remove();
  };
  const back = () => {
    leave();
    undo?.();
  };
  const toast = h(
    "div",
    {
      cls: `toast${bad ? " bad" : ""}`,
      role: bad ? "alert" : null,
      onpointerenter: hold,
      onpointerleave: run,
      onfocusin: hold,
      onfocusout: run,
    },
    h("span", null, text),
    undo && h("button", { type: "button", onclick: back }, "Undo"),
  );
  const links = document.querySelector(".rail ul")?.getBoundingClientRect();
  if (links) box.style.setProperty("--links-end", `${Math.ceil(links.bottom)}px`); // notices stand below them, however many there are
  box.append(toast);
  run();
  toast.addEventListener("crowded", end);
  while (box.children.length > NOTICES_MAX) box.firstElementChild?.dispatchEvent(new Event("crowded"));
}

/** @param {unknown} error */
export const complain = (error) => notice(whyOf(error) || String(error), { bad: true, ms: 8000 });

/** The work of a button that was pressed: it is done once, and only what failed can be pressed again.
 * @param {HTMLButtonElement} button @param {() => Promise<unknown>} work */
export async function press(button, work) {
  button.disabled = true;
  try {
    await work();
  } catch (error) {
    complain(error);
    button.disabled = false;
  }
}
