// @ts-check
// Exchanges: who asked whom, newest first.
import { Part, dayOf, debounce, empty, fill, h, isBad, nameOfKey, oneLine, plural, stateMark, to, whenOf } from "./dom.js";
import { complain, gateway } from "./gateway.js";
import { t } from "./language.js";
import { offerRehearsals } from "./rehearsals.js";
import { Lost, wire } from "./wire.js";

class Exchanges extends Part {
  list = h("ul", { cls: "cards" });
  soon = debounce(() => this.read(), 500);

  open() {
    fill(
      this,
      h(
        "div",
        { cls: "page" },
        h("header", null, h("h2", null, t("Exchanges")), h("p", { cls: "hint" }, t("who asked whom, newest first"))),
        this.list,
      ),
    );
    this.hear(gateway, "open", () => this.read());
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
                each.kind === "spawn" ? "spawn" : each.turn ? plural(each.turn, "round") : "send",
                stateMark(each.standing),
                h("time", { title: dayOf(each.createdAt) }, whenOf(each.createdAt)),
              ),
              h("span", { cls: "text" }, oneLine(each.request, 220)),
              isBad(each.standing) && h("span", { cls: "text problem" }, oneLine(each.standing?.why || each.standing?.name, 220)),
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
              "Ask one of them to ask another. What they say to each other is shown here, step by step.",
              otherAgent() && h("p", null, h("code", null, `ask: ${otherAgent()} Which atlas do we have?`)),
              h("p", null, h("a", { href: "#/chat" }, t("Talk with an agent")), t(", or add one: "), h("code", null, "crossclaw agents add")),
              offerRehearsals(),
            ),
          ),
        );
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }
}

/** One that the first can ask. */
const otherAgent = () => gateway.agents[1]?.id;

customElements.define("cc-exchanges", Exchanges);
