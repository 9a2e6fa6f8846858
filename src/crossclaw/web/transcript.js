// @ts-check
// A transcript as people read it: entries in their order, calls with their results, parts that belong together.
import {
  authorOf,
  cost,
  count,
  dayOf,
  exactTime,
  face,
  h,
  isPersons,
  lasted,
  letter,
  nameOfKey,
  oneLine,
  pretty,
  speakerOf,
  textOf,
  thought,
  timeOf,
  to,
  within,
} from "./dom.js";
import { copy, showWords } from "./gateway.js";
import { Protocol, isSilent } from "./protocol.js";
import { wire } from "./wire.js";

const SHOWN_CHARS = 200_000; // of one text; Copy takes all of it

/** Shows entries in `log`. */
export class Transcript {
  /** @type {string | null} */ key = null;
  /** @type {Map<number, Page.Entry>} */ entries = new Map(); // by number
  /** @type {Map<string, HTMLElement>} */ calls = new Map(); // the lines of tool calls, by the id of the call
  /** @type {Map<string, Api.Message>} */ results = new Map(); // what tools answered, by the id of the call
  protocol = new Protocol(null);

  /** @param {HTMLElement} log */
  constructor(log) {
    this.log = log;
  }

  /** Another conversation, or the same one from its beginning.
   * @param {string | null} key */
  begin(key) {
    this.key = key;
    this.entries = new Map();
    this.calls = new Map();
    this.results = new Map();
    this.protocol = new Protocol(key);
  }

  // ── entries ───────────────────────────────────────────────────────────────────────────────

  /** Puts an entry in its place; one that is shown already is left as it is.
   * @param {Page.Entry} entry
   * @returns {boolean} whether it is new */
  add(entry) {
    if (this.entries.has(entry.seq)) return false;
    this.entries.set(entry.seq, entry);
    this.place(entry);
    return true;
  }

  /** Takes the oldest out of the document, so that `most` are left.
   * @param {number} most
   * @returns {number} the number of the oldest that is left */
  trim(most) {
    const gone = [...this.entries.keys()].sort((a, b) => a - b).slice(0, this.entries.size - most);
    for (const seq of gone) {
      this.entries.delete(seq);
      const item = this.log.querySelector(`:is(:scope, .protocol ol) > [data-seq="${seq}"]:not(.protocol)`);
      const line = /** @type {HTMLElement} */ (item?.closest(".protocol"));
      item?.remove();
      if (line && !line.querySelector("ol > *")) line.remove();
    }
    return (gone.at(-1) ?? 0) + 1;
  }

  /** @param {Page.Entry} entry */
  place(entry) {
    if (entry.message?.role === "toolResult") {
      const { toolCallId = "" } = entry.message;
      this.results.set(toolCallId, entry.message);
      this.fill(toolCallId);
      return;
    }
    if (this.continued(entry)) return;
    const item = this.item(entry);
    if (!item) return;
    item.dataset.seq = String(entry.seq);
    const after = this.items().findLast((each) => Number(each.dataset.seq) < entry.seq);
    const id = this.protocol.lineOf(entry);
    const around = [after, after ? next(after) : this.items()[0]];
    const line = id && around.find((each) => each?.dataset.exchange === id);
    if (line) this.protocol.into(/** @type {HTMLLIElement} */ (line), item, entry);
    else if (id) {
      const made = this.protocol.make(id, entry.at);
      this.protocol.into(made, item, entry);
      this.insert(made, after);
    } else this.insert(item, after);
  }

  /** @param {HTMLElement} item @param {HTMLElement} [after] */
  insert(item, after) {
    if (after) after.after(item);
    else this.log.prepend(item);
    this.join(item);
    const following = next(item);
    if (following) this.join(following);
  }

  /** The entries that are shown, oldest first.
   * @returns {HTMLElement[]} */
  items() {
    return [.../** @type {NodeListOf<HTMLElement>} */ (this.log.querySelectorAll(":scope > [data-seq]"))];
  }

