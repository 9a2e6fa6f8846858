// @ts-check
// Sessions: all of them, however many. The gateway counts and cuts; only the rows in sight are here.
import {
  Part,
  agentName,
  ago,
  cost,
  debounce,
  empty,
  fill,
  h,
  nameOf,
  plural,
  stateMark,
  timeOf,
  dayOf,
  to,
  tokens,
} from "./dom.js";
import { choice, select } from "./controls.js";
import { complain, gateway } from "./gateway.js";
import { t } from "./language.js";
import { channelOf, twice } from "./session.js";
import { Lost, wire } from "./wire.js";

const ROW = 46; // pixels, as in the style sheet
const PAGE = 100;
const PAGES_MAX = 40; // kept; a scroll back further asks again
const KINDS = ["main", "group", "child", "cron", "hook", "node", "other"];
/** @type {[name: string, text: string, cls?: string][]} */
const COLUMNS = [
  ["name", "Session"],
  ["state", "State"],
  ["kind", "Kind"],
  ["channel", "Channel"],
  ["model", "Model"],
  ["tokens", "Tokens", "number"],
  ["cost", "Cost", "number"],
  ["when", "Active", "number"],
];

/** @typedef {{rows: Api.TableRow[], reading: boolean, stale: boolean}} TablePage */

class Sessions extends Part {
  /** @type {string | null} */ chosen = null;
  /** @type {Map<string, string>} */ leaving = new Map(); // deleted here, and still to be undone
  /** @type {Api.TableParams} */ asked = {};
  /** @type {Map<number, TablePage>} */ pages = new Map();
  /** @type {number | null} */ count = null; // of all rows, once it is known
  words = h("input", {
    type: "search",
    placeholder: "Find by name or key",
    "aria-label": "Search",
    oninput: debounce(() => this.ask(), 200),
  });
  modes = choice(
    "Where to search",
    [
      ["names", "Names"],
      ["messages", "Messages"],
    ],
    "names",
    () => {
      this.words.placeholder = this.modes.value === "names" ? "Find by name or key" : "Words in any message";
      this.ask();
    },
  );
  kind = select(
    "Kind",
    [["", "All kinds"], ...KINDS.map(twice), ["archived", "Archived"]],
    () => this.ask(),
  );
  agent = select("Agent", [["", "All agents"]], () => this.ask());
  order = select(
    "Order",
    [
      ["updated", "Newest first"],
      ["cost", "Most expensive"],
      ["tokens", "Most tokens"],
    ],
    () => this.ask(),
  );

  total = h("p", { cls: "total", role: "status" });
  body = h("div", { cls: "tbody", role: "rowgroup" });
  table = h(
    "div",
    { cls: "table", role: "table", "aria-label": "Sessions", tabindex: "0", onscroll: () => this.draw() },
    h(
      "div",
      { role: "rowgroup" },
      h(
        "div",
        { cls: "tr thead", role: "row", "aria-rowindex": "1" },
        COLUMNS.map(([name, text, cls]) => h("div", { role: "columnheader", cls: `c-${name} ${cls || ""}` }, text)),
      ),
    ),
    this.body,
  );
  hits = h("div", { cls: "hits", hidden: true, role: "region", "aria-label": "Messages found" });
  panel = h("cc-session", { cls: "panel", role: "complementary", hidden: true, "aria-label": "Session" });
  bar = h(
    "header",
    { cls: "bar" },
    h("h2", { cls: "sr" }, "Sessions"),
    this.words,
    this.modes,
    this.kind,
    this.agent,
    this.order,
    this.total,
  );
  narrow = matchMedia("(max-width: 699px)");
  again = debounce(() => this.ask(true), 500);
  sized = new ResizeObserver(() => this.draw());

  open() {
    fill(this, this.bar, this.table, this.hits, this.panel);
    this.hearAll();
    this.sized.observe(this.table);
    this.showAgents();
    this.ask();
  }

