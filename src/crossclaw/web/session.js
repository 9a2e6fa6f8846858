// @ts-check
// One session: what is known of it, its settings, and what can be done with it.
import {
  Part,
  cost,
  count,
  dayOf,
  empty,
  fill,
  goneWords,
  h,
  iconButton,
  nameOf,
  nameOfKey,
  stateMark,
  timeOf,
  to,
} from "./dom.js";
import { select } from "./controls.js";
import { complain, gateway, notice } from "./gateway.js";
import { Lost, wire } from "./wire.js";

const UNDO_MS = 6000;

/** @typedef {import("./gateway.js").Known} Known */
/** @typedef {"label" | "model" | "thinkingLevel" | "verboseLevel" | "sendPolicy"} Setting */

/** Tells `changed` when the table should look again, and `leaving` when the session is about to go or stays. */
export class Session extends Part {
  /** @type {string | null} */ key = null;
  /** @type {Api.BudgetRow | undefined} */ budget;

  open() {
    this.hear(gateway, "open", () => this.show(this.key));
  }

  /** @param {string | null} key */
  async show(key) {
    this.key = key;
    this.hidden = !key;
    if (!key || !wire.ready) return;
    try {
      const row = await gateway.find(key);
      if (this.key !== key) return;
      this.budget = row?.budget;
      if (row) this.draw(row);
      else fill(this, this.head({ key }), empty("Not there", "This session was deleted, or never begun."));
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  /** What the table has read anew, without touching a field that somebody is in.
   * @param {Api.TableRow[]} rows */
  refresh(rows) {
    const found = rows.find((each) => each.key === this.key);
    const row = found && { ...found, budget: this.budget };
    if (row && !this.contains(document.activeElement)) this.draw(row);
    else if (row) this.querySelector(".facts")?.replaceWith(facts(row));
  }

  /** @param {"changed" | "leaving"} name @param {{key: string, how?: string}} [detail] */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** @param {Page.Row} row */
  head(row) {
    return h(
      "header",
      null,
      h("div", null, h("h3", null, nameOf(row)), h("code", null, row.key)),
      iconButton("close", "Close", () => {
        location.hash = "#/sessions";
      }),
    );
  }

  /** @param {Known} row */
  draw(row) {
    if (row.archivedAt) {
      fill(
        this,
        this.head(row),
        h("p", null, "This session is archived. It can be read, not written to."),
        facts(row),
        h("div", { cls: "acts" }, h("a", { cls: "button", href: to.chat(row.key) }, "Read it"),
          wire.offers("sessions.unarchive") &&
            h("button", { type: "button", onclick: () => this.bringBack(row) }, "Bring back"),
          this.deleter(row)),
      );
      return;
    }
    /** @param {Setting} name @param {string} label @param {HTMLInputElement | HTMLSelectElement} element */
    const field = (name, label, element) =>
      h(
        "label",
        null,
        label,
        Object.assign(element, { name, onchange: () => this.patch(row.key, name, element.value) }),
      );
    /** @param {Setting} name @param {import("./controls.js").Option[]} options */
    const chosen = (name, options) =>
      select(
        null,
        [["", `Default${name === "model" ? ` (${row.model})` : ""}`], ...options],
        null,
        row.overrides[name] || "",
      );
    const lasting = row.kind === "main" && !row.agentGone;
    const model = chosen("model", row.overrides.model ? [[row.overrides.model, row.overrides.model]] : []);
    fill(
      this,
      this.head(row),
      row.agentGone && h("p", null, goneWords(row)),
      facts(row),
      h(
        "form",
        { cls: "fields", "aria-label": "Settings of this session", onsubmit: (event) => event.preventDefault() },
        field(
          "label",
          "Label",
          h("input", { value: row.label || "", maxlength: 64, placeholder: "A name of your own" }),
        ),
        field("model", "Model", model),
        field(
          "thinkingLevel",
          "Thinking",
          chosen("thinkingLevel", ["off", "minimal", "low", "medium", "high", "xhigh"].map(twice)),
        ),
        field("verboseLevel", "Verbose", chosen("verboseLevel", ["on", "off", "full"].map(twice))),
        field(
          "sendPolicy",
          "Replies to its chat",
          chosen("sendPolicy", [
            ["allow", "allowed"],
            ["deny", "denied"],
          ]),
        ),
      ),
      h(
        "div",
        { cls: "acts" },
        h("a", { cls: "button", href: to.chat(row.key) }, "Open chat"),
        row.lane && h("button", { type: "button", onclick: () => this.stop(row) }, "Stop"),
        h("button", { type: "button", onclick: () => this.reset(row) }, "Reset"),
        !lasting &&
          wire.offers("sessions.archive") &&
          h("button", { type: "button", onclick: () => this.archive(row) }, "Archive"),
        !lasting && this.deleter(row),
      ),
    );
    this.fillModels(model, row);
  }

  /** @param {Known} row */
  deleter(row) {
    return h("button", { type: "button", cls: "bad", onclick: () => this.discard(row) }, "Delete");
  }

  /** @param {HTMLSelectElement} element @param {Known} row */
  async fillModels(element, row) {
    try {
      const { models } = await wire.call("models.list");
      const chosen = row.overrides.model;
      for (const model of models) {
        const id = `${model.provider}/${model.id}`;
        if (id !== chosen) element.append(h("option", { value: id }, id));
      }
    } catch {
      /* the choice that is set stays */
    }
  }

  /** @param {string} key @param {Setting} name @param {string} value */
  async patch(key, name, value) {
    try {
      await wire.call("sessions.patch", { key, [name]: value || null });
      notice("Saved.", { ms: 1800 });
      this.tell("changed");
      gateway.refreshSoon();
    } catch (error) {
      complain(error);
      this.show(this.key);
    }
  }

  /** @param {Known} row */
  stop(row) {
    wire.call("chat.abort", { sessionKey: row.key }).then(() => notice("Stopped."), complain);
  }

  /** The old transcript stays; the session waits a moment, so that Undo needs no way back.
   * @param {Known} row */
  reset(row) {
    notice(`${nameOf(row)} begins anew …`, {
      ms: UNDO_MS,
      undo: () => {},
      done: () => wire.call("sessions.reset", { key: row.key }).then(() => this.tell("changed"), complain),
    });
  }

  /** Done at once: it can be brought back at any time.
   * @param {Known} row */
  async archive(row) {
    try {
      await wire.call("sessions.archive", { key: row.key });
    } catch (error) {
      complain(error);
      return;
    }
    if (this.key === row.key) location.hash = "#/sessions";
    notice(`${nameOf(row)} is archived.`, { ms: UNDO_MS, undo: () => this.bringBack(row) });
    this.tell("changed");
  }

  /** @param {Known} row */
  async bringBack(row) {
    try {
      await wire.call("sessions.unarchive", { key: row.key });
      notice(`${nameOf(row)} is back.`, { ms: 2500 });
    } catch (error) {
      complain(error);
    }
    if (!this.isConnected) return;
    this.tell("changed");
    this.show(this.key);
  }

  /** Nothing brings back what is deleted, so it waits a moment.
   * @param {Known} row */
  discard(row) {
    this.tell("leaving", { key: row.key, how: "deleted" });
    location.hash = "#/sessions";
    const stay = () => this.tell("leaving", { key: row.key });
    notice(`${nameOf(row)} is deleted.`, {
      ms: UNDO_MS,
      undo: stay,
      done: async () => {
        await wire.call("sessions.delete", { key: row.key }).catch(complain);
        stay();
        this.tell("changed");
      },
    });
  }
}

/** @param {Api.TableRow} row */
export const channelOf = (row) => (row.channel === "unknown" ? "–" : row.channel);
/** @param {string} word @returns {[string, string]} */
export const twice = (word) => [word, word];

/** @param {Known} row */
function facts(row) {
  /** @type {[string, Page.Child][]} */
  const pairs = [
    ["State", row.archivedAt ? `archived ${dayOf(row.archivedAt)}, ${timeOf(row.archivedAt)}` : stateMark(row.standing, true)],
    [
      "Kind",
      row.spawnedBy
        ? h("span", null, "child of ", h("a", { href: to.session(row.spawnedBy) }, nameOfKey(row.spawnedBy)))
        : row.kind,
    ],
    ["Channel", channelOf(row)],
    ["Window", `${count(row.contextUsed)}${row.contextTokens ? ` of ${count(row.contextTokens)}` : ""} tokens`],
    ["Spent", `${count(row.tokens)} tokens${row.costUsd ? `, ${cost(row.costUsd)}` : ""}`],
    ["Begun", `${dayOf(row.createdAt)}, ${timeOf(row.createdAt)}`],
    ["Session id", h("code", null, row.sessionId)],
  ];
  if (row.budget) pairs.splice(-2, 0, ["Budget", row.budget.text]);
  const { runId, since } = row.standing;
  if (runId)
    pairs.splice(1, 0, [row.lane ? "Run" : "Last run", h("a", { href: to.run(runId) }, since ? `${row.lane ? "since " : ""}${timeOf(since)}` : runId)]);
  return h(
    "dl",
    { cls: "facts" },
    pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

customElements.define("cc-session", Session);
