// @ts-check
// What the last hour cost, in one line.
import { Part, cost, count, debounce, fill, h, plural, tokens } from "./dom.js";
import { house } from "./house.js";
import { wire } from "./wire.js";

const AGAIN_MS = 30000;

class LastHour extends Part {
  open() {
    this.soon = debounce(() => this.read(), 1500);
    this.hear(house, "open", () => this.read());
    this.hear(house, "recent", () => this.soon());
    this.clock = setInterval(() => this.read(), AGAIN_MS);
    this.read();
  }

  close() {
    clearInterval(this.clock);
    this.soon.cancel();
  }

  async read() {
    if (!wire.ready || !wire.offers("figures.get")) return;
    const { total } = await wire.call("figures.get", {}).catch(() => ({ total: null }));
    if (!total || !this.isConnected) return;
    const words = [
      h("b", null, total.costUsd ? cost(total.costUsd) : "$0.00"),
      ` · ${plural(total.turns, "turn")} · ${tokens(total.tokens)} tokens`,
      total.failed > 0 && h("span", { cls: "problem" }, ` · ${count(total.failed)} failed`),
    ];
    if (!this.link) {
      this.link = h("a", { href: "#/operations/figures/hour" });
      fill(this, this.link);
    }
    fill(this.link, "Last hour: ", words);
  }
}

customElements.define("cc-last-hour", LastHour);
