// Chat: a conversation as the ledger has it. Every entry has its number, so what comes twice is shown once
// and what was missed is asked for; only words still being written are not entries yet.
import { Part, agentName, agentOf, ago, cost, count, dayOf, debounce, exactTime, face, h, iconButton, lasted, nameOf, nameOfKey, oneLine, pretty, stateMark, textOf, timeOf, to, tokens, empty } from "./dom.js";
import { complain, house, showWords } from "./house.js";
import { Lost, newId, wire } from "./wire.js";
import "./composer.js";

const PAGE = 60; // entries of one read
const SHOWN_MAX = 400; // entries in the document; older ones are a scroll away
const TOKENS = new Set(["REPLY_SKIP", "ANNOUNCE_SKIP"]);

class Chat extends Part {
  key = null;
  pending = new Map(); // what was said here and is not an entry yet, by run

  open() {
    this.list = h("cc-recent");
    this.heading = h("h2");
    this.about = h("p", { cls: "about" });
    this.log = h("ol", { cls: "log", role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: "0" });
    this.told = h("p", { cls: "away", role: "status", "aria-live": "polite" });
    this.down = h("button", { type: "button", cls: "down", hidden: true, onclick: () => this.toEnd() }, "Newest messages");
    this.composer = h("cc-composer");
    this.replaceChildren(this.list, h("section", { cls: "talk", "aria-label": "Conversation" },
      h("header", { cls: "bar" }, h("a", { href: "#/chat", cls: "icon back", "aria-label": "All conversations" }, iconUse("back")), h("div", { cls: "who" }, this.heading, this.about),
        h("a", { cls: "icon", id: "settings", "aria-label": "Settings of this session", title: "Settings of this session" }, iconUse("gear"))),
      this.log, this.down, this.told, this.composer));
    this.hear(this.composer, "say", ({ detail }) => this.say(detail.text, detail.pictures));
    this.hear(this.composer, "stop", () => wire.call("chat.abort", { sessionKey: this.key }).catch(complain));
    this.hear(this.log, "scroll", () => this.scrolled(), { passive: true });
    this.hear(wire, "session.message", ({ detail }) => { if (detail.sessionKey === this.key) this.take([entryOf(detail)]); });
    this.hear(wire, "agent", ({ detail }) => { if (detail.sessionKey === this.key) this.heard(detail); });
    this.hear(wire, "chat", ({ detail }) => { if (detail.sessionKey === this.key) this.ended(detail); });
    this.hear(wire, "sessions.changed", ({ detail }) => { if (detail.sessionKey === this.key && ["reset", "delete"].includes(detail.reason)) this.load(); });
    this.hear(house, "open", () => this.again());
    this.hear(house, "recent", () => this.showAbout());
    this.hear(document, "visibilitychange", () => { if (!document.hidden && this.key) house.look(this.key); });
    this.looked = debounce(() => { if (this.key && this.isConnected) house.look(this.key); }, 800);
    this.draw = debounce(() => this.showGrowing(), 50);
    this.soon = debounce(() => this.catchUp(), 120);
  }

  go(key, query) {
    this.classList.toggle("chosen", Boolean(key));
    const next = key || (matchMedia("(min-width: 700px)").matches ? this.key || house.mainKey : null);
    const seq = Number(query.get("seq")) || null;
    if (next === this.key && !seq) return;
    if (this.key && this.key !== next && wire.ready) wire.call("sessions.messages.unsubscribe", { key: this.key }).catch(() => {});
    this.key = next;
    this.list.key = next;
    if (!next) return;
    this.querySelector("#settings").href = to.session(next);
    this.composer.show(next);
    this.load(seq);
  }

  // ── reading ───────────────────────────────────────────────────────────────────────────────

