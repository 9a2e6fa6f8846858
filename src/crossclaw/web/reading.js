// Reading a conversation: a page of it, what is older, what is newer, and after a break what was missed.
// Every entry has its number, so what comes twice is shown once and what was missed is asked for.
import { empty, fill, h, textOf } from "./dom.js";
import { complain, house } from "./house.js";
import { Transcript } from "./transcript.js";
import { Lost, wire } from "./wire.js";

const PAGE = 60; // entries of one read
const SHOWN_MAX = 400; // entries in the document; older ones are a scroll away

/** Keeps `entries` by number, and what is known of the `runs` that are under way. */
export class Reading extends Transcript {
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
    this.told.textContent = this.spoken.textContent = "";
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
      const farBehind = answer.after !== undefined;
      const begunAnew = this.sessionId && answer.sessionId !== this.sessionId;
      if (begunAnew || (farBehind && this.atEnd)) {
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
      const answer = await wire.call("sessions.entries", { key, after: this.lastSeq, limit: PAGE });
      if (key !== this.key) return;
      this.atEnd = answer.after === undefined;
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

  trim() {
    if (this.entries.size <= SHOWN_MAX || !this.low) return;
    const gone = [...this.entries.keys()].sort((a, b) => a - b).slice(0, this.entries.size - SHOWN_MAX + PAGE);
    for (const seq of gone) {
      this.entries.delete(seq);
      this.log.querySelector(`:scope > [data-seq="${seq}"]`)?.remove();
    }
    this.olderThan = gone.at(-1) + 1;
  }
}
