// @ts-check
// The config file, edited. It is checked while one types and written as a whole or not at all. Secrets are
// never here: the gateway shows each as (hidden) and keeps it when that comes back.
import { Part, debounce, empty, fill, h, plural, pretty, whyOf } from "./dom.js";
import { complain, notice } from "./gateway.js";
import { Lost, wire } from "./wire.js";

const CHECK_MS = 400;
/** @typedef {{text: string, hash: string}} Seen a text as the gateway gave it, and the hash of the file then */
/** @type {{seen: Seen | null, text: string} | null} */
let draft = null; // what was typed and not saved: it outlives the view, not the page

class ConfigEditor extends Part {
  /** @type {Seen | null} */ seen = null;
  /** @type {Seen | null} */ newer = null; // what somebody else wrote since
  broken = false; // the file cannot be read as it is

  about = h("div");
  gutter = h("div", { cls: "gutter", "aria-hidden": "true" });
  text = h("textarea", {
    "aria-label": "Config file",
    "aria-describedby": "config-findings",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    wrap: "off",
    rows: "1",
    oninput: () => this.typed(),
    onscroll: () => {
      this.gutter.scrollTop = this.text.scrollTop;
    },
  });
  findings = h("div", { cls: "findings", id: "config-findings", role: "status" });
  clash = h("div", { cls: "clash", role: "alert", hidden: true });
  saver = h("button", { type: "submit", cls: "main" }, "Save");
  backer = h("button", { type: "button", onclick: () => this.putBack() }, "Put back");
  form = h(
    "form",
    { "aria-label": "Edit the config", onsubmit: (event) => this.save(event) },
    h("div", { cls: "editor" }, this.gutter, this.text),
    this.clash,
    this.findings,
    h("div", { cls: "acts" }, this.saver, this.backer),
  );
  inForce = h("pre", { tabindex: "0", "aria-label": "Every key, with its default" });
  all = h("details", null, h("summary", null, "Every key, with its default"), this.inForce);
  checkSoon = debounce(() => this.check(), CHECK_MS);

  open() {
    fill(this, this.about, this.form, this.all);
  }

  get dirty() {
    return this.seen !== null && this.text.value !== this.seen.text;
  }

  async read() {
    const found = await wire.call("config.get");
    if (this.seen === null && draft) {
      this.seen = draft.seen;
      this.put(draft.text);
      this.checkSoon();
    }
    const { written, hash } = found;
    const fixed = this.broken && written !== null;
    this.broken = written === null;
    this.showAbout(found);
    this.inForce.textContent = pretty(found.config);
    this.form.hidden = this.broken && !this.dirty;
    if (written === null) {
      this.buttons(false);
      return;
    }
    if (fixed && this.dirty) this.checkSoon();
    const now = { text: written, hash };
    if (!this.dirty) this.begin(now);
    else if (now.hash !== this.seen?.hash) this.showClash(now);
  }

  /** The editor holds what the file says.
   * @param {Seen} now */
  begin(now) {
    const same = this.seen?.text === now.text;
    this.seen = now;
    draft = null;
    this.showClash(null);
    if (same && this.text.value === now.text) return;
    this.put(now.text);
    this.tell();
  }

  /** @param {string} text */
  put(text) {
    this.text.value = text;
    this.rule();
  }

  /** @param {Api.ConfigSnapshot} found */
  showAbout({ path, exists, written, warnings = [], issues = [], restart }) {
    const faults = [...issues, ...warnings].map((each) => [each.path, each.message].filter(Boolean).join(": "));
    fill(
      this.about,
      h(
        "p",
        { cls: "hint" },
        h("code", null, path),
        exists ? "" : " is not there yet: every value is a default. The first save makes it.",
        h("br"),
        "Only what loads is written; comments in the file stay. A secret is shown as ",
        h("code", null, "(hidden)"),
        " and kept as long as that stands there.",
      ),
      restart && h("p", { cls: "warn pending" }, "Saved and not yet in force: ", restart.reason, "."),
      faults.map((text) => h("p", { cls: "warn" }, text)),
      written === null &&
        empty(
          "It cannot be edited here",
          `The file cannot be read as it is. Fix the line named above by hand.${
            this.dirty ? " What you typed is kept, and can be saved after that." : ""
          }`,
        ),
    );
  }

  // ── typing ────────────────────────────────────────────────────────────────────────────────

  typed() {
    draft = this.dirty ? { seen: this.seen, text: this.text.value } : null;
    this.rule();
    this.tell("Checking …");
    this.checkSoon();
  }

