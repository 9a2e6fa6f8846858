// What is said here and not an entry yet, and words that are still being written.
import { face, h, isPersons, oneLine, speakerOf, textOf } from "./dom.js";
import { complain, house, showWords } from "./house.js";
import { Reading } from "./reading.js";
import { blocksOf, words } from "./transcript.js";
import { Lost, newId, wire } from "./wire.js";

const TAKES_LONG = /^\s*\/compact\b/i; // answered after a model's work: what is said meanwhile does not wait for it

const READ_CHARS = 400; // of a reply that is read aloud; the whole is in the log

const BLOCKED = /send blocked by session policy/i;
const UNBLOCK = "“/send on” allows it again, and so does “Replies to its chat” among the settings.";

export class Speaking extends Reading {
  pending = new Map(); // what was said here and is not an entry yet, by run
  posting = new Set(); // keys of the conversations that are being posted to

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
    if (state === "error") this.told.textContent = `No answer: ${errorMessage || "the run failed"}`;
    else if (state === "aborted") this.told.textContent = "Stopped.";
    else this.told.textContent = "";
    if (message && state === "final")
      this.spoken.textContent = `${speakerOf(this.key)}: ${oneLine(textOf(message), READ_CHARS)}`;
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
    // What is answered already stands before its answer, and what waits in line behind it.
    const answered = said.filter(([id]) => growing.some((each) => each[0] === id.replace("said-", "run-")));
    const inLine = said.filter((each) => !answered.includes(each));
    const wanted = new Map([...answered, ...growing, ...inLine].map((each) => [each[0], each]));
    for (const item of this.log.querySelectorAll(":scope > .ghost")) if (!wanted.has(item.id)) item.remove();
    let next = null; // from the last to the first; what stands right is not moved, for it may have the focus
    for (const [id, message, run] of [...wanted.values()].reverse()) {
      const item = document.getElementById(id) || (message ? this.saidItem(id, message) : this.growingItem(id));
      if (item.parentNode !== this.log || item.nextElementSibling !== next) this.log.insertBefore(item, next);
      if (message) item.querySelector(".foot").textContent = message.state;
      else this.growInto(item, run);
      next = item;
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
      complain(BLOCKED.test(error.message) ? new Error(`${error.message}. ${UNBLOCK}`) : error);
      return true;
    } finally {
      this.draw();
    }
  }
}
