// @ts-check
// What the last hour cost, in one line.
import { Part, cost, count, debounce, fill, h, tokens } from "./dom.js";
import { gateway } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";

const AGAIN_MS = 30000;

class LastHour extends Part {
  soon = debounce(() => this.read(), 1500);
  /** @type {HTMLAnchorElement | undefined} */ link;
  failed = h("a", { cls: "problem", href: "#/attention" }); // what failed and why

  open() {
    this.hear(gateway, "open", () => this.read());
    this.hear(gateway, "recent", () => this.soon());
    this.repeat(AGAIN_MS, () => this.read());
    this.read();
  }

  close() {
    this.soon.cancel();
  }

  async read() {
    if (!wire.ready || !wire.offers("figures.get")) return;
    const { total } = await wire.call("figures.get", {}).catch(() => ({ total: null }));
    if (!total || !this.isConnected) return;
    if (!this.link) {
      this.link = h("a", { href: "#/operations/figures/hour" });

      fill(this, this.link, this.failed);
    }
    const turns = `${count(total.turns)} ${total.turns === 1 ? t("turn") : t("turns")}`;
    fill(this.link, t("Last hour:"), " ", h("b", null, total.costUsd ? cost(total.costUsd) : "$0.00"), ` · ${turns} · ${tokens(total.tokens)} tokens`);
    this.failed.hidden = !total.failed;
    fill(this.failed, " · ", t("{count} failed").replace("{count}", count(total.failed)));
  }
}

customElements.define("cc-last-hour", LastHour);
