// @ts-check
// What is said here and not an entry yet, and words that are still being written.
import { debounce, face, h, isPersons, oneLine, speakerOf, textOf, whyOf, within } from "./dom.js";
import { complain, gateway, showWords } from "./gateway.js";
import { isStep } from "./protocol.js";
import { blocksOf, words } from "./transcript.js";
import { Lost, newId, wire } from "./wire.js";

const TAKES_LONG = /^\s*\/compact\b/i; // answered after a model's work: what is said meanwhile does not wait for it

const READ_CHARS = 400; // of a reply that is read aloud; the whole is in the log

const BLOCKED = /send blocked by session policy/i;
const UNBLOCK = "“/send on” allows it again, and so does “Replies to its chat” among the settings.";

/** @typedef {{key: string | null, message: Api.Message, state: string, params?: Api.ChatSendParams, sent?: boolean}} Said
 * and not an entry yet; with `params` while the gateway has not taken it */
/** @typedef {{text: string, said: string, status: string, kind?: string}} Growing a run, and the words that it has so far */

/** Says what a person wrote, and shows it and the reply until both are entries of the transcript. */
export class Speaking {
  /** @type {Map<string, Said>} */ pending = new Map(); // by run
  /** @type {Set<string | null>} */ posting = new Set(); // keys of the conversations that are being posted to
  /** @type {Map<string, Growing>} */ runs = new Map(); // those under way

  /** @param {import("./chat.js").Chat} chat */
  constructor(chat) {
    this.chat = chat;
    this.draw = debounce(() => this.show(), 50);
  }

  /** Runs that the gateway has open, some with a message that waits for its turn.
   * @param {Api.OpenRun[]} open */
  underWay(open) {
    for (const run of open) {
      this.runs.set(run.runId, { text: "", said: "", ...this.runs.get(run.runId), status: run.status, kind: run.kind });
      if (run.message && !isStep(run.kind) && !this.pending.has(run.runId))
        this.pending.set(run.runId, { key: this.chat.key, message: run.message, state: "queued" });
    }
    this.busy();
  }

  /** Forgets the runs that ended unheard.
   * @param {Api.OpenRun[]} open */
  keepOnly(open) {
    const known = new Set(open.map((run) => run.runId));
    for (const runId of this.runs.keys()) if (!known.has(runId)) this.runs.delete(runId);
  }

  /** What became an entry is shown by the transcript from now on.
   * @param {Page.Entry} entry */
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

  /** @param {Api.AgentEvent} event */
  heard({ runId, stream, data }) {
    if (stream === "lifecycle" && data.phase === "start")
      this.runs.set(runId, { text: "", said: "", ...this.runs.get(runId), status: "running" });
    if (stream === "lifecycle" && data.phase !== "start") this.runs.delete(runId);
    if (stream === "assistant") {
      const run = this.runs.get(runId) || { text: "", said: "", status: "running" };
      const { text = "" } = data;
      // The end of a turn is told once more after its entry: those words are shown already.
      if (!run.said || !run.said.startsWith(text)) run.text = text;
      this.runs.set(runId, run);
    }
    this.busy();
    this.draw();
  }