  hearAll() {
    this.hear(this.narrow, "change", () => this.shield());
    this.hear(gateway, "open", () => {
      this.showAgents();
      this.ask(true);
    });
    this.hear(wire, "sessions.changed", () => this.again());
    this.hear(this.panel, "changed", () => this.again());
    this.hear(this.panel, "leaving", ({ detail }) => {
      if (detail.how) this.leaving.set(detail.key, detail.how);
      else this.leaving.delete(detail.key);
      this.draw();
    });
    this.hear(this, "keydown", (event) => {
      if (event.key === "Escape" && this.chosen) location.hash = "#/sessions";
    });
  }

  close() {
    this.sized.disconnect();
  }

  /** Where the panel covers the table it has the focus, and nothing behind it is reached; when it closes, the
   * focus is where it was opened from.
   * @param {string | null} key */
  async go(key) {
    const from = this.panel.contains(document.activeElement) && this.chosen;
    this.chosen = key;
    this.draw();
    this.shield();
    if (from && !key) (this.linkOf(from) || this.table).focus({ preventScroll: true });
    await this.panel.show(key);
    if (key && this.narrow.matches && !this.panel.contains(document.activeElement))
      this.panel.querySelector("button")?.focus();
  }

  shield() {
    for (const part of [this.bar, this.table, this.hits]) part.inert = Boolean(this.chosen) && this.narrow.matches;
  }

  /** @param {string} key @returns {HTMLElement | null} */
  linkOf(key) {
    return this.body.querySelector(`a[href="${CSS.escape(to.session(key))}"]`);
  }

  showAgents() {
    const value = this.agent.value;
    fill(
      this.agent,
      ...[["", "All agents"], ...gateway.agents.map((each) => [each.id, agentName(each.id)])].map(([id, text]) =>
        h("option", { value: id }, text),
      ),
    );
    this.agent.value = value;
  }

  // ── asking ────────────────────────────────────────────────────────────────────────────────

  /** `gently` keeps what is shown until the answer is there, and the place. */
  ask(gently = false) {
    const searching = this.modes.value === "messages" && this.words.value.trim();
    this.hits.hidden = !searching;
    this.table.hidden = Boolean(searching);
    if (searching) {
      if (!gently) this.search(this.words.value.trim());
      return;
    }
    this.asked = { limit: PAGE, order: /** @type {Api.TableParams["order"]} */ (this.order.value) };
    if (this.words.value.trim() && this.modes.value === "names") this.asked.search = this.words.value.trim();
    if (this.kind.value === "archived") this.asked.archived = true;
    else if (this.kind.value) this.asked.kinds = [this.kind.value];
    if (this.agent.value) this.asked.agentId = this.agent.value;
    if (gently && this.count !== null) {
      for (const page of this.pages.values()) page.stale = true;
      this.draw();
      return;
    }
    this.pages = new Map();
    this.count = null;
    this.table.scrollTop = 0;
    this.read(0);
  }

  /** @param {number} number */
  async read(number) {
    const asked = this.asked;
    const known = this.pages.get(number);
    if (known && (known.reading || !known.stale)) return;
    const page = { rows: known?.rows || [], reading: true, stale: false };
    this.pages.set(number, page);
    try {
      const answer = await wire.call("sessions.table", { ...asked, offset: number * PAGE });
      if (asked !== this.asked) {
        page.stale = true;
        page.reading = false;
        this.draw(); // asked again, by whoever looks at it
        return;
      }
      Object.assign(page, { rows: answer.rows, reading: false });
      this.count = answer.total;
      if (this.pages.size > PAGES_MAX) this.pages.delete([...this.pages.keys()][0]);
      this.draw();
      this.panel.refresh(answer.rows);
    } catch (error) {
      this.pages.delete(number);
      if (!(error instanceof Lost)) complain(error);
    }
  }

