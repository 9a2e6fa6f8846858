// @ts-check
// The list beside the chat.
import { Part, agentOf, ago, empty, face, fill, h, iconButton, isBad, nameOf, stateMark, to } from "./dom.js";
import { complain, house } from "./house.js";
import { wire } from "./wire.js";

/** The newest conversations and the agents, with what goes on and what is unread. */
class Recent extends Part {
  #key = null;
  #here = null;

  set key(key) {
    this.#key = key;
    if (this.isConnected) this.draw();
  }

  /** The session that is looked at, which may be too old for the list, or archived. */
  set here(row) {
    const news = JSON.stringify(row) !== JSON.stringify(this.#here);
    this.#here = row;
    if (news && this.isConnected) this.draw();
  }

  open() {
    this.filter = h("input", {
      type: "search",
      placeholder: "Find a conversation",
      "aria-label": "Find a conversation",
      oninput: () => this.draw(),
    });
    this.items = h("ul", { cls: "rows" });
    fill(
      this,
      h(
        "div",
        { cls: "tools" },
        this.filter,
        iconButton("plus", "New conversation", () => this.begin()),
      ),
      h("nav", { "aria-label": "Conversations" }, this.items),
    );
    this.hear(house, "recent", () => this.draw());
    this.hear(house, "open", () => this.draw());
    this.clock = setInterval(() => this.draw(), 30000);
    this.draw();
  }

  close() {
    clearInterval(this.clock);
  }

  linkTo(key) {
    return this.items.querySelector(`a[href="${CSS.escape(to.chat(key))}"]`);
  }

  async begin() {
    try {
      const made = await wire.call("sessions.create", { agentId: this.#key ? agentOf(this.#key) : undefined });
      location.hash = to.chat(made.key);
      document.getElementById("say")?.focus();
    } catch (error) {
      complain(error);
    }
  }

  draw() {
    const known = new Set(house.recent.map((row) => row.key));
    const agents = house.agents
      .map((agent) => ({ key: `agent:${agent.id}:main` }))
      .filter((row) => !known.has(row.key));
    const current =
      this.#key && !known.has(this.#key) && !agents.some((row) => row.key === this.#key)
        ? [this.#here?.key === this.#key ? this.#here : { key: this.#key }]
        : [];
    const wanted = this.filter.value.toLowerCase();
    const rows = [...current, ...house.recent, ...agents].filter((row) =>
      `${nameOf(row)} ${row.key}`.toLowerCase().includes(wanted),
    );
    const focused = this.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(this.items, ...rows.map((row) => this.row(row)));
    if (!rows.length)
      this.items.append(h("li", null, empty("Nothing found", "The sessions page searches in all messages.")));
    if (focused) this.items.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    const unread = house.recent.filter((row) => row.key !== this.#key && house.unread(row)).length;
    document.title = unread ? `(${unread}) Crossclaw` : "Crossclaw";
  }

  row(row) {
    const unread = row.updatedAt && row.key !== this.#key && house.unread(row);
    return h(
      "li",
      null,
      h(
        "a",
        {
          href: to.chat(row.key),
          "aria-current": row.key === this.#key ? "page" : null,
          cls: unread ? "unread" : null,
        },
        face(row.key),
        h("span", { cls: "name" }, nameOf(row)),
        h("span", { cls: "when" }, row.updatedAt ? ago(row.updatedAt) : ""),
        h(
          "span",
          { cls: "more" },
          aboutOf(row),
        ),
        unread && h("i", { cls: "mark" }, h("span", { cls: "sr" }, "unread")),
      ),
    );
  }
}

/** What a person looks for: what goes on, else what was said last. */
function aboutOf(row) {
  if (row.archivedAt) return "archived";
  if (row.agentGone) return "agent gone";
  if (row.lane || isBad(row.standing)) return stateMark(row.standing, true);
  return house.lastWords(row.key) || (row.updatedAt ? "nothing said yet" : "not yet talked to");
}

customElements.define("cc-recent", Recent);
