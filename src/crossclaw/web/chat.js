// Chat: a conversation as the ledger has it. Every entry has its number, so what comes twice is shown once
// and what was missed is asked for; only words still being written are not entries yet.
import {
  cost,
  debounce,
  empty,
  face,
  fill,
  goneWords,
  h,
  iconButton,
  isPersons,
  nameOf,
  speakerOf,
  stateMark,
  textOf,
  to,
  tokens,
} from "./dom.js";
import { complain, house, showWords } from "./house.js";
import { Transcript, blocksOf, words } from "./transcript.js";
import { Lost, newId, wire } from "./wire.js";
import "./composer.js";
import "./recent.js";

const PAGE = 60; // entries of one read
const TAKES_LONG = /^\s*\/compact\b/i; // answered after a model's work: what is said meanwhile does not wait for it
const SHOWN_MAX = 400; // entries in the document; older ones are a scroll away

class Chat extends Transcript {
  key = null;
  pending = new Map(); // what was said here and is not an entry yet, by run
  posting = new Set(); // keys of the conversations that are being posted to

  open() {
    this.list = h("cc-recent");
    this.heading = h("h2");
    this.about = h("p", { cls: "about" });
    this.log = h("ol", { cls: "log", role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: "0" });
    this.told = h("p", { cls: "away", role: "status", "aria-live": "polite" });
    this.down = h(
      "button",
      { type: "button", cls: "down", hidden: true, onclick: () => this.toEnd() },
      "Newest messages",
    );
    this.composer = h("cc-composer");
    this.shut = h("p", { cls: "shut", hidden: true });
    fill(
      this,
      this.list,
      h(
        "section",
        { cls: "talk", "aria-label": "Conversation" },
        h(
          "header",
          { cls: "bar" },
          h("a", { href: "#/chat", cls: "icon back", "aria-label": "All conversations" }, iconUse("back")),
          h("div", { cls: "who" }, this.heading, this.about),
          h(
            "a",
            {
              cls: "icon",
              id: "settings",
              "aria-label": "Settings of this session",
              title: "Settings of this session",
            },
            iconUse("gear"),
          ),
        ),
        this.log,
        this.down,
        this.told,
        this.shut,
        this.composer,
      ),
    );
    this.hear(this.composer, "say", ({ detail }) => this.say(detail.text, detail.pictures));
    this.hear(this.composer, "stop", () => wire.call("chat.abort", { sessionKey: this.key }).catch(complain));
    this.hear(this.log, "scroll", () => this.scrolled(), { passive: true });
    this.hear(wire, "session.message", ({ detail }) => {
      if (this.loaded && detail.sessionKey === this.key) this.take([entryOf(detail)]);
    });
    this.hear(wire, "agent", ({ detail }) => {
      if (detail.sessionKey === this.key) this.heard(detail);
    });
    this.hear(wire, "chat", ({ detail }) => {
      if (detail.sessionKey === this.key) this.ended(detail);
    });
    this.hear(wire, "sessions.changed", ({ detail }) => {
      if (detail.sessionKey === this.key && ["reset", "delete", "archive", "unarchive"].includes(detail.reason)) this.load();
    });
    this.hear(house, "open", () => this.again());
    this.hear(house, "recent", () => this.showAbout());
    this.hear(document, "visibilitychange", () => {
      if (!document.hidden && this.key) house.look(this.key);
    });
    this.looked = debounce(() => {
      if (this.key && this.isConnected) house.look(this.key);
    }, 800);
    this.draw = debounce(() => this.showGrowing(), 50);
    this.soon = debounce(() => this.catchUp(), 120);
  }
  go(key, query) {
    this.classList.toggle("chosen", Boolean(key));
    const next = key || (matchMedia("(min-width: 700px)").matches ? this.key || house.mainKey : null);
    const seq = Number(query.get("seq")) || null;
    if (next === this.key && !seq) return;
    if (this.key && this.key !== next && wire.ready)
      wire.call("sessions.messages.unsubscribe", { key: this.key }).catch(() => {});
    this.key = next;
    this.list.key = next;
    if (!next) return;
    this.querySelector("#settings").href = to.session(next);
    this.composer.show(next);
    this.load(seq);
  }

  // ── reading ───────────────────────────────────────────────────────────────────────────────

