// @ts-check
// What is said here and not an entry yet, and words that are still being written.
import { debounce, face, h, isPersons, oneLine, speakerOf, textOf } from "./dom.js";
import { complain, gateway, showWords } from "./gateway.js";
import { isStep } from "./protocol.js";
import { blocksOf, words } from "./transcript.js";
import { Lost, newId, wire } from "./wire.js";

const TAKES_LONG = /^\s*\/compact\b/i; // answered after a model's work: what is said meanwhile does not wait for it

const READ_CHARS = 400; // of a reply that is read aloud; the whole is in the log

const BLOCKED = /send blocked by session policy/i;
const UNBLOCK = "“/send on” allows it again, and so does “Replies to its chat” among the settings.";

/** Says what a person wrote, and shows it and the reply until both are entries of the transcript. */
export class Speaking {
  pending = new Map(); // what was said here and is not an entry yet, by run
  posting = new Set(); // keys of the conversations that are being posted to
  runs = new Map(); // those under way, with the words they have so far

  /** @param {import("./chat.js").Chat} chat */
  constructor(chat) {
    this.chat = chat;
    this.draw = debounce(() => this.show(), 50);
  }

  /** Runs that the gateway has open, some with a message that waits for its turn. */
  underWay(open) {
    for (const run of open) {
      this.runs.set(run.runId, { text: "", said: "", ...this.runs.get(run.runId), status: run.status, kind: run.kind });
      if (run.message && !isStep(run.kind) && !this.pending.has(run.runId))
        this.pending.set(run.runId, { key: this.chat.key, message: run.message, state: "queued" });
    }
    this.busy();
  }

  /** Forgets the runs that ended unheard. */
  keepOnly(open) {
    const known = new Set(open.map((run) => run.runId));
    for (const runId of this.runs.keys()) if (!known.has(runId)) this.runs.delete(runId);
  }

  /** What became an entry is shown by the transcript from now on. */
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

  ended({ runId, state, message, errorMessage }) {
    if (state === "delta") return;
    this.runs.delete(runId);
    this.pending.delete(runId);
    this.draw();
    this.busy();
    if (state === "error") this.chat.status.textContent = `No answer: ${errorMessage || "the run failed"}`;
    else if (state === "aborted") this.chat.status.textContent = "Stopped.";
    else this.chat.status.textContent = "";
    if (message && state === "final")
      this.chat.spoken.textContent = `${speakerOf(this.chat.key)}: ${oneLine(textOf(message), READ_CHARS)}`;
    this.chat.reading.soon(); // what a command answers is a note, and notes are not told
    this.lookUp(); // what is left of its budget
  }

  async lookUp() {
    const { chat } = this,
      { key } = chat;
    const found = await gateway.find(key).catch(() => null); // the line went: the next end tells it
    if (!found || key !== chat.key) return;
    chat.reading.row = found;
    chat.showAbout();
  }

  show() {
    const { chat } = this,
      { key, log, low, reading } = chat;
    const said = reading.atEnd
      ? [...this.pending]
          .filter(([, each]) => each.key === key)
          .map(([runId, each]) => [`said-${runId}`, each, null])
      : [];
    const { steps } = chat.transcript.protocol; // what agents say by rule is a line that unfolds
    const growing = reading.loaded && reading.atEnd
      ? [...this.runs].filter(([id, run]) => run.status !== "queued" && !isStep(run.kind || steps.get(id)?.kind)).map(([runId, run]) => [`run-${runId}`, null, run])
      : [];
    // What is answered already stands before its answer, and what waits in line behind it.
    const answered = said.filter(([id]) => growing.some((each) => each[0] === id.replace("said-", "run-")));
    const inLine = said.filter((each) => !answered.includes(each));
    const wanted = new Map([...answered, ...growing, ...inLine].map((each) => [each[0], each]));
    for (const item of log.querySelectorAll(":scope > .ghost")) if (!wanted.has(item.id)) item.remove();
    let next = null; // from the last to the first; what stands right is not moved, for it may have the focus
    for (const [id, message, run] of [...wanted.values()].reverse()) {
      const item = document.getElementById(id) || (message ? this.saidItem(id, message) : this.growingItem(id));
      if (item.parentNode !== log || item.nextElementSibling !== next) log.insertBefore(item, next);
      if (message) item.querySelector(".foot").textContent = message.state;
      else this.growInto(item, run);
      next = item;
    }
    chat.follow(low);
  }

  saidItem(id, said) {
    const { transcript } = this.chat;
    const body = h(
      "div",
      { cls: "body" },
      blocksOf(said.message).map((block) => transcript.block(block, {})),
    );
    const side = isPersons(said.message.provenance) ? "user" : "other";
    return h(
      "li",
      { cls: `message ${side} ghost`, id },
      transcript.head({ message: said.message, at: said.message.timestamp || Date.now() }, side),
      body,
      h("p", { cls: "foot shown" }),
    );
  }

  growingItem(id) {
    return h(
      "li",
      { cls: "message assistant ghost growing", id, data: { run: id.slice(4) } },
      h("h3", { cls: "head" }, face(this.chat.key), h("span", { cls: "name" }, speakerOf(this.chat.key))),
      h("div", { cls: "body" }, words("")),
      h("p", { cls: "dots", role: "img", "aria-label": "at work" }, h("i"), h("i"), h("i")),
    );
  }

  growInto(item, run) {
    const last = this.chat.transcript.items().at(-1);
    item.classList.toggle("joined", last?.dataset.run === item.dataset.run && last?.dataset.who === "assistant");
    if (run.text) showWords(item.querySelector(".words"), run.text);
    else if (item.querySelector(".words").said) item.querySelector(".words").replaceWith(words(""));
  }

  busy() {
    this.chat.composer.busy = this.runs.size > 0;
  }

  // ── saying ────────────────────────────────────────────────────────────────────────────────

  say(text, pictures) {
    const { chat } = this,
      { key } = chat;
    const runId = newId();
    const attachments = pictures.map((each) => ({
      type: each.type.startsWith("image/") ? "image" : "file",
      mimeType: each.type || null,
      fileName: each.name,
      content: each.url.slice(each.url.indexOf(",") + 1),
    }));
    const content = [
      ...(text ? [{ type: "text", text }] : []),
      ...attachments.map((each) =>
        each.type === "image"
          ? { type: "image", mimeType: each.mimeType, data: each.content }
          : { type: "text", text: `[file: ${each.fileName}]` },
      ),
    ];
    const said = {
      key,
      message: { role: "user", content },
      state: "sending",
      params: {
        sessionKey: key,
        message: text,
        deliver: false,
        idempotencyKey: runId,
        ...(attachments.length ? { attachments } : {}),
      },
    };
    this.pending.set(runId, said);
    this.chat.status.textContent = "";
    if (!chat.reading.atEnd) chat.reading.load();
    this.show();
    chat.toEnd();
    this.post(key);
  }

  /** After a break: again under the same key, which makes it one message however often it arrives. */
  postAll() {
    for (const key of new Set([...this.pending.values()].map((said) => said.key))) this.post(key);
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
      if (said.key === this.chat.key) this.chat.composer.put(said.params.message);
      complain(BLOCKED.test(error.message) ? new Error(`${error.message}. ${UNBLOCK}`) : error);
      return true;
    } finally {
      this.draw();
    }
  }
}
