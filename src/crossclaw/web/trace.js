// @ts-check
// The trace: all that followed from one message, tick or hook, as one waterfall. Only the rows in sight are in the
// document, so that ten thousand spans scroll as ten do.
import {
  Part,
  agentName,
  agentOf,
  authorOf,
  beginning,
  cost,
  count,
  debounce,
  empty,
  exactTime,
  fill,
  h,
  isBad,
  lasted,
  nameOfKey,
  oneLine,
  plural,
  stateMark,
  stateOf,
  to,
  tokens,
} from "./dom.js";
import { choice, select } from "./controls.js";
import { figures } from "./causes.js";
import { findNamed } from "./finding.js";
import { copy, save } from "./keeping.js";
import { complain, gateway } from "./gateway.js";
import { wire } from "./wire.js";

const ROW = 30; // pixels, as in the style sheet
const MARGIN = 12; // rows drawn beyond those in sight
const TICKS = [1, 2, 5];

/** @typedef {Partial<Omit<Api.TraceSpan, "kind">> & Pick<Api.TraceSpan, "id" | "key" | "name" | "start"> &
 * {kind: Api.TraceSpan["kind"] | "lane", parts?: Api.TraceSpan[]}} Row a span, or a participant with its runs as parts */

class Trace extends Part {
  /** @type {string | null} */ name = null;
  /** @type {Api.TraceTree | null} */ tree = null;
  /** @type {Set<string>} */ folded = new Set();
  /** @type {string | null} */ chosen = null; // the id of a span
  /** @type {Row[]} */ rows = [];
  whole = 1; // milliseconds

  words = h("input", {
    type: "search",
    placeholder: "Find in the trace",
    "aria-label": "Find in the trace",
    oninput: debounce(() => this.choose(), 150),
  });
  outcome = select(
    "Outcome",
    [
      ["", "All outcomes"],
      ["bad", "Failed"],
      ["open", "Under way"],
      ["critical", "Critical path"],
    ],
    () => this.choose(),
  );
  agent = select("Agent", [["", "All agents"]], () => this.choose());
  least = select(
    "At least",
    [
      ["", "Any length, any cost"],
      ["1000", "1 s and more"],
      ["10000", "10 s and more"],
      ["60000", "1 min and more"],
      ["$0.01", "$0.01 and more"],
      ["$0.1", "$0.10 and more"],
    ],
    () => this.choose(),
  );
  mode = choice(
    "Shown as",
    [
      ["tree", "Tree"],
      ["lanes", "Lanes"],
    ],
    "tree",
    () => this.choose(),
  );
  found = h("p", { cls: "total", role: "status" });
  filters = h("div", { cls: "bar" }, this.words, this.outcome, this.agent, this.least, this.mode, this.found, h("p", { cls: "hint outlined" }, "outlined: the critical path"));
  head = h("header", { cls: "tracehead" });
  axis = h("div", { cls: "axis", "aria-hidden": "true" });
  body = h("div", { cls: "spans", role: "rowgroup" });
  grid = h(
    "div",
    { cls: "waterfall", role: "treegrid", "aria-label": "Spans", tabindex: "0", onscroll: () => this.draw() },
    this.axis,
    this.body,
  );
  more = h("aside", { cls: "spanmore", hidden: true, "aria-label": "The chosen span" });
  soon = debounce(() => this.read(), 700);
  sized = new ResizeObserver(() => this.draw());

  open() {
    fill(this, this.head, this.filters, this.grid, this.more);
    this.hear(gateway, "open", () => this.read());
    const whileOpen = () => this.tree && !this.tree.end && this.soon();
    this.hear(wire, "agent", whileOpen);
    this.hear(wire, "chat", whileOpen);
    this.hear(wire, "sessions.changed", whileOpen);
    this.repeat(5000, whileOpen);
    this.hear(this.grid, "keydown", (event) => this.key(event));
    this.sized.observe(this.grid);
  }