  /** A reply that the model's limit cut is continued in the next entry: the two are one.
   * @param {Page.Entry} entry */
  continued(entry) {
    const before = this.entries.get(entry.seq - 1);
    if (
      before?.message?.stopReason !== "length" ||
      before.runId !== entry.runId ||
      entry.message?.role !== "assistant"
    )
      return false;
    const selector = `[data-seq][data-run="${CSS.escape(entry.runId || "")}"] .words`;
    const shown = /** @type {import("./gateway.js").Words[]} */ ([...this.log.querySelectorAll(selector)]).at(-1);
    if (!shown || blocksOf(entry.message).some((block) => block.type === "toolCall")) return false;
    showWords(shown, (shown.said || "") + textOf(entry.message));
    return true;
  }

  /** A message after one of the same run and speaker is a part of it; a new day says so.
   * @param {HTMLElement} item */
  join(item) {
    const named = item.previousElementSibling;
    if (named?.classList.contains("day")) named.remove();
    const before = /** @type {HTMLElement | null} */ (item.previousElementSibling);
    const same =
      before &&
      before.dataset.who === item.dataset.who &&
      before.dataset.run === item.dataset.run &&
      item.dataset.who !== "user";
    item.classList.toggle("joined", Boolean(same));
    const today = new Date(Number(item.dataset.at)).toDateString();
    if (!before?.dataset.at || new Date(Number(before.dataset.at)).toDateString() !== today) {
      item.before(h("li", { cls: "day" }, h("span", null, dayOf(Number(item.dataset.at)))));
    }
  }

  /** @param {Page.Entry} entry */
  item(entry) {
    const { message, at } = entry;
    if (!message) return entry.note ? this.noteItem(entry, entry.note) : null;
    const side = message.role !== "user" ? "assistant" : isPersons(message.provenance) ? "user" : "other";
    const who = side === "other" ? `from:${authorOf(message.provenance)}` : side;
    const item = h("li", { cls: `message ${side}`, data: { who, run: entry.runId || "", at } });
    item.append(this.head(message, entry, side));
    const body = h("div", { cls: "body" });
    for (const block of blocksOf(message)) {
      const shown = this.block(block);
      if (shown) body.append(shown);
    }
    if (message.errorMessage) body.append(h("p", { cls: "problem" }, message.errorMessage));
    if (!body.childNodes.length && side === "assistant" && message.stopReason === "stop")
      body.append(h("p", { cls: "silent" }, "said nothing"));
    if (!body.childNodes.length) return null;
    item.append(body, this.foot(message, entry));
    return item;
  }

  /** @param {Api.Message} message @param {{at: number, runId?: string | null}} entry @param {"user" | "other" | "assistant"} side */
  head({ provenance }, entry, side) {
    if (side === "user") return h("h3", { cls: "sr" }, `${provenance?.sender || "You"}, ${timeOf(entry.at)}`);
    const from = side === "other" ? provenance?.sourceSessionKey : null;
    const key = side === "other" ? from : this.key;
    const name = side === "other" ? authorOf(provenance) : speakerOf(this.key);
    return h(
      "h3",
      { cls: "head" },
      key ? face(key) : letter(name),
      h("span", { cls: "name" }, name),
      from &&
        h(
          "a",
          { cls: "via", href: entry.runId ? to.exchange(entry.runId) : to.chat(from) },
          provenance?.kind === "announce" ? "announce" : "message from an agent",
        ),
      h("time", null, timeOf(entry.at)),
    );
  }

  /** @param {Api.Message} message @param {Page.Entry} entry */
  foot(message, entry) {
    const { usage, omitted, bytes = 0 } = message;
    const facts = [
      exactTime(entry.at),
      omitted && `${(bytes / 1e6).toFixed(1)} MB, only its beginning is shown`,
      usage && `${count(usage.totalTokens)} tokens`,
      usage?.cost && cost(usage.cost.total),
    ]
      .filter(Boolean)
      .join(" · ");
    return h("p", { cls: "foot" }, facts, entry.runId && h("a", { href: to.run(entry.runId) }, "run"), this.acts(message, entry));
  }

  /** What can be done with an entry.
   * @param {Api.Message} message @param {Page.Entry} entry */
  acts(message, entry) {
    const mine = message.role === "user" && isPersons(message.provenance);
    const failed = message.errorMessage || ["error", "aborted"].includes(message.stopReason || "");
    const text = textOf(message);
    /** @param {string} name @param {string} label */
    const act = (name, label) =>
      h(
        "button",
        {
          type: "button",
          data: { act: name },
          onclick: () => this.log.dispatchEvent(new CustomEvent("act", { detail: { act: name, entry } })),
        },
        label,
      );
    return [
      text.trim() && h("button", { type: "button", onclick: (event) => copy(event.currentTarget, text) }, "Copy"),
      entry.entryId && wire.offers("sessions.fork") && act("fork", mine ? "Edit in a fork" : "Fork from here"),
      failed && entry.runId && wire.offers("runs.retry") && act("retry", "Retry"),
    ];
  }

