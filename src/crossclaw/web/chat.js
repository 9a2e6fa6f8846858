// @ts-check
// Chat: a conversation as the ledger has it, the field below it and the list beside it.
import { Part, cost, debounce, face, fill, goneWords, h, icon, isPersons, nameOf, speakerOf, stateMark, to, tokens } from "./dom.js";
import { complain, gateway } from "./gateway.js";
import { t } from "./language.js";
import { Reading } from "./reading.js";
import { Speaking } from "./speaking.js";
import { Transcript } from "./transcript.js";
import { offerRehearsals } from "./rehearsals.js";
import { wire } from "./wire.js";
import "./approvals.js";
import "./composer.js";
import "./recent.js";

const REHEARSAL = [
  t("No model is set up, so the rehearsal answers: it does what lines like “say: Hello” tell it."),
  t("For a real one, type crossclaw onboard in a terminal."),
];

const SETTINGS = "Settings of this session";
const NARROW = matchMedia("(max-width: 699px)"); // list and conversation one after the other
const BEGUN_ANEW = new Set(["reset", "delete", "archive", "unarchive"]);

/** Brings together what is read (`reading`), how it looks (`transcript`) and what is said (`speaking`). */
export class Chat extends Part {
  /** @type {string | null} */ key = null;
  list = h("cc-recent");
  heading = h("h2");
  about = h("p", { cls: "about" });
  log = h("ol", { cls: "log", role: "log", "aria-label": "Conversation", "aria-live": "off", tabindex: "0" });
  status = h("p", { cls: "away", role: "status", "aria-live": "polite" });
  spoken = h("p", { cls: "sr", role: "status", "aria-live": "polite" }); // a whole reply, once
  down = h(
    "button",
    { type: "button", cls: "down", hidden: true, onclick: () => this.backToEnd() },
    "Newest messages",
  );
  composer = h("cc-composer");
  approvals = h("cc-approvals", { hidden: true });
  shut = h("p", { cls: "shut", hidden: true });
  settings = h("a", { cls: "icon", id: "settings", "aria-label": SETTINGS, title: SETTINGS }, icon("gear"));
  transcript = new Transcript(this.log);
  reading = new Reading(this);
  speaking = new Speaking(this);
  looked = debounce(() => {
    if (this.key && this.isConnected) gateway.look(this.key);
  }, 800);

  open() {
    this.place();
    this.hearAll();
  }

  place() {
    fill(
      this,
      this.list,
      h(
        "section",
        { cls: "talk", "aria-label": "Conversation" },
        h(
          "header",
          { cls: "bar" },
          h("a", { href: "#/chat", cls: "icon back", "aria-label": "All conversations" }, icon("back")),
          h("div", { cls: "who" }, this.heading, this.about),
          this.settings,
        ),
        this.log,
        this.down,
        this.status,
        this.spoken,
        this.approvals,
        this.shut,
        this.composer,
      ),
    );
  }

  hearAll() {
    const { reading, speaking } = this;
    /** @template {"session.message" | "agent" | "chat" | "sessions.changed"} Name
     * @param {Name} name @param {(detail: Api.Events[Name]) => void} listener */
    const ours = (name, listener) =>
      this.hear(wire, name, ({ detail }) => {
        if (detail.sessionKey === this.key) listener(detail);
      });
    // What is not a person's is read with what the ledger knows of it.
    ours("session.message", (detail) => {
      if (detail.message.role === "user" && !isPersons(detail.message.provenance)) reading.soon();
      else if (reading.loaded) reading.take([entryOf(detail)]);
    });
    this.hear(wire, "sessions.changed", ({ detail }) => {
      const { protocol } = this.transcript;
      if (protocol.open().some((each) => [each.requester, each.target].includes(detail.sessionKey))) reading.exchangesSoon();
    });
    ours("agent", (detail) => speaking.heard(detail));
    ours("chat", (detail) => speaking.ended(detail));
    ours("sessions.changed", (detail) => BEGUN_ANEW.has(detail.reason) && reading.load());
    this.hear(this.composer, "say", ({ detail }) => speaking.say(detail.text, detail.pictures));
    this.hear(this.log, "act", ({ detail }) => this.act(detail));
    this.hear(this.composer, "stop", () => this.stop());
    this.hear(this.log, "scroll", () => this.scrolled(), { passive: true });
    this.hear(gateway, "open", () => reading.again());
    this.hear(gateway, "recent", () => this.showAbout());
    this.hear(document, "visibilitychange", () => {
      if (!document.hidden && this.key) gateway.look(this.key);
    });
  }

  /** @param {string | null} key @param {URLSearchParams} query */
  go(key, query) {
    const inside = this.contains(document.activeElement);
    this.classList.toggle("chosen", Boolean(key));
    if (inside && NARROW.matches) (key ? this.log : this.list.linkTo(this.key))?.focus();
    const next = key || (NARROW.matches ? null : this.key || gateway.mainKey);
    const seq = Number(query.get("seq")) || null;
    if (next === this.key && !seq) return;
    if (this.key && this.key !== next && wire.ready)
      wire.call("sessions.messages.unsubscribe", { key: this.key }).catch(() => {});
    this.key = next;
    this.list.key = next;
    this.approvals.key = next;
    if (!next) return;
    this.settings.href = to.session(next);
    this.composer.show(next);
    this.reading.load(seq);
  }