  close() {
    this.sized.disconnect();
  }

  /** @param {string | null} id @param {URLSearchParams} query */
  go(id, query) {
    const span = query.get("span");
    if (id === this.name) {
      if (span !== this.chosen) this.pick(span, false);
      return;
    }
    this.name = id;
    this.tree = null;
    this.chosen = span;
    this.folded.clear();
    fill(this.head);
    fill(this.body);
    this.read();
  }

  read() {
    return findNamed(this, {
      ask: (id) => wire.call("trace.get", { id }),
      draw: (tree) => this.show(tree),
      refuse: (why) => {
        this.tree = null;
        fill(this.head, h("h2", null, "Trace"));
        fill(this.body, why);
      },
    });
  }

  /** @param {Api.TraceTree} tree */
  show(tree) {
    const first = !this.tree;
    this.tree = tree;
    this.showHead(tree);
    this.choose();
    if (first && this.chosen) this.pick(this.chosen, true);
  }

  // ── what began it, and all of it in figures ───────────────────────────────────────────────

  /** @param {Api.TraceTree} tree */
  showHead(tree) {
    const root = tree.spans[0];
    const who = tree.origin ? authorOf(tree.origin) : beginning(tree.kind);
    const models = tree.spans.filter((span) => span.kind === "model").length;
    fill(
      this.head,
      h(
        "div",
        { cls: "title" },
        h("h2", null, `${who} → ${nameOfKey(tree.key)}`),
        root && stateMark(tree.end ? root.standing : root.standing || { name: "running" }, true),
        h("a", { cls: "button", href: to.chat(tree.key) }, "Chat"),
        h("button", { type: "button", onclick: () => copy(location.href) }, "Copy link"),
        h("button", { type: "button", onclick: () => save(tree, `trace-${tree.root}`) }, "Export JSON"),
        h("button", { type: "button", onclick: () => this.exportOtlp(tree.root) }, "OpenTelemetry"),
      ),
      h("p", { cls: "asked" }, tree.asked ? `“${tree.asked}”` : "nothing was said"),
      figures([
        ["Took", tree.end ? lasted(tree.end - tree.start) : `${lasted(tree.ts - tree.start)} so far`],
        ["Began", exactTime(tree.start)],
        ["Runs", count(tree.runs || 0)],
        ["Failed", h("span", { cls: tree.failed ? "problem" : null }, count(tree.failed || 0))],
        ["Model calls", count(models)],
        ["Tokens", count(tree.spans.reduce((sum, s) => sum + (s.tokensIn || 0) + (s.tokensOut || 0), 0))],
        ["Cost", cost(tree.spans.reduce((sum, s) => sum + (s.costUsd || 0), 0))],
      ]),
      tree.truncated && h("p", { cls: "warn" }, "There is more of it than is shown."),
    );
    const agents = [...new Set(tree.spans.filter((s) => s.kind !== "delivery").map((s) => agentOf(s.key)))];
    const value = this.agent.value;
    fill(this.agent, ...[["", "All agents"], ...agents.map((id) => [id, agentName(id)])].map(([id, text]) => h("option", { value: id }, text)));
    this.agent.value = agents.includes(value) ? value : "";
  }

  /** @param {string} root */
  async exportOtlp(root) {
    try {
      save(await wire.call("trace.export", { id: this.name || root }), `otlp-${root}`);
    } catch (error) {
      complain(error);
    }
  }

  // ── which rows ────────────────────────────────────────────────────────────────────────────

  get filtered() {
    return Boolean(this.words.value.trim() || this.outcome.value || this.agent.value || this.least.value);
  }

