// @ts-check
// The list beside the chat.
import { Part, agentName, agentOfRow, ago, empty, face, fill, h, iconButton, isBad, nameOf, stateMark, to } from "./dom.js";
import { keepingFocus } from "./controls.js";
import { complain, gateway } from "./gateway.js";
import { t } from "./language.js";
import { wire } from "./wire.js";
import "./lasthour.js";

/** The newest conversations and the agents, with what goes on and what is unread. */
export class Recent extends Part {
  /** @type {string | null} */ #key = null;
  /** @type {Page.Row | null} */ #here = null;
  drawn = ""; // the agents that can be chosen

  /** @param {string | null} key */
  set key(key) {
    this.#key = key;
    if (this.isConnected) this.draw();
  }

  /** The session that is looked at, which may be too old for the list, or archived.
   * @param {Page.Row} row */
  set here(row) {
    const news = JSON.stringify(row) !== JSON.stringify(this.#here);
    this.#here = row;
    if (news && this.isConnected) this.draw();
  }

  filter = h("input", {
    type: "search",
    placeholder: t("Find a conversation"),
    "aria-label": t("Find a conversation"),
    oninput: () => this.draw(),
  });
  items = h("ul", { cls: "rows" });
  agent = h("select", { "aria-label": "Conversations of", onchange: () => this.draw() });
  menu = h("div", { cls: "menu", id: "whom", popover: "auto", role: "menu", "aria-label": "Talk with" });

  open() {
    fill(
      this,
      h("cc-last-hour"),
      h(
        "div",
        { cls: "tools" },
        this.filter,
        iconButton("plus", "New conversation", () => this.choose()),
        this.menu,
      ),
      this.agent,
      h("nav", { "aria-label": "Conversations" }, this.items),
    );
    this.hear(gateway, "recent", () => this.draw());
    this.hear(gateway, "open", () => this.draw());
    this.repeat(30000, () => this.draw());
    this.draw();
  }

  /** @param {string | null} key @returns {HTMLElement | null} */
  linkTo(key) {
    return key === null ? null : this.items.querySelector(`a[href="${CSS.escape(to.chat(key))}"]`);
  }

  /** With one agent there is nothing to choose. */
  choose() {
    if (gateway.agents.length < 2) {
      this.begin(gateway.agents[0]?.id);
      return;
    }
    fill(
      this.menu,
      h("p", { cls: "hint" }, "Talk with"),
      gateway.agents.map((agent) =>
        h(
          "button",
          {
            type: "button",
            role: "menuitem",
            onclick: () => {
              this.menu.hidePopover();
              this.begin(agent.id);
            },
          },
          face(`agent:${agent.id}:main`),
          agentName(agent.id),
        ),
      ),
    );
    this.menu.showPopover();
    /** @type {HTMLElement} */ (this.menu.querySelector("button"))?.focus();
  }

  /** @param {string} [agentId] */
  async begin(agentId) {
    try {
      const made = await wire.call("sessions.create", { agentId });
      location.hash = to.chat(made.key);
      document.getElementById("say")?.focus();
    } catch (error) {
      complain(error);
    }
  }

  draw() {
    const known = new Set(gateway.recent.map((row) => row.key));
    /** @type {Page.Row[]} */
    const agents = gateway.agents
      .map((agent) => ({ key: `agent:${agent.id}:main` }))
      .filter((row) => !known.has(row.key));
    /** @type {Page.Row[]} */
    const current =
      this.#key && !known.has(this.#key) && !agents.some((row) => row.key === this.#key)
        ? [this.#here?.key === this.#key ? this.#here : { key: this.#key }]
        : [];
    const wanted = this.filter.value.toLowerCase();
    this.drawAgents();
    const of = this.agent.value;
    const found = [...current, ...gateway.recent, ...agents].filter(
      (row) => (!of || agentOfRow(row) === of) && `${nameOf(row)} ${row.key}`.toLowerCase().includes(wanted),
    );
    // Children and jobs that rest are out of the way, unless somebody looks for them.
    const aside = wanted ? [] : found.filter((row) => row.key !== this.#key && rests(row));
    const rows = found.filter((row) => !aside.includes(row));
    const unfolded = this.items.querySelector("details")?.open;
    const resting = aside.length > 0 && [
      h("summary", null, `${aside.length} idle children and jobs`),
      h("ul", null, ...aside.map((row) => this.row(row))),
    ];
    const nothing = !found.length && empty("Nothing found", "The sessions page searches in all messages.");
    keepingFocus(this.items, () =>
      fill(
        this.items,
        ...rows.map((row) => this.row(row)),
        resting && h("li", { cls: "aside" }, h("details", { open: Boolean(unfolded) }, ...resting)),
        nothing && h("li", null, nothing),
      ),
    );
    const unread = gateway.recent.filter((row) => row.key !== this.#key && gateway.unread(row)).length;
    document.title = unread ? `(${unread}) Crossclaw` : "Crossclaw";
  }

  drawAgents() {
    const ids = gateway.agents.map((agent) => agent.id);
    this.agent.hidden = ids.length < 2;
    if (this.drawn === ids.join()) return;
    this.drawn = ids.join();
    const chosen = this.agent.value;
    fill(
      this.agent,
      h("option", { value: "" }, "All agents"),
      ids.map((id) => h("option", { value: id }, agentName(id))),
    );
    this.agent.value = ids.includes(chosen) ? chosen : "";
  }

  /** @param {Page.Row} row */
  row(row) {
    const unread = row.key !== this.#key && isUnread(row);
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
        face(row.key, agentOfRow(row)),
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

const SELDOM = /^(subagent|cron)$/;

/** @param {Page.Row} row */
const isUnread = ({ key, updatedAt = 0, lane, standing }) => updatedAt > 0 && gateway.unread({ key, updatedAt, lane, standing });

/** Of a child or a job: nothing goes on, nothing failed, and nobody has given it a name.
 * @param {Page.Row} row */
const rests = (row) => SELDOM.test(row.key.split(":")[2]) && !row.lane && !isBad(row.standing) && !isUnread(row);

/** What a person looks for: what goes on, else what was said last.
 * @param {Page.Row} row */
function aboutOf(row) {
  if (row.archivedAt) return "archived";
  if (row.agentGone) return "agent gone";
  if (row.lane || isBad(row.standing)) return stateMark(row.standing, true);
  return gateway.lastWords(row.key) || (row.updatedAt ? t("nothing said yet") : t("not yet talked to"));
}

customElements.define("cc-recent", Recent);
