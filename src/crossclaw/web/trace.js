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

class Trace extends Part {
  tree = null;
  folded = new Set();
  chosen = null; // the id of a span
  rows = [];

  open() {
    this.head = h("header", { cls: "tracehead" });
    this.makeFilters();
    this.axis = h("div", { cls: "axis", "aria-hidden": "true" });
    this.body = h("div", { cls: "spans", role: "rowgroup" });
    this.grid = h(
      "div",
      { cls: "waterfall", role: "treegrid", "aria-label": "Spans", tabindex: "0", onscroll: () => this.draw() },
      this.axis,
      this.body,
    );
    this.more = h("aside", { cls: "spanmore", hidden: true, "aria-label": "The chosen span" });
    fill(this, this.head, this.filters, this.grid, this.more);
    this.soon = debounce(() => this.read(), 700);
    this.hear(gateway, "open", () => this.read());
    const whileOpen = () => this.tree && !this.tree.end && this.soon();
    for (const name of ["agent", "chat", "sessions.changed"]) this.hear(wire, name, whileOpen);
    this.repeat(5000, whileOpen);
    this.hear(this.grid, "keydown", (event) => this.key(event));
    this.sized = new ResizeObserver(() => this.draw());
    this.sized.observe(this.grid);
  }

  close() {
    this.sized.disconnect();
  }

  makeFilters() {
    const again = () => this.choose();
    this.words = h("input", {
      type: "search",
      placeholder: "Find in the trace",
      "aria-label": "Find in the trace",
      oninput: debounce(again, 150),
    });
    this.outcome = select(
      "Outcome",
      [
        ["", "All outcomes"],
        ["bad", "Failed"],
        ["open", "Under way"],
        ["critical", "Critical path"],
      ],
      again,
    );
    this.agent = select("Agent", [["", "All agents"]], again);
    this.least = select(
      "At least",
      [
        ["", "Any length, any cost"],
        ["1000", "1 s and more"],
        ["10000", "10 s and more"],
        ["60000", "1 min and more"],
        ["$0.01", "$0.01 and more"],
        ["$0.1", "$0.10 and more"],
      ],
      again,
    );
    this.mode = choice(
      "Shown as",
      [
        ["tree", "Tree"],
        ["lanes", "Lanes"],
      ],
      "tree",
      again,
    );
    this.found = h("p", { cls: "total", role: "status" });
    this.filters = h("div", { cls: "bar" }, this.words, this.outcome, this.agent, this.least, this.mode, this.found, h("p", { cls: "hint outlined" }, "outlined: the critical path"));
  }

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

  show(tree) {
    const first = !this.tree;
    this.tree = tree;
    this.showHead();
    this.choose();
    if (first && this.chosen) this.pick(this.chosen, true);
  }

  // ── what began it, and all of it in figures ───────────────────────────────────────────────

  showHead() {
    const { tree } = this;
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
        h("button", { type: "button", onclick: () => this.exportOtlp() }, "OpenTelemetry"),
      ),
      h("p", { cls: "asked" }, tree.asked ? `“${tree.asked}”` : "nothing was said"),
      figures([
        ["Took", tree.end ? lasted(tree.end - tree.start) : `${lasted(tree.ts - tree.start)} so far`],
        ["Began", exactTime(tree.start)],
        ["Runs", count(tree.runs)],
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

  async exportOtlp() {
    try {
      save(await wire.call("trace.export", { id: this.name }), `otlp-${this.tree.root}`);
    } catch (error) {
      complain(error);
    }
  }

  // ── which rows ────────────────────────────────────────────────────────────────────────────

  get filtered() {
    return Boolean(this.words.value.trim() || this.outcome.value || this.agent.value || this.least.value);
  }

  fits(span) {
    const words = this.words.value.trim().toLowerCase();
    if (words && !`${span.name} ${span.text || ""} ${span.key} ${span.standing?.why || ""}`.toLowerCase().includes(words)) return false;
    if (this.agent.value && agentOf(span.key) !== this.agent.value) return false;
    const least = this.least.value;
    if (least.startsWith("$") && (span.costUsd || 0) < Number(least.slice(1))) return false;
    if (least && !least.startsWith("$") && (span.end || this.tree.ts) - span.start < Number(least)) return false;
    if (this.outcome.value === "bad") return isBad(span.standing) || span.standing?.name === "stopped";
    if (this.outcome.value === "open") return !span.end;
    if (this.outcome.value === "critical") return Boolean(span.critical);
    return true;
  }

  choose() {
    if (!this.tree) return;
    if (this.mode.value === "lanes") this.rows = this.lanes();
    else if (this.filtered) this.rows = this.tree.spans.filter((span) => this.fits(span));
    else this.rows = this.unfolded();
    this.found.textContent = plural(this.rows.length, this.mode.value === "lanes" ? "participant" : "span");
    this.draw();
  }

  unfolded() {
    const rows = [];
    const { spans } = this.tree;
    for (let i = 0; i < spans.length; i++) {
      rows.push(spans[i]);
      if (this.folded.has(spans[i].id)) i += spans[i].below || 0;
    }
    return rows;
  }

  /** Each participant a row, with the runs that it had. */
  lanes() {
    const lanes = new Map();
    for (const span of this.tree.spans) {
      if (span.kind !== "run" || !this.fits(span)) continue;
      const lane = lanes.get(span.key) || { id: `lane:${span.key}`, kind: "lane", key: span.key, name: nameOfKey(span.key), parts: [], start: span.start };
      lane.parts.push(span);
      lanes.set(span.key, lane);
    }
    return [...lanes.values()];
  }

  // ── rows in sight ─────────────────────────────────────────────────────────────────────────

  draw() {
    if (!this.tree) return;
    const { tree } = this;
    this.whole = Math.max(1, (tree.end || tree.ts) - tree.start);
    this.drawAxis();
    this.grid.setAttribute("aria-rowcount", this.rows.length);
    this.body.style.height = `${this.rows.length * ROW}px`;
    const top = this.grid.scrollTop;
    const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
    const last = Math.min(this.rows.length, Math.ceil((top + this.grid.clientHeight) / ROW) + MARGIN);
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(this.rows[i], i));
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

  row(span, index) {
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
    element.append(this.name_(span), this.bar(span), ...this.amounts(span));
    return element;
  }

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
      h("span", { cls: bad ? "problem" : null }, bad ? oneLine(span.standing.why || span.standing.name, 120) : oneLine(span.text || "", 120)),
    );
    return cell;
  }