  /** @param {Api.TraceSpan} span @param {number} now */
  fits(span, now) {
    const words = this.words.value.trim().toLowerCase();
    if (words && !`${span.name} ${span.text || ""} ${span.key} ${span.standing?.why || ""}`.toLowerCase().includes(words)) return false;
    if (this.agent.value && agentOf(span.key) !== this.agent.value) return false;
    const least = this.least.value;
    if (least.startsWith("$") && (span.costUsd || 0) < Number(least.slice(1))) return false;
    if (least && !least.startsWith("$") && (span.end || now) - span.start < Number(least)) return false;
    if (this.outcome.value === "bad") return isBad(span.standing) || span.standing?.name === "stopped";
    if (this.outcome.value === "open") return !span.end;
    if (this.outcome.value === "critical") return Boolean(span.critical);
    return true;
  }

  choose() {
    if (!this.tree) return;
    const { spans, ts } = this.tree;
    if (this.mode.value === "lanes") this.rows = this.lanes(this.tree);
    else if (this.filtered) this.rows = spans.filter((span) => this.fits(span, ts));
    else this.rows = this.unfolded(spans);
    this.found.textContent = plural(this.rows.length, this.mode.value === "lanes" ? "participant" : "span");
    this.draw();
  }

  /** @param {Api.TraceSpan[]} spans */
  unfolded(spans) {
    const rows = [];
    for (let i = 0; i < spans.length; i++) {
      rows.push(spans[i]);
      if (this.folded.has(spans[i].id)) i += spans[i].below || 0;
    }
    return rows;
  }

  /** Each participant a row, with the runs that it had.
   * @param {Api.TraceTree} tree @returns {Row[]} */
  lanes({ spans, ts }) {
    /** @type {Map<string, Api.TraceSpan[]>} */
    const runs = new Map();
    for (const span of spans) {
      if (span.kind !== "run" || !this.fits(span, ts)) continue;
      const before = runs.get(span.key);
      if (before) before.push(span);
      else runs.set(span.key, [span]);
    }
    return [...runs].map(([key, parts]) => ({ id: `lane:${key}`, kind: "lane", key, name: nameOfKey(key), parts, start: parts[0].start }));
  }

  // ── rows in sight ─────────────────────────────────────────────────────────────────────────

