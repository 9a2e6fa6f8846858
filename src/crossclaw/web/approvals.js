// @ts-check
// What this conversation's runs ask a person for: the whole command, and the answers.
import { Part, fill, h, plural } from "./dom.js";
import { gateway, press } from "./gateway.js";
import { wire } from "./wire.js";

/** @type {Record<Api.ApprovalResolved["decision"], string>} */
const ANSWERS = { "allow-once": "Allow once", "allow-always": "Always allow", deny: "Deny" };

export class Approvals extends Part {
  /** @type {string | null} */ #key = null;
  /** @type {Api.ApprovalRequested[]} */ rows = [];

  /** @param {string | null} key */
  set key(key) {
    this.#key = key;
    this.look();
  }

  open() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Needs your yes");
    this.hear(wire, "exec.approval.requested", () => this.look());
    this.hear(wire, "exec.approval.resolved", () => this.look());
    this.hear(gateway, "open", () => this.look());
    this.repeat(15000, () => this.rows.length && this.draw());
    this.draw();
  }

  async look() {
    const key = this.#key;
    if (!key || !wire.ready || !wire.offers("exec.approval.list")) return;
    try {
      const all = await wire.call("exec.approval.list", {});
      if (key !== this.#key) return;
      this.rows = all.filter((each) => each.request.sessionKey === key);
      this.draw();
    } catch {
      /* this page may not answer, or the line went: the next look tells */
    }
  }

  draw() {
    this.hidden = !this.rows.length;
    const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.answer;
    fill(this, ...this.rows.map((row) => this.card(row)));
    if (focused) /** @type {HTMLElement | null} */ (this.querySelector(`[data-answer="${focused}"]`))?.focus();
  }

  /** @param {Api.ApprovalRequested} row */
  card({ id, request, expiresAtMs }) {
    const left = Math.max(0, Math.ceil((expiresAtMs - Date.now()) / 60000));
    const facts = [
      request.resolvedPath && `Program ${request.resolvedPath}.`,
      request.cwd && `In ${request.cwd}${request.host === "sandbox" ? ", sandboxed" : ""}.`,
      request.warningText && `${request.warningText}.`,
      request.whyOnce && `Only once: it has ${request.whyOnce}.`,
      `Without an answer it is a no in ${plural(left, "minute")}.`,
    ];
    return h(
      "article",
      null,
      h("h3", null, "May it run this?"),
      h("pre", { tabindex: "0", "aria-label": "What would be run" }, request.command),
      h("p", { cls: "hint" }, facts.filter(Boolean).join(" ")),
      h(
        "p",
        { cls: "acts" },
        request.allowedDecisions.map((decision, i) =>
          h(
            "button",
            {
              type: "button",
              cls: i ? null : "main",
              data: { answer: `${id}-${decision}` },
              onclick: (event) => this.answer(event.currentTarget, id, decision),
            },
            ANSWERS[decision],
          ),
        ),
      ),
    );
  }

  /** @param {HTMLButtonElement} button @param {string} id @param {Api.ApprovalResolved["decision"]} decision */
  async answer(button, id, decision) {
    await press(button, () => wire.call("exec.approval.resolve", { id, decision }));
    document.getElementById("say")?.focus();
    await this.look();
  }
}

customElements.define("cc-approvals", Approvals);
