// @ts-check
// Reading a conversation: a page of it, what is older, what is newer, and after a break what was missed.
// Every entry has its number, so what comes twice is shown once and what was missed is asked for.
import { debounce, empty, fill, h, whyOf } from "./dom.js";
import { complain, gateway } from "./gateway.js";
import { Lost, wire } from "./wire.js";

const PAGE = 60; // entries of one read
const SHOWN_MAX = 400; // entries in the document; older ones are a scroll away

/** Knows how far a conversation was read; what it reads is shown by the chat's transcript. */
export class Reading {
  loads = 0; // begun so far: of two only the later one counts
  lastSeq = 0;
  /** @type {number | null} */ olderThan = null; // the number before which there is more to read; null at the beginning
  atEnd = true;
  loaded = false;
  asking = false; // for older or newer entries
  /** @type {string | undefined} */ sessionId;
  /** @type {import("./gateway.js").Known | null} */ row = null; // the session, as the gateway's table has it
  missing = false; // there is no such session

  /** @param {import("./chat.js").Chat} chat */
  constructor(chat) {
    this.chat = chat;
    this.soon = debounce(() => this.catchUp(), 120);
    this.exchangesSoon = debounce(() => this.lookAtExchanges(), 300);
  }

  /** What is told meanwhile is not taken: it would come before the page it belongs to. A look for what
   * was missed follows.
   * @param {number | null} seq the entry to show, in place of the newest */
  async load(seq = null) {
    const { chat } = this,
      { key } = chat;
    const mine = ++this.loads;
    this.begin();
    chat.showAbout();
    if (!wire.ready || !key) return;
    try {
      const [answer, found] = await Promise.all([
        wire.call("sessions.entries", { key, exchanges: true, limit: PAGE, ...(seq ? { before: seq + PAGE / 2 } : {}) }),
        gateway.find(key),
        wire.call("sessions.messages.subscribe", { key }),
      ]);
      if (mine !== this.loads) return;
      this.row = found;
      chat.showAbout();
      fill(chat.log);
      this.atEnd = !seq || answer.entries.at(-1)?.seq === answer.lastSeq;
      this.took(answer);
      this.take(answer.entries, true);
      this.loaded = true;
      chat.showEmpty();
      if (seq) chat.point(seq);
      else chat.toEnd();
      chat.looked();
      this.soon();
    } catch (error) {
      if (error instanceof Lost || mine !== this.loads) return;
      this.missing = chat.composer.hidden = true;
      fill(chat.log, h("li", null, empty("No such session", whyOf(error))));
    }
  }

  begin() {
    const { chat } = this;
    chat.transcript.begin(chat.key);
    chat.speaking.runs.clear();
    this.lastSeq = 0;
    this.olderThan = null;
    this.atEnd = true;
    this.loaded = false;
    this.row = this.row?.key === chat.key ? this.row : null;
    this.missing = chat.composer.hidden = false;
    fill(chat.log, h("li", { cls: "loading", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
    chat.down.hidden = true;
    chat.status.textContent = chat.spoken.textContent = "";
    chat.speaking.show(); // what was said is seen, also while the line is down
  }

  /** @param {Api.EntriesResult} answer */
  took(answer) {
    this.sessionId = answer.sessionId;
    if (answer.before !== undefined && (this.olderThan === null || answer.before < this.olderThan))
      this.olderThan = answer.before;
    if (answer.before === undefined && !this.chat.transcript.entries.size) this.olderThan = null;
    this.chat.transcript.protocol.learn(answer.exchanges, this.chat.log);
    this.chat.speaking.underWay(answer.open);
  }

  /** After a break: what was missed, by number; and what was said into the break is said again. */
  async again() {
    const { chat } = this;
    chat.composer.learn();
    chat.speaking.postAll();
    if (!chat.key) {
      chat.go(null, new URLSearchParams());
      return;
    }
    if (!this.loaded) {
      this.load();
      return;
    }
    try {
      await wire.call("sessions.messages.subscribe", { key: chat.key });
    } catch {
      return;
    } // the line went again
    this.catchUp();
  }

  async catchUp() {
    const { key, speaking } = this.chat;
    if (!this.loaded || !wire.ready || !key) return;
    try {
      const mine = this.loads;
      const answer = await wire.call("sessions.entries", { key, exchanges: true, after: this.lastSeq, limit: 500 });
      if (mine !== this.loads || !this.loaded) return;
      const farBehind = answer.after !== undefined;
      const begunAnew = this.sessionId && answer.sessionId !== this.sessionId;
      if (begunAnew || (farBehind && this.atEnd)) {
        this.load();
        return;
      }
      speaking.keepOnly(answer.open);
      delete answer.before;
      this.took(answer);
      this.take(answer.entries);
      speaking.show();
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  /** How far the exchanges are whose lines are shown. */
  async lookAtExchanges() {
    const { log, transcript } = this.chat,
      { protocol } = transcript;
    const ids = protocol.open().map((each) => each.id);
    if (!ids.length || !wire.ready) return;
    try {
      const { exchanges } = await wire.call("exchanges.list", { ids: ids.slice(-100) });
      if (protocol === transcript.protocol) protocol.learn(exchanges, log);
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  async older() {
    const { key, log } = this.chat;
    if (this.asking || this.olderThan === null || !wire.ready || !key) return;
    this.asking = true;
    try {
      const mine = this.loads;
      const answer = await wire.call("sessions.entries", { key, exchanges: true, before: this.olderThan, limit: PAGE });
      if (mine !== this.loads) return;
      this.olderThan = answer.before ?? null;
      this.chat.transcript.protocol.learn(answer.exchanges, log);
      const height = log.scrollHeight,
        top = log.scrollTop;
      this.take(answer.entries, true);
      log.scrollTop = top + log.scrollHeight - height;
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    } finally {
      this.asking = false;
    }
  }

  async newer() {
    const { key } = this.chat;
    if (this.asking || this.atEnd || !wire.ready || !key) return;
    this.asking = true;
    try {
      const answer = await wire.call("sessions.entries", { key, exchanges: true, after: this.lastSeq, limit: PAGE });
      if (key !== this.chat.key) return;
      this.atEnd = answer.after === undefined;
      this.chat.transcript.protocol.learn(answer.exchanges, this.chat.log);
      this.take(answer.entries, true);
    } finally {
      this.asking = false;
    }
  }

  // ── entries ───────────────────────────────────────────────────────────────────────────────

  /** Entries that were asked for, or that the gateway told by itself.
   * @param {Page.Entry[]} entries */
  take(entries, asked = false) {
    const { chat } = this,
      { low, transcript } = chat;
    for (const entry of entries) {
      if (transcript.entries.has(entry.seq)) continue;
      if (!asked && !this.atEnd && entry.seq > this.lastSeq + 1) continue; // we look at the past; it is read when we come there
      if (!asked && this.loaded && entry.seq > this.lastSeq + 1) {
        this.catchUp(); // something between was not told, as notes are not
        return;
      }
      this.lastSeq = Math.max(this.lastSeq, entry.seq);
      chat.speaking.settle(entry);
      transcript.add(entry);
    }
    chat.speaking.show();
    if (!asked) {
      if (transcript.entries.size > SHOWN_MAX && chat.low) this.olderThan = transcript.trim(SHOWN_MAX - PAGE);
      chat.follow(low);
      chat.looked();
    }
    chat.showEmpty();
  }
}