  draw() {
    if (!this.tree) return;
    const { tree } = this;
    this.whole = Math.max(1, (tree.end || tree.ts) - tree.start);
    this.drawAxis();
    this.grid.setAttribute("aria-rowcount", String(this.rows.length));
    this.body.style.height = `${this.rows.length * ROW}px`;
    const top = this.grid.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
    const last = Math.min(this.rows.length, Math.ceil((top + this.grid.clientHeight) / ROW) + MARGIN);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(this.rows[i], i, tree));
    fill(this.body, ...rows);
    if (!this.rows.length) this.body.append(empty("No span matches", "Fewer conditions show more."));
  }

  drawAxis() {
    const rough = this.whole / 5;
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = size * (TICKS.find((n) => n * size >= rough) || 10);
    const marks = [];
    for (let at = 0; at <= this.whole * 0.86; at += step) marks.push(at);
    fill(
      this.axis,
      ...marks.map((at) => {
        const mark = h("span", null, at ? roundTime(at) : "0");
        mark.style.left = `${(100 * at) / this.whole}%`;
        return mark;
      }),
      ["tokens", "cost", this.mode.value === "lanes" ? "runs" : "took"].map((name) => h("b", null, name)),
    );
  }

  /** @param {Row} span @param {number} index @param {Api.TraceTree} tree */
  row(span, index, tree) {
    const element = h("div", {
      cls: `span${span.critical ? " critical" : ""}`,
      role: "row",
      "aria-rowindex": index + 1,
      "aria-level": (span.depth || 0) + 1,
      "aria-selected": String(span.id === this.chosen),
      "aria-expanded": span.below ? String(!this.folded.has(span.id)) : null,
      data: { kind: span.kind, id: span.id },
      onclick: () => this.pick(span.id, false),
    });
    element.style.top = `${index * ROW}px`;
    element.append(this.name_(span), this.bar(span, tree), ...this.amounts(span, tree));
    return element;
  }

  /** @param {Row} span */
  name_(span) {
    const cell = h("div", { cls: "n", role: "rowheader" });
    cell.style.paddingLeft = `${8 + Math.min(span.depth || 0, 12) * (this.filtered ? 0 : 14)}px`;
    // For the pointer; the keys fold the chosen row, whose aria-expanded says how it is.
    const fold = h("i", { cls: "fold", "aria-hidden": "true" }, span.below ? (this.folded.has(span.id) ? "▸" : "▾") : "");
    if (span.below)
      fold.addEventListener("click", (event) => {
        event.stopPropagation();
        this.fold(span.id);
      });
    const bad = isBad(span.standing);
    cell.append(
      fold,
      h("b", null, titleOf(span)),
      h("span", { cls: bad ? "problem" : null }, bad ? oneLine(span.standing?.why || span.standing?.name, 120) : oneLine(span.text || "", 120)),
    );
    return cell;
  }

  /** @param {Row} span @param {Api.TraceTree} tree */
  bar(span, tree) {
    /** @type {Row[]} */
    const parts = span.parts || [span];
    return h("div", { cls: "t", role: "gridcell" }, parts.map((part) => this.piece(part, tree)));
  }

  /** @param {Row} span @param {Api.TraceTree} tree */
  piece(span, tree) {
    const { whole } = this;
    const end = span.end || tree.ts;
    const bar = h("i", {
      cls: span.critical ? "critical" : null,
      data: { kind: span.kind, state: stateOf(span.standing).name },
      title: `${span.name}: ${lasted(end - span.start)}`,
    });
    bar.style.left = `${Math.min(99.6, (100 * (span.start - tree.start)) / whole)}%`;
    bar.style.width = `${Math.max(0.3, (100 * (end - span.start)) / whole)}%`;
    if (span.began && span.began > span.start) bar.style.setProperty("--queued", `${(100 * (span.began - span.start)) / Math.max(1, end - span.start)}%`);
    return bar;
  }

  /** @param {Row} span @param {Api.TraceTree} tree */
  amounts(span, tree) {
    const spent = span.parts ? span.parts.reduce((sum, each) => sum + ownTokens(each, tree), 0) : span.tokensBelow || 0;
    const usd = span.parts ? 0 : span.costBelow || 0;
    const took = span.parts ? plural(span.parts.length, "run") : span.end ? lasted(span.end - span.start) : "under way";
    return [
      h("div", { cls: "q", role: "gridcell" }, spent ? tokens(spent) : ""),
      h("div", { cls: "q", role: "gridcell" }, usd ? cost(usd) : ""),
      h("div", { cls: "q", role: "gridcell" }, took),
    ];
  }


  // ── hands ─────────────────────────────────────────────────────────────────────────────────

  /** @param {string} id */
  fold(id) {
    if (!this.folded.delete(id)) this.folded.add(id);
    this.choose();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const at = this.rows.findIndex((span) => span.id === this.chosen);
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 2);
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length };
    const span = this.rows[at];
    if (event.key in moves) this.pick(this.rows[Math.max(0, Math.min(this.rows.length - 1, at + moves[event.key]))]?.id, true);
    else if (event.key === "ArrowLeft" && span?.below && !this.folded.has(span.id)) this.fold(span.id);
    else if (event.key === "ArrowLeft" && span?.parent) this.pick(span.parent, true);
    else if (event.key === "ArrowRight" && span && this.folded.has(span.id)) this.fold(span.id);
    else if (event.key === "Enter" && span?.runId) location.hash = to.run(span.runId);
    else if (event.key === "Escape") this.pick(null, false);
    else if (event.key === "/") this.words.focus();
    else return;
    event.preventDefault();
  }

  /** @param {string | null | undefined} id @param {boolean} scroll */
  pick(id, scroll) {
    const { tree } = this;
    this.chosen = id || null;
    history.replaceState(null, "", `#/trace/${encodeURIComponent(this.name ?? "")}${id ? `?span=${encodeURIComponent(id)}` : ""}`);
    const at = this.rows.findIndex((span) => span.id === id);
    if (scroll && at >= 0) {
      const room = this.grid.clientHeight - 40;
      if (at * ROW < this.grid.scrollTop) this.grid.scrollTop = at * ROW;
      else if (at * ROW > this.grid.scrollTop + room - ROW) this.grid.scrollTop = at * ROW - room + ROW;
    }
    this.draw();
    const span = tree?.spans.find((each) => each.id === id);
    this.more.hidden = !span;
    if (tree && span) this.showMore(span, tree);
  }

  /** @param {Api.TraceSpan} span @param {Api.TraceTree} tree */
  showMore(span, tree) {
    /** @type {([string, Page.Child] | false | 0 | "" | undefined)[]} */
    const facts = [
      ["Session", span.kind === "delivery" ? span.key : h("a", { href: to.chat(span.key) }, nameOfKey(span.key))],
      ["State", stateMark(span.standing, true)],
      ["From", `${exactTime(span.start)}, ${lasted(span.start - tree.start)} after the beginning`],
      ["Took", span.end ? lasted(span.end - span.start) : "under way"],
      span.began && span.began > span.start && ["Queued for", lasted(span.began - span.start)],
      span.model && ["Model", span.model],
      Boolean(span.tokensIn || span.tokensOut) && ["Tokens", `${count(span.tokensIn || 0)} in, ${count(span.tokensOut || 0)} out`],
      span.below && ["Below it", `${plural(span.below, "span")}, ${count(span.tokensBelow || 0)} tokens${span.costBelow ? `, ${cost(span.costBelow)}` : ""}`],
      span.critical && ["Critical path", "had this been faster, so had the whole"],
      explained(span) && ["What it is", explained(span)],
    ];
    fill(
      this.more,
      h("h3", null, titleOf(span)),
      h("dl", { cls: "facts" }, facts.map((each) => (each ? [h("dt", null, each[0]), h("dd", null, each[1])] : null))),
      span.text && h("pre", null, span.text),
      span.runId && h("p", null, h("a", { cls: "button", href: to.run(span.runId) }, "The whole run")),
    );
  }
}

