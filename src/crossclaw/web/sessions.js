// Sessions: all of them, however many. The gateway counts and cuts; only the rows in sight are here.
import {
  Part,
  agentName,
  ago,
  cost,
  count,
  debounce,
  empty,
  fill,
  goneWords,
  h,
  iconButton,
  nameOf,
  nameOfKey,
  plural,
  stateMark,
  timeOf,
  dayOf,
  to,
  tokens,
} from "./dom.js";
import { complain, house, notice } from "./house.js";
import { Lost, wire } from "./wire.js";

const ROW = 46; // pixels, as in the style sheet
const PAGE = 100;
const PAGES_MAX = 40; // kept; a scroll back further asks again
const UNDO_MS = 6000;
const KINDS = ["main", "group", "cron", "hook", "node", "other"];
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

class Sessions extends Part {
  chosen = null;
  leaving = new Map(); // deleted here, and still to be undone

  open() {
    this.words = h("input", {
      type: "search",
      placeholder: "Find by name or key",
      "aria-label": "Search",
      oninput: debounce(() => this.ask(), 200),
    });
    this.modes = choice(
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
    this.kind = select(
      "Kind",
      [["", "All kinds"], ...KINDS.map((each) => [each, each]), ["archived", "Archived"]],
      () => this.ask(),
    );
    this.agent = select("Agent", [["", "All agents"]], () => this.ask());
    this.order = select(
      "Order",
      [
        ["updated", "Newest first"],
        ["cost", "Most expensive"],
        ["tokens", "Most tokens"],
      ],
      () => this.ask(),
    );
    this.total = h("p", { cls: "total", role: "status" });
    this.body = h("div", { cls: "tbody", role: "rowgroup" });
    this.table = h(
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
    this.hits = h("div", { cls: "hits", hidden: true, role: "region", "aria-label": "Messages found" });
    this.panel = h("aside", { cls: "panel", hidden: true, "aria-label": "Session" });
    fill(
      this,
      h(
        "header",
        { cls: "bar" },
        h("h2", { cls: "sr" }, "Sessions"),
        this.words,
        this.modes,
        this.kind,
        this.agent,
        this.order,
        this.total,
      ),
      this.table,
      this.hits,
      this.panel,
    );
    this.hear(house, "open", () => {
      this.showAgents();
      this.ask(true);
    });
    this.again = debounce(() => this.ask(true), 500);
    this.hear(wire, "sessions.changed", () => this.again());
    this.hear(this, "keydown", (event) => {
      if (event.key === "Escape" && this.chosen) location.hash = "#/sessions";
    });
    this.sized = new ResizeObserver(() => this.draw());
    this.sized.observe(this.table);
    this.showAgents();
    this.ask();
  }

  close() {
    this.sized.disconnect();
  }

  go(key) {
    this.chosen = key;
    this.draw();
    this.showPanel();
  }

  showAgents() {
    const value = this.agent.value;
    fill(
      this.agent,
      ...[["", "All agents"], ...house.agents.map((each) => [each.id, agentName(each.id)])].map(([id, text]) =>
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
    this.asked = { limit: PAGE, order: this.order.value };
    if (this.words.value.trim() && this.modes.value === "names") this.asked.search = this.words.value.trim();
    if (this.kind.value === "archived") this.asked.archived = true;
    else if (this.kind.value) this.asked.kinds = [this.kind.value];
    if (this.agent.value) this.asked.agentId = this.agent.value;
    if (gently && this.count !== null && this.count !== undefined) {
      for (const page of this.pages?.values() || []) page.stale = true;
      this.draw();
      return;
    }
    this.pages = new Map();
    this.count = null;
    this.table.scrollTop = 0;
    this.read(0);
  }

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
      if (this.pages.size > PAGES_MAX) this.pages.delete(this.pages.keys().next().value);
      this.draw();
      this.refreshPanel(answer.rows);
    } catch (error) {
      this.pages.delete(number);
      if (!(error instanceof Lost)) complain(error);
    }
  }

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
              h("b", null, nameOf(house.row(hit.key) || hit)),
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
    if (!this.pages || this.count === null || this.count === undefined) return;
    this.total.textContent = plural(this.count, "session");
    this.table.setAttribute("aria-rowcount", this.count + 1);
    this.body.style.height = `${this.count * ROW}px`;
    const first = Math.max(0, Math.floor(this.table.scrollTop / ROW) - 8);
    const last = Math.min(this.count, Math.ceil((this.table.scrollTop + this.table.clientHeight) / ROW) + 8);
    for (let page = Math.floor(first / PAGE); page <= Math.floor(Math.max(first, last - 1) / PAGE); page++)
      if (page * PAGE < Math.max(this.count, 1)) this.read(page);
    const focused = this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(i, this.pages.get(Math.floor(i / PAGE))?.rows[i % PAGE]));
    fill(this.body, ...rows);
    if (!this.count)
      this.body.append(
        empty(
          "No session here",
          this.words.value
            ? "Nothing has that name. Messages can be searched as well."
            : "Talk with an agent, and its session appears.",
        ),
      );
    if (focused) this.body.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

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
    const cells = {
      name: h("a", { href: to.session(row.key) }, h("b", null, nameOf(row)), h("code", null, row.key)),
      state: gone
        ? h("span", { cls: "silent" }, gone)
        : row.archivedAt
          ? h("span", { cls: "silent" }, "archived")
          : row.agentGone
            ? h("span", { cls: "silent" }, "agent gone")
            : stateMark(row.lane),
      kind: row.spawnedBy ? "child" : row.kind,
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

  // ── one session ───────────────────────────────────────────────────────────────────────────

  async showPanel() {
    const key = this.chosen;
    this.panel.hidden = !key;
    if (!key || !wire.ready) return;
    try {
      const row = await house.find(key);
      if (this.chosen !== key) return;
      this.budget = row?.budget;
      if (row) this.fillPanel(row);
      else
        fill(
          this.panel,
          this.panelHead({ key }),
          empty("Not there", "This session was deleted, or never begun."),
        );
    } catch (error) {
      if (!(error instanceof Lost)) complain(error);
    }
  }

  refreshPanel(rows) {
    const found = rows.find((each) => each.key === this.chosen);
    const row = found && { ...found, budget: this.budget };
    if (row && !this.panel.contains(document.activeElement)) this.fillPanel(row);
    else if (row) this.panel.querySelector(".facts")?.replaceWith(facts(row));
  }

  panelHead(row) {
    return h(
      "header",
      null,
      h("div", null, h("h3", null, nameOf(row)), h("code", null, row.key)),
      iconButton("close", "Close", () => {
        location.hash = "#/sessions";
      }),
    );
  }

  fillPanel(row) {
    if (row.archivedAt) {
      fill(
        this.panel,
        this.panelHead(row),
        h("p", null, "This session is archived. It can be read, not written to."),
        facts(row),
        h("div", { cls: "acts" }, h("a", { cls: "button", href: to.chat(row.key) }, "Read it"),
          wire.offers("sessions.unarchive") &&
            h("button", { type: "button", onclick: () => this.bringBack(row) }, "Bring back"),
          this.deleter(row)),
      );
      return;
    }
    const field = (name, label, element) =>
      h(
        "label",
        null,
        label,
        Object.assign(element, { name, onchange: () => this.patch(row.key, name, element.value) }),
      );
    const chosen = (name, options) =>
      select(
        null,
        [["", `Default${name === "model" ? ` (${row.model})` : ""}`], ...options],
        null,
        row.overrides[name] || "",
      );
    const lasting = row.kind === "main" && !row.agentGone;
    const model = chosen("model", row.overrides.model ? [[row.overrides.model, row.overrides.model]] : []);
    fill(
      this.panel,
      this.panelHead(row),
      row.agentGone && h("p", null, goneWords(row)),
      facts(row),
      h(
        "form",
        { cls: "fields", "aria-label": "Settings of this session", onsubmit: (event) => event.preventDefault() },
        field(
          "label",
          "Label",
          h("input", { value: row.label || "", maxlength: 64, placeholder: "A name of your own" }),
        ),
        field("model", "Model", model),
        field(
          "thinkingLevel",
          "Thinking",
          chosen("thinkingLevel", ["off", "minimal", "low", "medium", "high", "xhigh"].map(twice)),
        ),
        field("verboseLevel", "Verbose", chosen("verboseLevel", ["on", "off", "full"].map(twice))),
        field(
          "sendPolicy",
          "Replies to its chat",
          chosen("sendPolicy", [
            ["allow", "allowed"],
            ["deny", "denied"],
          ]),
        ),
      ),
      h(
        "div",
        { cls: "acts" },
        h("a", { cls: "button", href: to.chat(row.key) }, "Open chat"),
        row.lane && h("button", { type: "button", onclick: () => this.stop(row) }, "Stop"),
        h("button", { type: "button", onclick: () => this.reset(row) }, "Reset"),
        !lasting &&
          wire.offers("sessions.archive") &&
          h("button", { type: "button", onclick: () => this.archive(row) }, "Archive"),
        !lasting && this.deleter(row),
      ),
    );
    this.fillModels(model, row);
  }

  deleter(row) {
    return h("button", { type: "button", cls: "bad", onclick: () => this.remove(row) }, "Delete");
  }

  async fillModels(element, row) {
    try {
      const { models } = await wire.call("models.list");
      const chosen = row.overrides.model;
      for (const model of models) {
        const id = `${model.provider}/${model.id}`;
        if (id !== chosen) element.append(h("option", { value: id }, id));
      }
    } catch {
      /* the choice that is set stays */
    }
  }

  async patch(key, name, value) {
    try {
      await wire.call("sessions.patch", { key, [name]: value || null });
      notice("Saved.", { ms: 1800 });
      this.again();
      house.refreshSoon();
    } catch (error) {
      complain(error);
      this.showPanel();
    }
  }

  stop(row) {
    wire.call("chat.abort", { sessionKey: row.key }).then(() => notice("Stopped."), complain);
  }

  /** The old transcript stays; the session waits a moment, so that Undo needs no way back. */
  reset(row) {
    notice(`${nameOf(row)} begins anew …`, {
      ms: UNDO_MS,
      undo: () => {},
      done: () => wire.call("sessions.reset", { key: row.key }).then(() => this.again(), complain),
    });
  }

  /** Done at once: it can be brought back at any time. */
  async archive(row) {
    try {
      await wire.call("sessions.archive", { key: row.key });
    } catch (error) {
      complain(error);
      return;
    }
    if (this.chosen === row.key) location.hash = "#/sessions";
    notice(`${nameOf(row)} is archived.`, { ms: UNDO_MS, undo: () => this.bringBack(row) });
    this.again();
  }

  async bringBack(row) {
    try {
      await wire.call("sessions.unarchive", { key: row.key });
      notice(`${nameOf(row)} is back.`, { ms: 2500 });
    } catch (error) {
      complain(error);
    }
    if (!this.isConnected) return;
    this.again();
    this.showPanel();
  }

  /** Nothing brings back what is deleted, so it waits a moment. */
  remove(row) {
    this.leaving.set(row.key, "deleted");
    location.hash = "#/sessions";
    const back = () => {
      this.leaving.delete(row.key);
      this.draw();
    };
    notice(`${nameOf(row)} is deleted.`, {
      ms: UNDO_MS,
      undo: back,
      done: async () => {
        try {
          await wire.call("sessions.delete", { key: row.key });
        } catch (error) {
          complain(error);
        }
        this.leaving.delete(row.key);
        if (this.isConnected) this.again();
      },
    });
    this.draw();
  }
}

const channelOf = (row) => (row.channel === "unknown" ? "–" : row.channel);
const twice = (word) => [word, word];

function facts(row) {
  const pairs = [
    ["State", row.archivedAt ? `archived ${dayOf(row.archivedAt)}, ${timeOf(row.archivedAt)}` : stateMark(row.lane)],
    [
      "Kind",
      row.spawnedBy
        ? h("span", null, "child of ", h("a", { href: to.session(row.spawnedBy) }, nameOfKey(row.spawnedBy)))
        : row.kind,
    ],
    ["Channel", channelOf(row)],
    ["Window", `${count(row.contextUsed)}${row.contextTokens ? ` of ${count(row.contextTokens)}` : ""} tokens`],
    ["Spent", `${count(row.tokens)} tokens${row.costUsd ? `, ${cost(row.costUsd)}` : ""}`],
    ["Begun", `${dayOf(row.createdAt)}, ${timeOf(row.createdAt)}`],
    ["Session id", h("code", null, row.sessionId)],
  ];
  if (row.budget) pairs.splice(-2, 0, ["Budget", row.budget.text]);
  if (row.lane)
    pairs.splice(1, 0, ["Run", h("a", { href: to.run(row.lane.runId) }, `since ${timeOf(row.lane.since)}`)]);
  return h(
    "dl",
    { cls: "facts" },
    pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

function select(label, options, onchange, value = "") {
  const element = h(
    "select",
    { "aria-label": label, onchange },
    options.map(([id, text]) => h("option", { value: id }, text)),
  );
  element.value = value || options[0][0];
  return element;
}

function choice(label, options, value, onchange) {
  const element = h("div", { cls: "choice", role: "group", "aria-label": label });
  element.value = value;
  element.append(
    ...options.map(([id, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(id === value),
          onclick: (event) => {
            element.value = id;
            for (const each of element.children) each.setAttribute("aria-pressed", String(each === event.target));
            onchange();
          },
        },
        text,
      ),
    ),
  );
  return element;
}

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
