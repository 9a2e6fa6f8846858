// @ts-check
// Needs attention: what failed, hangs or asks for a yes; why, and what helps.
import { Part, ago, empty, fill, h, nameOfKey, plural, to, whenOf } from "./dom.js";
import { keepingFocus } from "./controls.js";
import { complain, gateway, notice, press } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

/** @type {Record<string, string>} */
const KINDS = {
  run: "Runs",
  delivery: "Replies",
  wait: "Waits",
  job: "Jobs",
  device: "Devices",
  chat: "Chats",
  approval: "Approvals",
  model: "Models",
  channel: "Channels",
  store: "Store",
  budget: "Budgets",
  tool: "Tools",
};

class Attention extends Part {
  kind = "";
  list = h("ul", { cls: "troubles" });
  kinds = h("p", { cls: "kinds", role: "group", "aria-label": "Only" });
  clear = h("button", { type: "button", onclick: () => this.dismiss(this.rows) }, "Dismiss all");

  open() {
    fill(
      this,
      h("div", { cls: "page" }, h("header", null, h("h2", null, t("Needs attention")), this.clear), this.kinds, this.list),
    );
    this.hear(gateway, "attention", () => this.draw());
    this.repeat(30000, () => this.draw());
    this.draw();
    gateway.refreshAttention();
  }

  /** @param {string | null} kind */
  go(kind) {
    this.kind = kind && kind in KINDS ? kind : "";
    this.draw();
  }

  get rows() {
    return (gateway.attention?.rows || []).filter((row) => !this.kind || row.kind === this.kind);
  }

  draw() {
    if (!gateway.attention) return;
    const all = gateway.attention.rows;
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const row of all) counts.set(row.kind, (counts.get(row.kind) || 0) + 1);
    keepingFocus(this, () => {
      this.clear.hidden = !this.rows.length;
      fill(
        this.kinds,
        counts.size > 1 &&
          [["", `All ${all.length}`], ...[...counts].map(([kind, n]) => [kind, `${KINDS[kind] || kind} ${n}`])].map(
            ([kind, text]) =>
              h("a", { href: `#/attention${kind && `/${kind}`}`, "aria-current": kind === this.kind ? "true" : null }, text),
          ),
      );
      fill(this.list, ...this.rows.map((row) => this.row(row)));
      if (!this.rows.length)
        this.list.append(
          h("li", null, empty("Nothing needs you", "What fails, hangs or asks for a yes is shown here, with what helps.")),
        );
    });
  }

  /** @param {Api.AttentionRow} row */
  row(row) {
    /** @param {string} label @param {() => Promise<unknown>} work */
    const act = (label, work, cls = "") =>
      h("button", { type: "button", cls, onclick: (event) => this.act(event.currentTarget, work) }, label);
    return h(
      "li",
      { data: { kind: row.kind, id: row.id } },
      h(
        "div",
        { cls: "what" },
        h("i", { cls: "dot", "aria-hidden": "true" }),
        h(
          "p",
          null,
          row.key && h("a", { href: to.chat(row.key) }, nameOfKey(row.key)),
          row.key && " ",
          row.subject && `${row.subject} `,
          row.what,
          row.other && [" ", h("a", { href: to.chat(row.other) }, nameOfKey(row.other))],
        ),
        h("time", { title: whenOf(row.since) }, ago(row.since)),
      ),
      row.why && h("p", { cls: "why" }, row.why),
      row.helps && h("p", { cls: "hint" }, row.helps),
      h(
        "p",
        { cls: "acts" },
        (row.actions || []).map((each, i) =>
          act(each.label, () => wire.act(each), i ? "" : "main"),
        ),
        row.runId && h("a", { cls: "button", href: to.trace(row.runId) }, "Open the trace"),
        act("Dismiss", () => wire.call("attention.dismiss", { ids: [row.id] })),
      ),
    );
  }

  /** @param {HTMLButtonElement} button @param {() => Promise<unknown>} work */
  async act(button, work) {
    await press(button, work);
    await gateway.refreshAttention();
  }

  /** @param {Api.AttentionRow[]} rows */
  async dismiss(rows) {
    try {
      await wire.call("attention.dismiss", { ids: rows.map((row) => row.id) });
      notice(`${plural(rows.length, "row")} dismissed.`, { ms: 2500 });
    } catch (error) {
      complain(error);
    }
    await gateway.refreshAttention();
  }
}

customElements.define("cc-attention", Attention);