/** The tokens of a run's own model calls.
 * @param {Api.TraceSpan} run @param {Api.TraceTree} tree */
const ownTokens = (run, tree) =>
  tree.spans.reduce((sum, s) => sum + (s.kind === "model" && s.runId === run.runId ? (s.tokensIn || 0) + (s.tokensOut || 0) : 0), 0);

/** Of a run who has it, of a wait for whom; the name by which it was asked for may be an agent's id or a key.
 * @param {Row} span */
function titleOf(span) {
  if (span.kind === "run") return `${nameOfKey(span.key)} · ${span.name}`;
  if (span.kind !== "wait") return span.name;
  return span.name.replace(/^waits for (.+)$/, (_, who) => `waits for ${who.startsWith("agent:") ? nameOfKey(who) : agentName(who)}`);
}

/** A round time, without the zeros that only a measured one needs.
 * @param {number} ms */
const roundTime = (ms) => lasted(ms).replace(/\.0(?= s$)| 0 s$/, "");

/** @param {Api.TraceSpan} span */
const explained = (span) => WORDS_OF[span.kind === "run" ? span.name.split(" ")[0] : span.kind];

/** @type {Record<string, string>} */
const WORDS_OF = {
  round: "after a reply, requester and target speak in turn until one says REPLY_SKIP",
  announce: "when all is said, the session is asked what its own chat should hear; ANNOUNCE_SKIP is silence",
  send: "another session asked this one",
  spawn: "a task that another session gave to a sub-agent",
  wait: "the requester waits here for the reply",
  report: "what a child tells its parent when it is done",
  delivery: "words on their way to a chat",
};

customElements.define("cc-trace", Trace);