  /** @param {Api.ChatEvent} event */
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
    if (!key) return;
    const found = await gateway.find(key).catch(() => null); // the line went: the next end tells it
    if (!found || key !== chat.key) return;
    chat.reading.row = found;
    chat.showAbout();
  }

  show() {
    const { chat } = this,
      { key, log, low, reading } = chat;
    const said = reading.atEnd
      ? [...this.pending].filter(([, each]) => each.key === key).map(([runId, each]) => ({ id: `said-${runId}`, said: each }))
      : [];
    const { steps } = chat.transcript.protocol; // what agents say by rule is a line that unfolds
    const growing = reading.loaded && reading.atEnd
      ? [...this.runs].filter(([id, run]) => run.status !== "queued" && !isStep(run.kind || steps.get(id)?.kind)).map(([runId, run]) => ({ id: `run-${runId}`, run }))
      : [];
    // What is answered already stands before its answer, and what waits in line behind it.
    const answered = said.filter(({ id }) => growing.some((each) => each.id === id.replace("said-", "run-")));
    const inLine = said.filter((each) => !answered.includes(each));
    const wanted = [...answered, ...growing, ...inLine];
    const ids = new Set(wanted.map(({ id }) => id));
    for (const item of log.querySelectorAll(":scope > .ghost")) if (!ids.has(item.id)) item.remove();
    /** @type {HTMLElement | null} */
    let next = null; // from the last to the first; what stands right is not moved, for it may have the focus
    for (const each of wanted.reverse()) {
      /** @type {HTMLElement} */
      const item = document.getElementById(each.id) || ("said" in each ? this.saidItem(each.id, each.said) : this.growingItem(each.id));
      if (item.parentNode !== log || item.nextElementSibling !== next) log.insertBefore(item, next);
      if ("said" in each) within(item, ".foot").textContent = each.said.state;
      else this.growInto(item, each.run);
      next = item;
    }
    chat.follow(low);
  }

  /** @param {string} id @param {Said} said */
  saidItem(id, said) {
    const { transcript } = this.chat;
    const body = h(
      "div",
      { cls: "body" },
      blocksOf(said.message).map((block) => transcript.block(block)),
    );
    const side = isPersons(said.message.provenance) ? "user" : "other";
    return h(
      "li",
      { cls: `message ${side} ghost`, id },
      transcript.head(said.message, { at: said.message.timestamp || Date.now() }, side),
      body,
      h("p", { cls: "foot shown" }),
    );
  }

  /** @param {string} id */
  growingItem(id) {
    return h(
      "li",
      { cls: "message assistant ghost growing", id, data: { run: id.slice(4) } },
      h("h3", { cls: "head" }, face(this.chat.key), h("span", { cls: "name" }, speakerOf(this.chat.key))),
      h("div", { cls: "body" }, words("")),
      h("p", { cls: "dots", role: "img", "aria-label": "at work" }, h("i"), h("i"), h("i")),
    );
  }

  /** @param {HTMLElement} item @param {Growing} run */
  growInto(item, run) {
    const shown = /** @type {import("./gateway.js").Words} */ (within(item, ".words"));
    const last = this.chat.transcript.items().at(-1);
    item.classList.toggle("joined", last?.dataset.run === item.dataset.run && last?.dataset.who === "assistant");
    if (run.text) showWords(shown, run.text);
    else if (shown.said) shown.replaceWith(words(""));
  }

  busy() {
    this.chat.composer.busy = this.runs.size > 0;
  }

  // ── saying ────────────────────────────────────────────────────────────────────────────────

  /** @param {string} text @param {Page.Attached[]} pictures */
  say(text, pictures) {
    const { chat } = this,
      { key } = chat;
    if (!key) return;
    const runId = newId();
    const attachments = pictures.map(({ type, name, url = "" }) => ({
      type: type.startsWith("image/") ? "image" : "file",
      mimeType: type || null,
      fileName: name,
      content: url.slice(url.indexOf(",") + 1),
    }));
    /** @type {Api.Block[]} */
    const content = text ? [{ type: "text", text }] : [];
    for (const each of attachments)
      if (each.type === "image") content.push({ type: "image", mimeType: each.mimeType, data: each.content });
      else content.push({ type: "text", text: `[file: ${each.fileName}]` });
    /** @type {Said} */
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

  /** One after the other, in the order in which it was said: what could not be sent goes before what is newer.
   * @param {string | null} key */
  async post(key) {
    if (this.posting.has(key)) return;
    this.posting.add(key);
    for (let next; (next = this.unsent(key)); ) {
      const sent = this.send(next);
      if (!TAKES_LONG.test(next.params.message) && !(await sent)) break;
    }
    this.posting.delete(key);
  }

  /** @param {string | null} key */
  unsent(key) {
    for (const [runId, said] of this.pending) if (said.key === key && said.params && !said.sent) return { runId, said, params: said.params };
    return null;
  }

  /** Whether the line was there; it may be that the gateway refused.
   * @param {{runId: string, said: Said, params: Api.ChatSendParams}} unsent */
  async send({ runId, said, params }) {
    said.sent = true;
    try {
      const answer = await wire.call("chat.send", params);
      delete said.params;
      if (!answer.runId || ["ok", "error"].includes(answer.status || "")) this.pending.delete(runId);
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
      if (said.key === this.chat.key) this.chat.composer.put(params.message);
      complain(BLOCKED.test(whyOf(error)) ? new Error(`${whyOf(error)}. ${UNBLOCK}`) : error);
      return true;
    } finally {
      this.draw();
    }
  }
}
