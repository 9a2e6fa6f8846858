// Exchanges: who asked whom, newest first.
import { Part, dayOf, debounce, empty, fill, h, nameOfKey, oneLine, plural, statusMark, timeOf, to } from "./dom.js";
import { complain, house } from "./house.js";
import { Lost, wire } from "./wire.js";

class Exchanges extends Part {
  open() {
    this.list = h("ul", { cls: "cards" });
    fill(
      this,
      h(
        "div",
        { cls: "page" },
        h("header", null, h("h2", null, "Exchanges"), h("p", { cls: "hint" }, "who asked whom, newest first")),
        this.list,
      ),
    );
    this.soon = debounce(() => this.read(), 500);
    this.hear(house, "open", () => this.read());
    this.hear(wire, "sessions.changed", () => this.soon());
    this.read();
  }

  go() {}

  async read() {
    if (!wire.ready) return;
    try {
      const { exchanges } = await wire.call("exchanges.list", {});
      fill(
        this.list,
        ...exchanges.map((each) =>
          h(
            "li",
            null,
            h(
              "a",
              { href: to.exchange(each.id) },
              h("span", { cls: "route" }, `${nameOfKey(each.requester)} → ${nameOfKey(each.target)}`),
              h(
                "span",
                { cls: "meta" },
                each.kind === "spawn" ? "spawn" : plural(each.turn || 0, "round"),
                statusMark(each.state === "over" || each.endedAt ? "ok" : "running"),
                h("time", null, `${dayOf(each.createdAt)}, ${timeOf(each.createdAt)}`),
              ),
              h("span", { cls: "text" }, oneLine(each.request, 220)),
            ),
          ),
        ),
      );
      if (!exchanges.length)
        this.list.append(
          h(
            "li",
            null,
            empty(
              "No agent has asked another yet",
              "When one uses sessions_send or sessions_spawn, the conversation between them is shown here, step by step.",
            ),
          ),
        );
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }
}

customElements.define("cc-exchanges", Exchanges);