  async load(seq = null) {
    const key = this.key;
    this.begin();
    this.showAbout();
    if (!wire.ready || !key) return;
    try {
      const [answer] = await Promise.all([
        wire.call("sessions.entries", { key, limit: PAGE, ...(seq ? { before: seq + PAGE / 2 } : {}) }),
        wire.call("sessions.messages.subscribe", { key }),
      ]);
      if (key !== this.key) return;
      this.log.replaceChildren();
      this.atEnd = !seq || answer.entries.at(-1)?.seq === answer.lastSeq;
      this.took(answer);
      this.take(answer.entries, true);
      this.loaded = true;
      this.showEmpty();
      if (seq) this.point(seq);
      else this.toEnd();
      this.looked();
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  begin() {
    this.entries = new Map();
    this.runs = new Map();
    this.calls = new Map();
    this.results = new Map();
    this.lastSeq = 0;
    this.olderThan = null;
    this.atEnd = true;
    this.loaded = false;
    this.log.replaceChildren(h("li", { cls: "loading", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
    this.down.hidden = true;
    this.told.textContent = "";
  }

  took(answer) {
    this.sessionId = answer.sessionId;
    if (answer.before !== undefined && (this.olderThan === null || answer.before < this.olderThan)) this.olderThan = answer.before;
    if (answer.before === undefined && !this.entries.size) this.olderThan = null;
    for (const run of answer.open) {
      this.runs.set(run.runId, { text: "", said: "", ...this.runs.get(run.runId), status: run.status });
      if (run.message && !this.pending.has(run.runId)) this.pending.set(run.runId, { key: this.key, message: run.message, state: "queued" });
    }
    this.busy();
  }

  /** After a break: what was missed, by number; and what was said into the break is said again, under the
   * same key, which makes it one message however often it arrives. */
  async again() {
    this.composer.learn();
    if (!this.key) {
      this.go(null, new URLSearchParams());
      return;
    }
    for (const [runId, said] of this.pending) if (said.params) this.post(runId, said);
    if (!this.loaded) {
      this.load();
      return;
    }
    try {
      await wire.call("sessions.messages.subscribe", { key: this.key });
    } catch { return; } // the line went again
    this.catchUp();
  }

  async catchUp() {
    const key = this.key;
    if (!this.loaded || !wire.ready) return;
    try {
      const answer = await wire.call("sessions.entries", { key, after: this.lastSeq, limit: 500 });
      if (key !== this.key) return;
      const holes = answer.entries.length && answer.entries[0].seq > this.lastSeq + 1;
      if (answer.sessionId !== this.sessionId || (holes && this.atEnd)) {
        this.load();
        return;
      }
      const open = new Set(answer.open.map((run) => run.runId));
      for (const runId of this.runs.keys()) if (!open.has(runId)) this.runs.delete(runId);
      delete answer.before;
      this.took(answer);
      this.take(answer.entries);
      this.showGrowing();
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  async older() {
    if (this.reading || this.olderThan === null || !wire.ready) return;
    this.reading = true;
    const key = this.key;
    try {
      const answer = await wire.call("sessions.entries", { key, before: this.olderThan, limit: PAGE });
      if (key !== this.key) return;
      this.olderThan = answer.before ?? null;
      const height = this.log.scrollHeight, top = this.log.scrollTop;
      this.take(answer.entries, true);
      this.log.scrollTop = top + this.log.scrollHeight - height;
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    } finally {
      this.reading = false;
    }
  }

  async newer() {
    if (this.reading || this.atEnd || !wire.ready) return;
    this.reading = true;
    const key = this.key;
    try {
      // A read is always of the newest within its bounds: the next page ends PAGE further on.
      const answer = await wire.call("sessions.entries", { key, after: this.lastSeq, before: this.lastSeq + PAGE + 1, limit: PAGE });
      if (key !== this.key) return;
      this.atEnd = this.lastSeq + PAGE >= answer.lastSeq;
      this.take(answer.entries, true);
    } finally {
      this.reading = false;
    }
  }

  // ── entries ───────────────────────────────────────────────────────────────────────────────

  take(entries, asked = false) {
    const low = this.low;
    for (const entry of entries) {
      if (this.entries.has(entry.seq)) continue;
      if (!asked && !this.atEnd && entry.seq > this.lastSeq + 1) continue; // we look at the past; it is read when we come there
      if (!asked && this.loaded && entry.seq > this.lastSeq + 1) {
        this.catchUp(); // something between was not told, as notes are not
        return;
      }
      this.entries.set(entry.seq, entry);
      this.lastSeq = Math.max(this.lastSeq, entry.seq);
      this.settle(entry);
      this.place(entry);
    }
    this.showGrowing();
    if (!asked) {
      this.trim();
      this.follow(low);
      this.looked();
    }
    this.showEmpty();
  }

  settle(entry) {
    const role = entry.message?.role;
    if (!entry.runId) return;
    if (role === "user") this.pending.delete(entry.runId);
    const run = this.runs.get(entry.runId);
    if (role === "assistant" && run) {
      run.said = textOf(entry.message);
      run.text = "";
    }
  }

  place(entry) {
    if (entry.message?.role === "toolResult") {
      this.results.set(entry.message.toolCallId, entry.message);
      this.fill(entry.message.toolCallId);
      return;
    }
    if (this.continued(entry)) return;
    const item = this.item(entry);
    if (!item) return;
    item.dataset.seq = entry.seq;
    const after = [...this.log.querySelectorAll(":scope > [data-seq]")].reverse().find((each) => Number(each.dataset.seq) < entry.seq);
    if (after) after.after(item);
    else this.log.prepend(item);
    this.join(item);
    if (item.nextElementSibling?.dataset.seq) this.join(item.nextElementSibling);
  }

  /** A reply that the model's limit cut is continued in the next entry: the two are one. */
  continued(entry) {
    const before = this.entries.get(entry.seq - 1);
    if (before?.message?.stopReason !== "length" || before.runId !== entry.runId || entry.message?.role !== "assistant") return false;
    const shown = [...this.log.querySelectorAll(`:scope > [data-run="${CSS.escape(entry.runId || "")}"] .words`)].at(-1);
    if (!shown || blocksOf(entry.message).some((block) => block.type === "toolCall")) return false;
    showWords(shown, shown.said + textOf(entry.message));
    return true;
  }

  /** A message after one of the same run and speaker is a part of it; a new day says so. */
  join(item) {
    let before = item.previousElementSibling;
    if (before?.classList.contains("day")) {
      const named = before;
      before = before.previousElementSibling;
      named.remove();
    }
    const same = before && before.dataset.who === item.dataset.who && before.dataset.run === item.dataset.run && item.dataset.who !== "user";
    item.classList.toggle("joined", Boolean(same));
    const today = new Date(Number(item.dataset.at)).toDateString();
    if (!before?.dataset.at || new Date(Number(before.dataset.at)).toDateString() !== today) {
      item.before(h("li", { cls: "day" }, h("span", null, dayOf(Number(item.dataset.at)))));
    }
  }

  item(entry) {
    const { message, at } = entry;
    if (!message) return entry.note ? this.noteItem(entry) : null;
    const mine = message.role === "user";
    const from = message.provenance?.sourceSession;
    const who = mine ? (from ? `from:${from}` : "user") : "assistant";
    const item = h("li", { cls: `message ${mine ? (from ? "other" : "user") : "assistant"}`, data: { who, run: entry.runId || "", at } });
    item.append(this.head(entry, from));
    const body = h("div", { cls: "body" });
    for (const block of blocksOf(message)) {
      const shown = this.block(block, entry);
      if (shown) body.append(shown);
    }
    if (message.errorMessage) body.append(h("p", { cls: "problem" }, message.errorMessage));
    if (!body.childNodes.length) return null;
    item.append(body, this.foot(entry));
    return item;
  }

  head(entry, from) {
    const { message } = entry;
    if (message.role === "user" && !from) return h("h3", { cls: "sr" }, `${message.provenance?.sender || "You"}, ${timeOf(entry.at)}`);
    const key = message.role === "assistant" ? this.key : from;
    const kind = message.provenance?.kind;
    return h("h3", { cls: "head" }, face(key), h("span", { cls: "name" }, message.role === "assistant" ? agentName(agentOf(this.key)) : nameOfKey(key)),
      from && h("a", { cls: "via", href: entry.runId ? to.exchange(entry.runId) : to.chat(from) }, kind === "announce" ? "announce" : "message from an agent"), h("time", null, timeOf(entry.at)));
  }

  foot(entry) {
    const { usage } = entry.message;
    const facts = [exactTime(entry.at), usage && `${count(usage.totalTokens)} tokens`, usage?.cost && cost(usage.cost.total)].filter(Boolean).join(" · ");
    return h("p", { cls: "foot" }, facts, entry.runId && h("a", { href: to.run(entry.runId) }, "run"));
  }

  block(block, entry) {
    if (block.type === "text" && TOKENS.has(block.text.trim())) return h("p", { cls: "silent" }, "said nothing (", block.text.trim(), ")");
    if (block.type === "text") return block.text.trim() ? words(block.text) : null;
    if (block.type === "image") return h("img", { cls: "picture", alt: "Attached picture", loading: "lazy", src: block.data ? `data:${block.mimeType};base64,${block.data}` : null });
    if (block.type === "thinking") return block.thinking ? h("details", { cls: "tool" }, h("summary", null, h("span", { cls: "verb" }, "thought"), h("span", { cls: "line" }, oneLine(block.thinking, 90))), h("pre", null, block.thinking)) : null;
    if (block.type !== "toolCall") return null;
    const line = h("details", { cls: "tool", data: { state: "running" } },
      h("summary", null, h("span", { cls: "verb" }, block.name), h("span", { cls: "line" }, oneLine(block.arguments, 110)), h("span", { cls: "time" })),
      h("div", { cls: "inside" }, h("h4", null, "Input"), h("pre", null, pretty(block.arguments)), h("h4", null, "Output"), h("pre", { cls: "out" }, "…")));
    this.calls.set(block.id, line);
    line.runId = entry.runId;
    this.fill(block.id);
    return line;
  }

  fill(callId) {
    const line = this.calls.get(callId), result = this.results.get(callId);
    if (!line || !result) return;
    line.dataset.state = result.isError ? "bad" : "ok";
    line.querySelector(".time").textContent = `${result.isError ? "failed · " : ""}${lasted(result.durationMs)}`;
    line.querySelector(".out").textContent = textOf(result) || "(nothing)";
  }

  noteItem(entry) {
    const { about, text, answer, reason } = entry.note;
    if (about === "command") return h("li", { cls: "command", data: { who: "command", run: entry.runId || "", at: entry.at } }, h("code", null, text), words(answer || ""));
    if (reason) return h("li", { cls: "note", data: { who: "note", run: entry.runId || "", at: entry.at } }, h("span", null, `${about || "note"}: ${reason}`));
    return h("li", { cls: "note", data: { who: "note", run: entry.runId || "", at: entry.at } }, h("span", null, entry.type === "compaction" ? "Older messages were summarised here." : oneLine(entry.note, 200)));
  }

  // ── what is not an entry yet ──────────────────────────────────────────────────────────────

  heard({ runId, stream, data }) {
    if (stream === "lifecycle" && data.phase === "start") this.runs.set(runId, { text: "", said: "", ...this.runs.get(runId), status: "running" });
    if (stream === "lifecycle" && data.phase !== "start") this.runs.delete(runId);
    if (stream === "assistant") {
      const run = this.runs.get(runId) || { said: "", status: "running" };
      // The end of a turn is told once more after its entry: those words are shown already.
      if (!run.said || !run.said.startsWith(data.text)) run.text = data.text;
      this.runs.set(runId, run);
    }
    this.busy();
    this.draw();
  }

  ended({ runId, state, errorMessage }) {
    if (state === "delta") return;
    this.runs.delete(runId);
    this.pending.delete(runId);
    this.draw();
    this.busy();
    if (state === "error") this.told.textContent = `No answer: ${errorMessage || "the run failed"}`;
    else if (state === "aborted") this.told.textContent = "Stopped.";
    else this.told.textContent = "";
    this.soon(); // what a command answers is a note, and notes are not told
  }

  showGrowing() {
    if (!this.loaded) return;
    const low = this.low;
    const said = this.atEnd ? [...this.pending].filter(([, each]) => each.key === this.key).map(([runId, each]) => [`said-${runId}`, each, null]) : [];
    const growing = this.atEnd ? [...this.runs].filter(([, run]) => run.status !== "queued").map(([runId, run]) => [`run-${runId}`, null, run]) : [];
    const wanted = new Map([...said, ...growing].map((each) => [each[0], each]));
    for (const item of this.log.querySelectorAll(":scope > .ghost")) if (!wanted.has(item.id)) item.remove();
    for (const [id, message, run] of wanted.values()) {
      const item = document.getElementById(id) || this.log.appendChild(message ? this.saidItem(id, message) : this.growingItem(id));
      if (message) item.querySelector(".foot").textContent = message.state;
      else this.growInto(item, run);
    }
    this.follow(low);
  }

  saidItem(id, said) {
    const body = h("div", { cls: "body" }, blocksOf(said.message).map((block) => this.block(block, {})));
    return h("li", { cls: "message user ghost", id }, h("h3", { cls: "sr" }, "You"), body, h("p", { cls: "foot shown" }));
  }

  growingItem(id) {
    return h("li", { cls: "message assistant ghost growing", id, data: { run: id.slice(4) } },
      h("h3", { cls: "head" }, face(this.key), h("span", { cls: "name" }, agentName(agentOf(this.key)))), h("div", { cls: "body" }, words("")), h("p", { cls: "dots", role: "img", "aria-label": "at work" }, h("i"), h("i"), h("i")));
  }

  growInto(item, run) {
    const last = [...this.log.querySelectorAll(":scope > [data-seq]")].at(-1);
    item.classList.toggle("joined", last?.dataset.run === item.dataset.run && last?.dataset.who === "assistant");
    if (run.text) showWords(item.querySelector(".words"), run.text);
    else if (item.querySelector(".words").said) item.querySelector(".words").replaceWith(words(""));
  }

  busy() {
    this.composer.busy = this.runs.size > 0;
  }

  // ── saying ────────────────────────────────────────────────────────────────────────────────

  say(text, pictures) {
    const runId = newId();
    const attachments = pictures.map((each) => ({ type: "image", mimeType: each.type, fileName: each.name, content: each.url.slice(each.url.indexOf(",") + 1) }));
    const content = [...(text ? [{ type: "text", text }] : []), ...attachments.map((each) => ({ type: "image", mimeType: each.mimeType, data: each.content }))];
    const said = { key: this.key, message: { role: "user", content }, state: "sending", params: { sessionKey: this.key, message: text, deliver: false, idempotencyKey: runId, ...(attachments.length ? { attachments } : {}) } };
    this.pending.set(runId, said);
    this.told.textContent = "";
    if (!this.atEnd) this.load();
    this.showGrowing();
    this.toEnd();
    this.post(runId, said);
  }

  async post(runId, said) {
    try {
      const answer = await wire.call("chat.send", said.params);
      delete said.params;
      if (!answer.runId || ["ok", "error"].includes(answer.status)) this.pending.delete(runId);
      else said.state = "queued";
    } catch (error) {
      if (error instanceof Lost) {
        said.state = "waiting for the connection";
      } else {
        this.pending.delete(runId);
        if (said.key === this.key) this.composer.put(said.params.message);
        complain(error);
      }
    }
    this.draw();
  }

  // ── looks ─────────────────────────────────────────────────────────────────────────────────

  showAbout() {
    if (!this.key) return;
    const row = house.row(this.key) || { key: this.key };
    this.heading.textContent = nameOf(row);
    const facts = [h("code", null, this.key)];
    if (row.model) facts.push(h("span", null, row.model), h("span", null, `${tokens(row.tokens)} tokens`));
    if (row.costUsd) facts.push(h("span", null, cost(row.costUsd)));
    this.about.replaceChildren(stateMark(row.lane), ...facts);
  }

  showEmpty() {
    this.log.querySelector(":scope > .empty")?.remove();
    if (this.loaded && !this.entries.size && !this.pending.size && !this.runs.size) {
      this.log.append(h("li", { cls: "empty" }, face(this.key), h("p", { cls: "title" }, `Talk with ${agentName(agentOf(this.key))}`), h("p", null, "Write below. Other sessions and agents can be reached from here too.")));
    }
  }

  get low() { return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 90; }

  follow(low) {
    if (low && this.atEnd) this.log.scrollTop = this.log.scrollHeight;
    this.down.hidden = this.low && this.atEnd;
  }

  toEnd() {
    if (!this.atEnd) this.load();
    else requestAnimationFrame(() => { this.log.scrollTop = this.log.scrollHeight; });
  }

  scrolled() {
    if (this.log.scrollTop < 400) this.older();
    if (this.low && !this.atEnd) this.newer();
    this.down.hidden = this.low && this.atEnd;
  }

  trim() {
    if (this.entries.size <= SHOWN_MAX || !this.low) return;
    const gone = [...this.entries.keys()].sort((a, b) => a - b).slice(0, this.entries.size - SHOWN_MAX + PAGE);
    for (const seq of gone) {
      this.entries.delete(seq);
      this.log.querySelector(`:scope > [data-seq="${seq}"]`)?.remove();
    }
    this.olderThan = gone.at(-1) + 1;
  }

  point(seq) {
    const item = this.log.querySelector(`[data-seq="${seq}"]`) || [...this.log.querySelectorAll("[data-seq]")].reverse().find((each) => Number(each.dataset.seq) <= seq);
    item?.scrollIntoView({ block: "center" });
    item?.classList.add("pointed");
  }
}

function iconUse(name) {
  return iconButton(name, "").firstChild;
}

function words(text) {
  const element = h("div", { cls: "words" });
  showWords(element, text);
  return element;
}

const blocksOf = (message) => (typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content || []);

const entryOf = (told) => ({ seq: told.messageSeq, entryId: told.messageId, at: told.message.timestamp, runId: told.runId, type: "message", message: told.message });

/** The newest conversations and the agents, with what goes on and what is unread. */
class Recent extends Part {
  #key = null;

  set key(key) {
    this.#key = key;
    if (this.isConnected) this.draw();
  }

  open() {
    this.filter = h("input", { type: "search", placeholder: "Find a conversation", "aria-label": "Find a conversation", oninput: () => this.draw() });
    this.items = h("ul", { cls: "rows" });
    this.replaceChildren(h("div", { cls: "tools" }, this.filter, iconButton("plus", "New conversation", () => this.begin())), h("nav", { "aria-label": "Conversations" }, this.items));
    this.hear(house, "recent", () => this.draw());
    this.hear(house, "open", () => this.draw());
    this.clock = setInterval(() => this.draw(), 30000);
    this.draw();
  }

  close() { clearInterval(this.clock); }

  async begin() {
    try {
      const made = await wire.call("sessions.create", { agentId: this.#key ? agentOf(this.#key) : undefined });
      location.hash = to.chat(made.key);
      document.getElementById("say")?.focus();
    } catch (error) {
      complain(error);
    }
  }

  draw() {
    const known = new Set(house.recent.map((row) => row.key));
    const agents = house.agents.map((agent) => ({ key: `agent:${agent.id}:main` })).filter((row) => !known.has(row.key));
    const current = this.#key && !known.has(this.#key) && !agents.some((row) => row.key === this.#key) ? [{ key: this.#key }] : [];
    const wanted = this.filter.value.toLowerCase();
    const rows = [...current, ...house.recent, ...agents].filter((row) => `${nameOf(row)} ${row.key}`.toLowerCase().includes(wanted));
    const focused = this.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    this.items.replaceChildren(...rows.map((row) => this.row(row)));
    if (!rows.length) this.items.append(h("li", null, empty("Nothing found", "The sessions page searches in all messages.")));
    if (focused) this.items.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    const unread = house.recent.filter((row) => row.key !== this.#key && house.unread(row)).length;
    document.title = unread ? `(${unread}) Crossclaw` : "Crossclaw";
  }

  row(row) {
    const unread = row.updatedAt && row.key !== this.#key && house.unread(row);
    return h("li", null, h("a", { href: to.chat(row.key), "aria-current": row.key === this.#key ? "page" : null, cls: unread ? "unread" : null },
      face(row.key), h("span", { cls: "name" }, nameOf(row)), h("span", { cls: "when" }, row.updatedAt ? ago(row.updatedAt) : ""),
      h("span", { cls: "more" }, row.lane ? stateMark(row.lane) : row.channel && row.channel !== "unknown" ? row.channel : row.updatedAt ? row.model : "not yet talked to"), unread && h("i", { cls: "mark" }, h("span", { cls: "sr" }, "unread"))));
  }
}

customElements.define("cc-recent", Recent);
customElements.define("cc-chat", Chat);