  bar(span) {
    const parts = span.parts || [span];
    return h("div", { cls: "t", role: "gridcell" }, parts.map((part) => this.piece(part)));
  }

  piece(span) {
    const { tree, whole } = this;
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

  amounts(span) {
    const spent = span.parts ? span.parts.reduce((sum, each) => sum + this.own(each), 0) : span.tokensBelow || 0;
    const usd = span.parts ? 0 : span.costBelow || 0;
    const took = span.parts ? plural(span.parts.length, "run") : span.end ? lasted(span.end - span.start) : "under way";
    return [
      h("div", { cls: "q", role: "gridcell" }, spent ? tokens(spent) : ""),
      h("div", { cls: "q", role: "gridcell" }, usd ? cost(usd) : ""),
      h("div", { cls: "q", role: "gridcell" }, took),
    ];
  }

  /** The tokens of a run's own model calls. */
  own(run) {
    return this.tree.spans.reduce((sum, s) => sum + (s.kind === "model" && s.runId === run.runId ? (s.tokensIn || 0) + (s.tokensOut || 0) : 0), 0);
  }

  // ── hands ─────────────────────────────────────────────────────────────────────────────────

  fold(id) {
    if (!this.folded.delete(id)) this.folded.add(id);
    this.choose();
  }

  key(event) {
    const at = this.rows.findIndex((span) => span.id === this.chosen);
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length };
    const span = this.rows[at];
    if (event.key in moves) this.pick(this.rows[Math.max(0, Math.min(this.rows.length - 1, at + moves[event.key]))]?.id, true);
    else if (event.key === "ArrowLeft" && span?.below && !this.folded.has(span.id)) this.fold(span.id);
    else if (event.key === "ArrowLeft" && span?.parent) this.pick(span.parent, true);
    else if (event.key === "ArrowRight" && this.folded.has(span?.id)) this.fold(span.id);
    else if (event.key === "Enter" && span?.runId) location.hash = to.run(span.runId);
    else if (event.key === "Escape") this.pick(null, false);
    else if (event.key === "/") this.words.focus();
    else return;
    event.preventDefault();
  }

  pick(id, scroll) {
    this.chosen = id || null;
    history.replaceState(null, "", `#/trace/${encodeURIComponent(this.name)}${id ? `?span=${encodeURIComponent(id)}` : ""}`);
    const at = this.rows.findIndex((span) => span.id === id);
    if (scroll && at >= 0) {
      const room = this.grid.clientHeight - 40;
      if (at * ROW < this.grid.scrollTop) this.grid.scrollTop = at * ROW;
      else if (at * ROW > this.grid.scrollTop + room - ROW) this.grid.scrollTop = at * ROW - room + ROW;
    }
    this.draw();
    this.showMore(this.tree?.spans.find((span) => span.id === id));
  }

  showMore(span) {
    this.more.hidden = !span;
    if (!span) return;
    const facts = [
      ["Session", span.kind === "delivery" ? span.key : h("a", { href: to.chat(span.key) }, nameOfKey(span.key))],
      ["State", stateMark(span.standing, true)],
      ["From", `${exactTime(span.start)}, ${lasted(span.start - this.tree.start)} after the beginning`],
      ["Took", span.end ? lasted(span.end - span.start) : "under way"],
      span.began > span.start && ["Queued for", lasted(span.began - span.start)],
      span.model && ["Model", span.model],
      (span.tokensIn || span.tokensOut) && ["Tokens", `${count(span.tokensIn || 0)} in, ${count(span.tokensOut || 0)} out`],
      span.below && ["Below it", `${plural(span.below, "span")}, ${count(span.tokensBelow || 0)} tokens${span.costBelow ? `, ${cost(span.costBelow)}` : ""}`],
      span.critical && ["Critical path", "had this been faster, so had the whole"],
      explained(span) && ["What it is", explained(span)],
    ].filter(Boolean);
    fill(
      this.more,
      h("h3", null, titleOf(span)),
      h("dl", { cls: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
      span.text && h("pre", null, span.text),
      span.runId && h("p", null, h("a", { cls: "button", href: to.run(span.runId) }, "The whole run")),
    );
  }
}

/** Of a run who has it, of a wait for whom; the name by which it was asked for may be an agent's id or a key. */
function titleOf(span) {
  if (span.kind === "run") return `${nameOfKey(span.key)} · ${span.name}`;
  if (span.kind !== "wait") return span.name;
  return span.name.replace(/^waits for (.+)$/, (_, who) => `waits for ${who.startsWith("agent:") ? nameOfKey(who) : agentName(who)}`);
}

/** A round time, without the zeros that only a measured one needs. */
const roundTime = (ms) => lasted(ms).replace(/\.0(?= s$)| 0 s$/, "");

const explained = (span) => WORDS_OF[span.kind === "run" ? span.name.split(" ")[0] : span.kind];

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