  /** @param {string} query */
  async search(query) {
    try {
      const { hits } = await wire.call("sessions.entries.search", { query });
      if (query !== this.words.value.trim()) return;
      this.total.textContent = `${plural(hits.length, "message")}${hits.length === 50 ? ", the newest" : ""}`;
      fill(
        this.hits,
        ...hits.map((hit) =>
          h(
            "a",
            { href: to.chat(hit.key, hit.seq) },
            h(
              "span",
              { cls: "top" },
              h("b", null, nameOf(gateway.row(hit.key) || hit)),
              h("span", null, hit.role === "user" ? "asked" : hit.role === "assistant" ? "answered" : "tool"),
              h("time", null, `${dayOf(hit.at)}, ${timeOf(hit.at)}`),
            ),
            h("span", null, marked(hit.text, query)),
          ),
        ),
      );
      if (!hits.length)
        this.hits.append(
          empty("No message has all these words", "Fewer words find more; the last one may be a beginning."),
        );
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  // ── rows in sight ─────────────────────────────────────────────────────────────────────────

  draw() {
    if (this.count === null) return;
    this.total.textContent = plural(this.count, "session");
    this.table.setAttribute("aria-rowcount", String(this.count + 1));
    this.body.style.height = `${this.count * ROW}px`;
    const first = Math.max(0, Math.floor(this.table.scrollTop / ROW) - 8);
    const last = Math.min(this.count, Math.ceil((this.table.scrollTop + this.table.clientHeight) / ROW) + 8);
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++)
      if (page * PAGE < Math.max(this.count, 1)) this.read(page);
    const focused = this.body.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(i, this.pages.get(Math.floor(i / PAGE))?.rows[i % PAGE]));
    fill(this.body, ...rows);
    if (!this.count)
      this.body.append(
        empty(
          "No session here",
          this.words.value
            ? t("Nothing has that name. Messages can be searched as well.")
            : t("Talk with an agent, and its session appears."),
          !this.words.value && h("p", null, h("a", { href: "#/chat" }, t("Talk with an agent"))),
        ),
      );
    if (!focused) return;
    /** @type {HTMLElement | null} */
    const again = this.body.querySelector(`a[href="${CSS.escape(focused)}"]`);
    (again || this.table).focus({ preventScroll: true }); // gone: its table
  }

  /** @param {number} index @param {Api.TableRow} [row] */
  row(index, row) {
    const element = h("div", { cls: `tr${row ? "" : " blank"}`, role: "row", "aria-rowindex": index + 2 });
    element.style.top = `${index * ROW}px`;
    if (!row) {
      element.append(...COLUMNS.map(([name]) => h("div", { role: "cell", cls: `c-${name}` })));
      return element;
    }
    const gone = this.leaving.get(row.key);
    element.setAttribute("aria-selected", String(row.key === this.chosen));
    element.addEventListener("click", () => {
      location.hash = to.session(row.key);
    });
    /** @type {Record<string, Page.Child>} */
    const cells = {
      name: h("a", { href: to.session(row.key) }, h("b", null, nameOf(row)), h("code", null, row.key)),
      state: gone
        ? h("span", { cls: "silent" }, gone)
        : row.archivedAt
          ? h("span", { cls: "silent" }, "archived")
          : row.agentGone || row.unreadable
            ? h("span", { cls: "silent" }, row.unreadable ? "unreadable" : "agent gone")
            : stateMark(row.standing, true),
      kind: row.kind,
      channel: channelOf(row),
      model: row.model,
      tokens: tokens(row.tokens),
      cost: cost(row.costUsd),
      when: ago(row.updatedAt),
    };
    element.append(
      ...COLUMNS.map(([name, , cls]) =>
        h(
          "div",
          { role: "cell", cls: `c-${name} ${cls || ""} ${["name", "state"].includes(name) ? "" : "quiet"}` },
          cells[name],
        ),
      ),
    );
    return element;
  }
}

/** @param {string} text @param {string} query */
function marked(text, query) {
  const found = query
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text
    .split(new RegExp(`(${found.join("|")})`, "gi"))
    .map((part, i) => (i % 2 ? h("mark", null, part) : part));
}

customElements.define("cc-sessions", Sessions);