  // ── what can be done with an entry ────────────────────────────────────────────────────────

  stop() {
    if (this.key) wire.call("chat.abort", { sessionKey: this.key }).catch(complain);
  }

  /** @param {{act: string, entry: Page.Entry}} what */
  async act({ act, entry }) {
    try {
      if (act !== "retry") await this.fork(entry);
      else if (entry.runId) await wire.call("runs.retry", { runId: entry.runId });
    } catch (error) {
      complain(error);
    }
  }

  /** A new conversation with the history up to here. At a person's message it ends before it, and its words are in the
   * field: to say something else instead is a fork too, nothing is rewritten.
   * @param {Page.Entry} entry */
  async fork(entry) {
    if (!this.key) return;
    const made = await wire.call("sessions.fork", { sessionKey: this.key, entryId: entry.entryId });
    await gateway.refresh();
    location.hash = to.chat(made.sessionKey);
    this.composer.whenShown(made.sessionKey, made.editorText || "");
  }

  // ── looks ─────────────────────────────────────────────────────────────────────────────────

  showAbout() {
    if (!this.key) return;
    const known = this.reading.row;
    const { budget, archivedAt, agentGone } = known || {};
    /** @type {Page.Row} */
    const row = { ...(gateway.row(this.key) || known || { key: this.key }), budget, archivedAt, agentGone };
    this.list.here = row;
    this.heading.textContent = nameOf(row);
    const facts = [h("code", null, this.key)];
    if (row.model) facts.push(h("span", null, row.model), h("span", null, `${tokens(row.tokens)} tokens`));
    if (row.costUsd) facts.push(h("span", null, cost(row.costUsd)));
    if (row.budget) facts.push(h("span", { title: row.budget.text }, `budget: ${row.budget.text}`));
    fill(this.about, row.archivedAt ? h("span", null, "archived") : row.standing && stateMark(row.standing, true), facts);
    this.showShut(row);
    this.composer.hidden = Boolean(this.reading.missing || row.archivedAt || row.agentGone);
  }

  /** Why nothing can be written here, and what would change that.
   * @param {Page.Row} row */
  showShut(row) {
    this.shut.hidden = !(row.archivedAt || row.agentGone);
    if (row.agentGone) fill(this.shut, goneWords(row));
    else if (row.archivedAt) {
      const back = h("button", { type: "button", onclick: () => this.bringBack() }, "Bring back");
      fill(this.shut, "This session is archived. It can be read, not written to.", back);
    }
  }

  bringBack() {
    if (this.key) wire.call("sessions.unarchive", { key: this.key }).catch(complain);
  }

  showEmpty() {
    this.log.querySelector(":scope > .empty")?.remove();
    const { pending, runs } = this.speaking;
    if (!this.reading.loaded || this.transcript.entries.size || pending.size || runs.size) return;
    const hint = h("p", null, t("Write below; “/” offers commands."));
    this.log.append(
      h("li", { cls: "empty" }, face(this.key), h("p", { cls: "title" }, t("Talk with {name}").replace("{name}", () => speakerOf(this.key))), hint),
    );
    gateway.rehearses().then(
      (yes) => yes && hint.after(...REHEARSAL.map((text) => h("p", { cls: "hint" }, text)), offerRehearsals()),
      () => {}, // the line went: the hint is no loss
    );
  }

  get low() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 90;
  }

  /** @param {boolean} low */
  follow(low) {
    const { atEnd } = this.reading;
    if (low && atEnd) this.log.scrollTop = this.log.scrollHeight;
    this.down.hidden = this.low && atEnd;
  }

  backToEnd() {
    this.log.focus({ preventScroll: true }); // the button goes when the end is there
    this.toEnd();
  }

  toEnd() {
    if (!this.reading.atEnd) this.reading.load();
    else
      requestAnimationFrame(() => {
        this.log.scrollTop = this.log.scrollHeight;
      });
  }

  scrolled() {
    const { reading } = this;
    if (this.log.scrollTop < 400) reading.older();
    if (this.low && !reading.atEnd) reading.newer();
    this.down.hidden = this.low && reading.atEnd;
  }

  /** @param {number} seq */
  point(seq) {
    /** @type {NodeListOf<HTMLElement>} */
    const shown = this.log.querySelectorAll("[data-seq]");
    const item =
      this.log.querySelector(`[data-seq="${seq}"]`) || [...shown].findLast((each) => Number(each.dataset.seq) <= seq);
    const folded = item?.closest("details");
    if (folded) folded.open = true;
    item?.scrollIntoView({ block: "center" });
    item?.classList.add("pointed");
  }
}

/** @param {Api.SessionMessage} detail @returns {Page.Entry} */
const entryOf = (detail) => ({
  seq: detail.messageSeq,
  entryId: detail.messageId,
  at: detail.message.timestamp ?? Date.now(),
  runId: detail.runId,
  type: "message",
  message: detail.message,
});

customElements.define("cc-chat", Chat);
