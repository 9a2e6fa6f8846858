// The house as this page knows it: agents, newest sessions, what is unread; the Markdown queue and notices.
import { debounce, h, learnAgents, learnNames, setSanitised } from "./dom.js";
import { wire } from "./wire.js";

const RECENT = 60;
const SEEN = "crossclaw.seen";
const SEEN_MAX = 500;

const store = {
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, JSON.stringify(value));
    } catch {
      /* a full or forbidden store: drafts and marks last as long as the page */
    }
  },
};
export { store };

/** Tells `recent` when the newest sessions changed and `open` when the page may ask. */
class House extends EventTarget {
  agents = [];
  recent = [];
  mainKey = "agent:main:main";
  hello = null;
  #seen = store.get(SEEN, null);

  constructor() {
    super();
    wire.addEventListener("open", ({ detail }) => this.#opened(detail));
    wire.addEventListener("sessions.changed", () => this.refreshSoon());
    this.refreshSoon = debounce(() => this.refresh().catch(() => {}), 250);
  }

  async #opened(hello) {
    this.hello = hello;
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
  }

  async refresh() {
    if (!wire.ready) return;
    this.recent = (await wire.call("sessions.table", { limit: RECENT })).rows;
    learnNames(this.recent);
    this.dispatchEvent(new Event("recent"));
  }

  row(key) {
    return this.recent.find((row) => row.key === key);
  }

  /** A session however old, archived ones too, with its budget where it has one; null when it was never begun. */
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
  unread(row) {
    if (row.lane) return false;
    return row.updatedAt > (this.#seen?.[row.key] ?? this.#seen?.since ?? Infinity);
  }

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

export const house = new House();

// ── Markdown: rendered and sanitised by the gateway, many at once ───────────────────────────

const BATCH_CHARS = 100_000; // of one call; the gateway takes a little more
const BATCH = 100;
let queue = [];

/** Shows the text at once and, where the gateway renders, replaces it by its Markdown. */
export function showWords(element, text) {
  if (element.said === text) return;
  element.said = text;
  if (!element.rendered) {
    element.classList.add("plain");
    element.textContent = text;
  }
  if (!wire.offers("display.render") || !text.trim()) return;
  if (!queue.length) setTimeout(renderQueue, 30);
  queue.push(element);
}

async function renderQueue() {
  const waiting = [...new Set(queue)];
  queue = [];
  while (waiting.length) {
    const batch = [];
    let room = BATCH_CHARS;
    do {
      room -= waiting[0].said.length;
      batch.push(waiting.shift());
    } while (waiting.length && batch.length < BATCH && room >= waiting[0].said.length);
    const asked = batch.map((element) => element.said);
    try {
      const answer = await wire.call("display.render", {
        items: asked.map((markdown, id) => ({ id: String(id), markdown })),
      });
      for (const { id, html } of answer.items) {
        const element = batch[id];
        if (element.said !== asked[id]) continue;
        element.classList.remove("plain");
        element.rendered = true;
        setSanitised(element, html);
      }
    } catch {
      /* plain text stays, which is readable */
    }
  }
}

// ── notices ─────────────────────────────────────────────────────────────────────────────────

const NOTICES_MAX = 4;

/** A short notice; with `undo` it waits `ms` before `done` is called, and Undo prevents that. */
export function notice(text, { bad = false, ms = 5000, undo, done } = {}) {
  const box = document.getElementById("toasts");
  if (bad) [...box.children].find((each) => each.textContent === text)?.remove(); // once is enough
  const end = () => {
    clearTimeout(timer);
    toast.remove();
  };
  const toast = h(
    "div",
    { cls: `toast${bad ? " bad" : ""}`, role: bad ? "alert" : null },
    h("span", null, text),
    undo &&
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            end();
            undo();
          },
        },
        "Undo",
      ),
  );
  const timer = setTimeout(() => {
    toast.remove();
    done?.();
  }, ms);
  box.append(toast);
  while (box.children.length > NOTICES_MAX && !box.firstChild.querySelector("button")) box.firstChild.remove();
}

export const complain = (error) => notice(error?.message || String(error), { bad: true, ms: 8000 });