  /** Line numbers; those of the faults stand out.
   * @param {Api.EditFault[]} faults */
  rule(faults = []) {
    const bad = new Set(faults.map((each) => each.line));
    const lines = this.text.value.split("\n").length;
    fill(
      this.gutter,
      Array.from({ length: lines }, (_, n) => h("i", { cls: bad.has(n + 1) ? "bad" : null }, String(n + 1))),
    );
    this.text.style.setProperty("--lines", String(lines));
    this.text.setAttribute("aria-invalid", String(bad.size > 0));
    this.gutter.scrollTop = this.text.scrollTop;
  }

  async check() {
    if (!this.dirty) {
      this.tell();
      return;
    }
    const raw = this.text.value;
    try {
      const answer = await this.ask(raw, true);
      if (raw === this.text.value) this.show(answer);
    } catch (error) {
      this.tell(whyOf(error), "problem");
    }
  }

  // Nothing is not a text that the gateway takes, and an empty file is not meant either.
  /** @param {string} raw @param {boolean} dryRun */
  ask(raw, dryRun) {
    return wire.call("config.edit", { raw: raw || " ", baseHash: this.seen?.hash, dryRun });
  }

  /** @param {Api.EditResult} answer */
  show(answer) {
    const { problems = [], changed = [], warnings = [] } = answer;
    if (answer.stale) {
      this.read().catch(complain);
      return;
    }
    this.rule(problems);
    if (problems.length) {
      fill(
        this.findings,
        h("p", { cls: "problem" }, `${plural(problems.length, "problem")}; nothing is written before it is fixed.`),
        h("ul", { cls: "faults" }, problems.map((each) => this.fault(each))),
      );
      this.buttons(false);
    } else
      this.tell(
        changed.length ? `Good. Changes ${changed.join(", ")}.` : "Good. It says the same as the file.",
        "",
        warnings,
        changed.length > 0,
      );
  }

  /** @param {Api.EditFault} fault */
  fault({ line, key, message }) {
    return h(
      "li",
      null,
      h("button", { type: "button", onclick: () => this.point(line) }, `Line ${line}`),
      h("span", null, key && h("code", null, key), key && " ", message),
    );
  }

  /** @param {number} line */
  point(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + lines[line - 1].length);
  }

  /** @param {string} [words] @param {string} [cls] @param {string[]} [warnings] */
  tell(words = "", cls = "", warnings = [], good = true) {
    fill(this.findings, words && h("p", { cls: cls || "hint" }, words), warnings.map((each) => h("p", { cls: "warn" }, each)));
    this.buttons(good);
  }

  /** @param {boolean} good */
  buttons(good) {
    this.saver.disabled = !this.dirty || !good || this.newer !== null || this.broken;
    this.backer.disabled = !this.dirty;
  }

  // ── saving ────────────────────────────────────────────────────────────────────────────────

  /** @param {SubmitEvent} event */
  async save(event) {
    event.preventDefault();
    if (!this.dirty || this.newer || this.broken) return;
    const raw = this.text.value;
    try {
      const answer = await this.ask(raw, false);
      if (!answer.ok) {
        this.show(answer);
        return;
      }
      draft = null;
      this.seen = null;
      await this.read();
      for (const each of answer.warnings || []) notice(each);
      notice(
        answer.restart?.required
          ? "Saved. It counts from the gateway's next start."
          : "Saved. The gateway takes it over as soon as no run is under way.",
      );
    } catch (error) {
      complain(error instanceof Lost ? new Error("Not saved: the line is down. Your text is kept here.") : error);
    }
  }

  putBack() {
    const mine = this.text.value;
    const now = this.newer || this.seen;
    if (!now) return;
    this.begin(now);
    this.put(now.text);
    this.tell();
    notice("Your changes are taken back.", {
      undo: () => {
        this.put(mine);
        this.typed();
      },
    });
  }

  /** Somebody else was faster. Whose text it is to be is for the person to say; neither is lost.
   * @param {Seen | null} now */
  showClash(now) {
    if (now && now.hash === this.newer?.hash) return;
    this.newer = now;
    this.clash.hidden = !now;
    this.buttons(true);
    if (!now) return;
    fill(
      this.clash,
      h(
        "p",
        null,
        h("b", null, "Somebody else has changed the file since."),
        " Nothing of yours is lost or written. This is how it stands now:",
      ),
      h("pre", { tabindex: "0", "aria-label": "The file as it is now" }, now.text),
      h(
        "div",
        { cls: "acts" },
        h("button", { type: "button", onclick: () => this.putBack() }, "Take theirs"),
        h("button", { type: "button", onclick: () => this.keepMine(now) }, "Go on with mine"),
      ),
    );
  }

  /** What a save would change is told again, now against their text.
   * @param {Seen} now */
  keepMine(now) {
    this.seen = now;
    this.showClash(null);
    this.typed();
    this.text.focus();
  }
}

customElements.define("cc-config", ConfigEditor);