  /** What is told meanwhile is not taken: it would come before the page it belongs to. A look for what
   * was missed follows. Of two loads only the later one counts. */
  async load(seq = null) {
    const key = this.key;
    const mine = (this.loading = (this.loading || 0) + 1);
    this.begin();
    this.showAbout();
    if (!wire.ready || !key) return;
    try {
      const [answer, found] = await Promise.all([
        wire.call("sessions.entries", { key, limit: PAGE, ...(seq ? { before: seq + PAGE / 2 } : {}) }),
        house.find(key),
        wire.call("sessions.messages.subscribe", { key }),
      ]);
      if (mine !== this.loading) return;
      this.row = found;
      this.showAbout();
      fill(this.log);
      this.atEnd = !seq || answer.entries.at(-1)?.seq === answer.lastSeq;
      this.took(answer);
      this.take(answer.entries, true);
      this.loaded = true;
      this.showEmpty();
      if (seq) this.point(seq);
      else this.toEnd();
      this.looked();
      this.soon();
    } catch (error) {
      if (error instanceof Lost || mine !== this.loading) return;
      this.missing = this.composer.hidden = true;
      fill(this.log, h("li", null, empty("No such session", error.message)));
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
    this.row = this.row?.key === this.key ? this.row : null;
    this.missing = this.composer.hidden = false;
    fill(this.log, h("li", { cls: "loading", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
    this.down.hidden = true;
    this.told.textContent = "";
    this.showGrowing(); // what was said is seen, also while the line is down
  }

  took(answer) {
    this.sessionId = answer.sessionId;
    if (answer.before !== undefined && (this.olderThan === null || answer.before < this.olderThan))
      this.olderThan = answer.before;
    if (answer.before === undefined && !this.entries.size) this.olderThan = null;
    for (const run of answer.open) {
      this.runs.set(run.runId, { text: "", said: "", ...this.runs.get(run.runId), status: run.status });
      if (run.message && !this.pending.has(run.runId))
        this.pending.set(run.runId, { key: this.key, message: run.message, state: "queued" });
    }
    this.busy();
  }

  /** After a break: what was missed, by number; and what was said into the break is said again, under the
   * same key, which makes it one message however often it arrives. */
  async again() {
    this.composer.learn();
    for (const key of new Set([...this.pending.values()].map((said) => said.key))) this.post(key);
    if (!this.key) {
      this.go(null, new URLSearchParams());
      return;
    }
    if (!this.loaded) {
      this.load();
      return;
    }
    try {
      await wire.call("sessions.messages.subscribe", { key: this.key });
    } catch {
      return;
    } // the line went again
    this.catchUp();
  }

  async catchUp() {
    const key = this.key;
    if (!this.loaded || !wire.ready) return;
    try {
      const loading = this.loading;
      const answer = await wire.call("sessions.entries", { key, after: this.lastSeq, limit: 500 });
      if (loading !== this.loading || !this.loaded) return;
      const holes = answer.entries.length && answer.entries[0].seq > this.lastSeq + 1;
      const begunAnew = this.sessionId && answer.sessionId !== this.sessionId;
      if (begunAnew || (holes && this.atEnd)) {
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
      const loading = this.loading;
      const answer = await wire.call("sessions.entries", { key, before: this.olderThan, limit: PAGE });
      if (loading !== this.loading) return;
      this.olderThan = answer.before ?? null;
      const height = this.log.scrollHeight,
        top = this.log.scrollTop;
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
      const answer = await wire.call("sessions.entries", {
        key,
        after: this.lastSeq,
        before: this.lastSeq + PAGE + 1,
        limit: PAGE,
      });
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

  // ── what is not an entry yet ──────────────────────────────────────────────────────────────

  heard({ runId, stream, data }) {
    if (stream === "lifecycle" && data.phase === "start")
      this.runs.set(runId, { text: "", said: "", ...this.runs.get(runId), status: "running" });
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
    this.lookUp(); // what is left of its budget
  }

  async lookUp() {
    const { key } = this;
    const found = await house.find(key).catch(() => null); // the line went: the next end tells it
    if (!found || key !== this.key) return;
    this.row = found;
    this.showAbout();
  }

  showGrowing() {
    const low = this.low;
    const said = this.atEnd
      ? [...this.pending]
          .filter(([, each]) => each.key === this.key)
          .map(([runId, each]) => [`said-${runId}`, each, null])
      : [];
    const growing = this.loaded && this.atEnd
      ? [...this.runs].filter(([, run]) => run.status !== "queued").map(([runId, run]) => [`run-${runId}`, null, run])
      : [];
    const wanted = new Map([...said, ...growing].map((each) => [each[0], each]));
    for (const item of this.log.querySelectorAll(":scope > .ghost")) if (!wanted.has(item.id)) item.remove();
    for (const [id, message, run] of wanted.values()) {
      const item =
        document.getElementById(id) ||
        this.log.appendChild(message ? this.saidItem(id, message) : this.growingItem(id));
      if (message) item.querySelector(".foot").textContent = message.state;
      else this.growInto(item, run);
    }
    this.follow(low);
  }

  saidItem(id, said) {
    const body = h(
      "div",
      { cls: "body" },
      blocksOf(said.message).map((block) => this.block(block, {})),
    );
    const side = isPersons(said.message.provenance) ? "user" : "other";
    return h(
      "li",
      { cls: `message ${side} ghost`, id },
      this.head({ message: said.message, at: said.message.timestamp || Date.now() }, side),
      body,
      h("p", { cls: "foot shown" }),
    );
  }

  growingItem(id) {
    return h(
      "li",
      { cls: "message assistant ghost growing", id, data: { run: id.slice(4) } },
      h("h3", { cls: "head" }, face(this.key), h("span", { cls: "name" }, speakerOf(this.key))),
      h("div", { cls: "body" }, words("")),
      h("p", { cls: "dots", role: "img", "aria-label": "at work" }, h("i"), h("i"), h("i")),
    );
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
    const attachments = pictures.map((each) => ({
      type: "image",
      mimeType: each.type,
      fileName: each.name,
      content: each.url.slice(each.url.indexOf(",") + 1),
    }));
    const content = [
      ...(text ? [{ type: "text", text }] : []),
      ...attachments.map((each) => ({ type: "image", mimeType: each.mimeType, data: each.content })),
    ];
    const said = {
      key: this.key,
      message: { role: "user", content },
      state: "sending",
      params: {
        sessionKey: this.key,
        message: text,
        deliver: false,
        idempotencyKey: runId,
        ...(attachments.length ? { attachments } : {}),
      },
    };
    this.pending.set(runId, said);
    this.told.textContent = "";
    if (!this.atEnd) this.load();
    this.showGrowing();
    this.toEnd();
    this.post(this.key);
  }

  /** One after the other, in the order in which it was said: what could not be sent goes before what is newer. */
  async post(key) {
    if (this.posting.has(key)) return;
    this.posting.add(key);
    for (let next; (next = this.unsent(key)); ) {
      const sent = this.send(...next);
      if (!TAKES_LONG.test(next[1].params.message) && !(await sent)) break;
    }
    this.posting.delete(key);
  }

  unsent(key) {
    return [...this.pending].find(([, said]) => said.key === key && said.params && !said.sent);
  }

  /** Whether the line was there; it may be that the gateway refused. */
  async send(runId, said) {
    said.sent = true;
    try {
      const answer = await wire.call("chat.send", said.params);
      delete said.params;
      if (!answer.runId || ["ok", "error"].includes(answer.status)) this.pending.delete(runId);
      else said.state = "queued";
      return true;
    } catch (error) {
      said.sent = false;
      if (error instanceof Lost) {
        for (const each of this.pending.values())
          if (each.key === said.key && each.params) each.state = "waiting for the connection";
        return false;
      }
      this.pending.delete(runId);
      if (said.key === this.key) this.composer.put(said.params.message);
      complain(error);
      return true;
    } finally {
      this.draw();
    }
  }

  // ── looks ─────────────────────────────────────────────────────────────────────────────────

  showAbout() {
    if (!this.key) return;
    const { budget, archivedAt, agentGone } = this.row || {};
    const row = { ...(house.row(this.key) || this.row || { key: this.key }), budget, archivedAt, agentGone };
    this.list.here = row;
    this.heading.textContent = nameOf(row);
    const facts = [h("code", null, this.key)];
    if (row.model) facts.push(h("span", null, row.model), h("span", null, `${tokens(row.tokens)} tokens`));
    if (row.costUsd) facts.push(h("span", null, cost(row.costUsd)));
    if (row.budget) facts.push(h("span", { title: row.budget.text }, `budget: ${row.budget.text}`));
    fill(this.about, row.archivedAt ? h("span", null, "archived") : stateMark(row.lane), facts);
    this.showShut(row);
    this.composer.hidden = Boolean(this.missing || row.archivedAt || row.agentGone);
  }

  /** Why nothing can be written here, and what would change that. */
  showShut(row) {
    this.shut.hidden = !(row.archivedAt || row.agentGone);
    if (row.agentGone) fill(this.shut, goneWords(row));
    else if (row.archivedAt) {
      const back = h("button", { type: "button", onclick: () => this.bringBack() }, "Bring back");
      fill(this.shut, "This session is archived. It can be read, not written to.", back);
    }
  }

  bringBack() {
    wire.call("sessions.unarchive", { key: this.key }).catch(complain);
  }

  showEmpty() {
    this.log.querySelector(":scope > .empty")?.remove();
    if (this.loaded && !this.entries.size && !this.pending.size && !this.runs.size) {
      this.log.append(
        h(
          "li",
          { cls: "empty" },
          face(this.key),
          h("p", { cls: "title" }, `Talk with ${speakerOf(this.key)}`),
          h("p", null, "Write below. Other sessions and agents can be reached from here too."),
        ),
      );
    }
  }

  get low() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 90;
  }

  follow(low) {
    if (low && this.atEnd) this.log.scrollTop = this.log.scrollHeight;
    this.down.hidden = this.low && this.atEnd;
  }

  toEnd() {
    if (!this.atEnd) this.load();
    else
      requestAnimationFrame(() => {
        this.log.scrollTop = this.log.scrollHeight;
      });
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
    const item =
      this.log.querySelector(`[data-seq="${seq}"]`) ||
      [...this.log.querySelectorAll("[data-seq]")].reverse().find((each) => Number(each.dataset.seq) <= seq);
    item?.scrollIntoView({ block: "center" });
    item?.classList.add("pointed");
  }
}

function iconUse(name) {
  return iconButton(name, "").firstChild;
}

const entryOf = (told) => ({
  seq: told.messageSeq,
  entryId: told.messageId,
  at: told.message.timestamp,
  runId: told.runId,
  type: "message",
  message: told.message,
});

customElements.define("cc-chat", Chat);
