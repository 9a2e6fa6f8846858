// @ts-check
// What agents say to each other by rule (rounds, announces, reports), as one quiet line that unfolds. What an entry
// is for, and what became of it, are facts of the ledger: words are looked at only to show the beginning of a report.
import { fill, h, isBad, nameOfKey, oneLine, plural, stateMark, textOf, to, within } from "./dom.js";

/** @typedef {HTMLLIElement & {said?: string, silent?: boolean}} Line that unfolds, and what was said last in it */

/** @type {Record<string, string>} */
export const EXPLAINED = {
  round: "After a reply, requester and target speak in turn until one says REPLY_SKIP.",
  announce: "When all is said, the session is asked what its own chat should hear; ANNOUNCE_SKIP is silence.",
  report: "When its task is over, a child is asked what to report to its parent; ANNOUNCE_SKIP is silence.",
};
const TOKENS = new Set(["REPLY_SKIP", "ANNOUNCE_SKIP", "NO_REPLY", "HEARTBEAT_OK"]);
const STEPS = new Set(["round", "announce"]);
/** @type {Record<string, string>} */
const ANNOUNCED = {
  delivered: "announced",
  silent: "nothing announced",
  "no address": "announced to no chat",
  failed: "the announce failed",
};
const RESULT = /^Result:\s*([\s\S]*?)\n+Notes:/m;

/** @param {string} text */
export const isSilent = (text) => TOKENS.has(text.trim());
/** @param {string | null} [kind] */
export const isStep = (kind) => Boolean(kind && STEPS.has(kind));

/** The lines of one transcript, and the facts that they are made from. */
export class Protocol {
  /** @type {Map<string, {kind: string, id?: string}>} by run: its kind, and the send or the child that it belongs to */
  steps = new Map();
  /** @type {Map<string, Api.ExchangeRow>} by that id */
  facts = new Map();

  /** @param {string | null} key whose transcript it is */
  constructor(key) {
    this.key = key;
  }

  /** What the gateway knows of sends and children.
   * @param {Api.ExchangeRow[] | undefined} exchanges
   * @param {HTMLElement} log the lines in it are drawn anew */
  learn(exchanges, log) {
    for (const each of exchanges || []) this.facts.set(each.id, each);
    for (const line of /** @type {NodeListOf<Line>} */ (log.querySelectorAll(":scope > .protocol"))) this.draw(line);
  }

  /** Those that may still change. */
  open() {
    return [...this.facts.values()].filter((each) => each.state !== "over");
  }

  /** The line that an entry belongs into, by its id; null for what people read as a message.
   * @param {Page.Entry} entry */
  lineOf(entry) {
    if (entry.runId && entry.runKind) this.steps.set(entry.runId, { kind: entry.runKind, id: entry.exchange });
    const { kind, id = "" } = this.steps.get(entry.runId || "") || { kind: null, id: entry.exchange };
    const { message } = entry;
    const own = this.facts.get(id);
    if (!message || !own) return null;
    if (own.kind === "spawn" && own.requester === this.key) return message.role === "user" ? id : null; // a report
    if (!isStep(kind)) return null;
    const said = message.role === "assistant" && own.kind === "send" && kind === "announce" && announces(message);
    return said ? null : id;
  }

  /** An empty line.
   * @param {string} id @param {number} at @returns {Line} */
  make(id, at) {
    const line = h(
      "li",
      { cls: "protocol", data: { who: "protocol", run: "", exchange: id, at } },
      h("details", null, h("summary"), h("div", { cls: "inside" }, h("ol"), h("p", { cls: "hint" }))),
    );
    this.draw(line);
    return line;
  }

  /** @param {Line} line */
  draw(line) {
    const id = line.dataset.exchange || "";
    const facts = this.facts.get(id);
    if (!facts) return;
    const report = facts.kind === "spawn" && facts.requester === this.key;
    const parts = report ? [`report of ${nameOfKey(facts.target)}`] : this.parts(facts, line);
    const words = report && RESULT.exec(line.said || "")?.[1];
    fill(
      within(line, "summary"),
      h("span", { cls: "line" }, parts.join(" · "), words && h("span", { cls: "begins" }, ` · ${oneLine(words, 90)}`)),
      isBad(facts.standing) && stateMark(facts.standing, true),
    );
    const why = facts.kind === "spawn" ? EXPLAINED.report : `${facts.turn ? `${EXPLAINED.round} ` : ""}${EXPLAINED.announce}`;
    const leads = facts.kind === "spawn" ? "Task and report, step by step" : "The whole exchange";
    fill(within(line, ".hint"), why, " ", h("a", { href: to.exchange(id) }, leads));
  }

  /** @param {Api.ExchangeRow} facts @param {Line} line */
  parts(facts, line) {
    const asked = facts.target === this.key;
    const { requester, target, turn, state } = facts;
    if (facts.kind === "spawn") {
      const over = line.silent ? "nothing reported" : `reported to ${nameOfKey(requester)}`;
      return [`asked by ${nameOfKey(requester)} what to report`, state === "over" ? over : "under way"];
    }
    const end = state === "announcing" ? "announce under way" : "under way";
    return [
      asked ? `asked by ${nameOfKey(requester)}` : `asked ${nameOfKey(target)}`,
      ...(turn ? [plural(turn, "round")] : []),
      state === "over" ? ANNOUNCED[facts.announce || ""] || facts.standing?.name || "over" : end,
    ];
  }

  /** Puts an entry into its line, in order.
   * @param {Line} line @param {HTMLElement} item @param {Page.Entry} entry */
  into(line, item, entry) {
    const list = within(line, "ol");
    const shown = /** @type {HTMLElement[]} */ ([...list.children]);
    const after = shown.findLast((each) => Number(each.dataset.seq) < entry.seq);
    if (after) after.after(item);
    else list.prepend(item);
    line.dataset.seq = String(Math.min(entry.seq, Number(line.dataset.seq) || Infinity));
    const text = textOf(entry.message);
    if (entry.message?.role === "assistant") line.silent = isSilent(text);
    if (entry.message?.role === "user") line.said = text;
    // A report that nobody answers is all that a person hears of it.
    if (!entry.runId && RESULT.test(text)) within(line, "details").open = true;
    this.draw(line);
  }
}

/** Its last words, and not silence.
 * @param {Api.Message} message */
const announces = (message) =>
  textOf(message).trim() && !isSilent(textOf(message)) && message.stopReason !== "toolUse";