  /** @param {Api.Block} block */
  block(block) {
    if (block.type === "text" && isSilent(block.text))
      return h("p", { cls: "silent" }, "said nothing (", block.text.trim(), ")");
    if (block.type === "text") return block.text.trim() ? words(shortened(block.text)) : null;
    if (block.type === "image")
      return h("img", {
        cls: "picture",
        alt: "Attached picture",
        loading: "lazy",
        src: block.data ? `data:${block.mimeType};base64,${block.data}` : null,
      });
    if (block.type === "thinking") return block.thinking ? thought(block.thinking) : null;
    if (block.type !== "toolCall") return null;
    const line = h(
      "details",
      { cls: "tool", data: { state: "running" } },
      h(
        "summary",
        null,
        h("span", { cls: "verb" }, block.name),
        h("span", { cls: "line" }, oneLine(block.arguments, 110)),
        h("span", { cls: "time" }),
      ),
      h(
        "div",
        { cls: "inside" },
        h("h4", null, "Input"),
        h("pre", null, pretty(block.arguments)),
        h("h4", null, "Output"),
        h("pre", { cls: "out" }, "…"),
      ),
    );
    this.calls.set(block.id, line);
    this.fill(block.id);
    return line;
  }

  /** @param {string} callId */
  fill(callId) {
    const line = this.calls.get(callId),
      result = this.results.get(callId);
    if (!line || !result) return;
    /** @type {{name: string, why?: string} | null} */
    const failed = result.standing || (result.isError ? { name: "failed" } : null);
    line.dataset.state = failed ? "bad" : "ok";
    within(line, ".time").textContent = `${failed ? `${oneLine(failed.why || failed.name, 60)} · ` : ""}${lasted(result.durationMs)}`;
    within(line, ".out").textContent = textOf(result) || "(nothing)";
  }

  /** @param {Page.Entry} entry @param {Api.Note} note */
  noteItem(entry, note) {
    const { about, text, answer, reason, from = "" } = note;
    if (about === "fork")
      return h(
        "li",
        { cls: "note", data: { who: "note", run: "", at: entry.at } },
        h("span", null, "Forked here from ", h("a", { href: to.chat(from) }, nameOfKey(from)), ". What follows is only in this one."),
      );
    if (about === "command")
      return h(
        "li",
        { cls: "command", data: { who: "command", run: entry.runId || "", at: entry.at } },
        h("code", null, text),
        words(answer || ""),
      );
    if (reason)
      return h(
        "li",
        { cls: "note", data: { who: "note", run: entry.runId || "", at: entry.at } },
        h("span", null, `${about || "note"}: ${reason}`),
      );
    return h(
      "li",
      { cls: "note", data: { who: "note", run: entry.runId || "", at: entry.at } },
      h(
        "span",
        null,
        entry.type === "compaction" ? "Older messages were summarised here." : oneLine(note, 200),
      ),
    );
  }
}

/** The entry that follows, over the name of its day.
 * @param {HTMLElement} item */
const next = (item) => {
  const found = item.nextElementSibling;
  const entry = /** @type {HTMLElement | null | undefined} */ (found?.classList.contains("day") ? found.nextElementSibling : found);
  return entry?.dataset.seq ? entry : null;
};

/** Nobody reads megabytes, and a browser takes seconds to lay them out.
 * @param {string} text */
const shortened = (text) =>
  text.length <= SHOWN_CHARS ? text : `${text.slice(0, SHOWN_CHARS)}\n\n… ${count(text.length - SHOWN_CHARS)} more characters`;

/** @param {string} text */
export function words(text) {
  const element = h("div", { cls: "words" });
  showWords(element, text);
  return element;
}

/** @param {Pick<Api.Message, "content">} message @returns {Api.Block[]} */
export const blocksOf = (message) =>
  typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content || [];
