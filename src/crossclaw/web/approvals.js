// @ts-check
// What this conversation's runs ask a person for: the whole command, and the answers.
import { Part, fill, h, plural } from "./dom.js";
import { gateway, press } from "./gateway.js";
import { wire } from "./wire.js";

const ANSWERS = { "allow-once": "Allow once", "allow-always": "Always allow", deny: "Deny" };

export class Approvals extends Part {
  #key = null;
  rows = [];

  set key(key) {
    this.#key = key;
    this.look();
  }

  open() {
    this.setAttribute("role", "region");
    this.setAttribute("aria-label", "Needs your yes");
    for (const name of ["exec.approval.requested", "exec.approval.resolved"]) this.hear(wire, name, () => this.look());
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

  async answer(button, id, decision) {
    await press(button, () => wire.call("exec.approval.resolve", { id, decision }));
    document.getElementById("say")?.focus();
    await this.look();
  }
}

customElements.define("cc-approvals", Approvals);
