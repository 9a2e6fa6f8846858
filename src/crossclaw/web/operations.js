// @ts-check
// Operations, in tabs that each have an address (#/operations/jobs). What the gateway does not offer is not shown.
import { Part, debounce, fill, h, whyOf } from "./dom.js";
import { keepingFocus } from "./controls.js";
import { gateway } from "./gateway.js";
import { Jobs } from "./jobs.js";
import { t } from "./language.js";
import { Lost, wire } from "./wire.js";
import { showClients, showGateway, showLogs } from "./health.js";

const REFRESH_MS = 15000;
const LEASES_MS = 3000; // of gateways: what is true of them lasts no longer

/** @typedef {{rest: string, again: () => void, element: HTMLElement}} Place */
/** @typedef {{title: string, needs: Api.Method[], mindsItself?: boolean,
 *   show: (place: Place, view: Operations) => Promise<Page.Child | void>}} Block */
/** @typedef {{title: string, onlyShared?: boolean, blocks: Block[]}} Tab */

/** A part that minds its own content: put in once while its tab is open, and asked to `read` again when the tab is.
 * @param {string} tag @param {() => Promise<unknown>} load @returns {Block["show"]} */
const part = (tag, load) => async ({ element, rest }) => {
  await load();
  if (!element.firstElementChild) fill(element, h(tag));
  await /** @type {HTMLElement & {read(rest: string): Promise<void>}} */ (element.firstElementChild).read(rest);
};

/** A tab has blocks. A block says which methods it needs and gives what it shows; nothing when it minds its own content.
 * Its function is handed `rest`, what stands behind the tab's name in the address, `again`, which draws the tab anew, and
 * `element`, where it is shown.
 * @type {Record<string, Tab>} */
const TABS = {
  health: {
    title: "Health",
    blocks: [
      { title: "Gateway", needs: ["health", "status"], show: showGateway },
      { title: "Connected", needs: ["system-presence"], show: showClients },
    ],
  },
  gateways: {
    title: "Gateways",
    onlyShared: true,
    blocks: [
      {
        title: "Gateways on this ledger",
        needs: ["gateways.list"],
        show: async (place) => (await import("./gateways.js")).showGateways(place),
      },
    ],
  },
  figures: {
    title: "Figures",
    blocks: [
      { title: "Figures", needs: ["figures.get"], mindsItself: true, show: part("cc-figures", () => import("./figures.js")) },
    ],
  },
  agents: {
    title: "Agents",
    blocks: [
      {
        title: "Agents",
        needs: ["agents.list"],
        show: async (place) => (await import("./agentlist.js")).showAgents(place),
      },
      {
        title: "Model services",
        needs: ["models.list", "models.service.set", "config.get"],
        show: async (place) => (await import("./agentlist.js")).showServices(place),
      },
    ],
  },
  channels: {
    title: "Channels",
    blocks: [
      {
        title: "Channels",
        needs: ["channels.status"],
        mindsItself: true,
        show: part("cc-channels", () => import("./channels.js")),
      },
    ],
  },
  jobs: {
    title: "Jobs",
    blocks: [{ title: "Cron jobs", needs: ["cron.list"], show: (_place, view) => view.jobs.show() }],
  },
  budgets: {
    title: "Budgets",
    blocks: [
      {
        title: "What a task may spend",
        needs: ["agents.list", "config.get"],
        show: async () => (await import("./budgets.js")).showLimits(),
      },
      {
        title: "What was spent of it",
        needs: ["sessions.list", "config.get"],
        show: async () => (await import("./budgets.js")).showSpent(),
      },
    ],
  },
  config: {
    title: "Config",
    blocks: [
      {
        title: "Config",
        needs: ["config.get"],
        mindsItself: true,
        show: part("cc-config", () => import("./config.js")),
      },
    ],
  },
  log: { title: "Log", blocks: [{ title: "Log", needs: ["logs.tail"], show: showLogs }] },
};

/** @param {string} name */
const addressOf = (name) => `#/operations/${name}`;
/** @param {Block} block */
const offered = (block) => block.needs.every((method) => wire.offers(method));

class Operations extends Part {
  jobs = new Jobs((added) => this.read(added));

  /** @type {(Block & {element: HTMLElement, inside: HTMLElement})[] | null} */ blocks = null;
  /** @type {string | null} */ drawn = null;
  current = "health";
  rest = "";
  shared = /** @type {boolean | undefined} */ (undefined); // whether other gateways may be on this ledger; nobody knows yet

  tabs = h(
    "div",
    { cls: "tabs", role: "tablist", "aria-label": "Operations", onkeydown: (event) => this.pressed(event) },
    Object.entries(TABS).map(([name, { title }]) =>
      h("a", { href: addressOf(name), role: "tab", id: `tab-${name}`, "aria-controls": "tab-shown", data: { tab: name } }, title),
    ),
  );
  panel = h("div", { cls: "grid", role: "tabpanel", id: "tab-shown" });
  again = debounce(() => this.read(), 300);

  open() {
    fill(this, h("div", { cls: "page" }, h("header", null, h("h2", null, t("Operations"))), this.tabs, this.panel));
    this.hear(gateway, "open", () => this.learn());
    this.learn();
    this.hear(wire, "presence", () => this.again());
    this.hear(wire, "cron", () => this.again());
    this.repeat(REFRESH_MS, () => this.read());
    this.repeat(LEASES_MS, () => TABS[this.current].onlyShared && this.read());
  }

  /** What is there only for gateways that share a ledger. */
  async learn() {
    this.read();
    if (!wire.ready || !wire.offers("gateways.list")) return;
    try {
      this.shared = (await wire.call("gateways.list")).shared;
      this.read();
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
    }
  }

  /** @param {string} name */
  offers(name) {
    return TABS[name].blocks.some(offered) && (this.shared || !TABS[name].onlyShared);
  }

  /** @param {string | null} argument a tab's name, and what that tab makes of the rest */
  go(argument) {
    const [name, ...rest] = (argument || "health").split("/");
    const known = Object.hasOwn(TABS, name);
    const before = this.drawn;
    this.current = known ? name : "health";
    this.rest = known ? rest.join("/") : "";
    for (const tab of this.links) {
      const chosen = tab.dataset.tab === this.current;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.current}`);
    this.drawn = this.current;
    if (before !== this.current) this.lay();
    this.read(true);
  }

  /** @returns {HTMLAnchorElement[]} */
  get links() {
    return [...this.tabs.querySelectorAll("a")];
  }

  /** The empty blocks of the chosen tab. */
  lay() {
    this.blocks = TABS[this.current].blocks.map((block) => {
      const inside = h("div");
      const element = h("section", { cls: "block", hidden: true, "aria-label": block.title }, h("h3", null, block.title), inside);
      return { ...block, element, inside };
    });
    fill(this.panel, this.blocks.map((block) => block.element));
  }

  /** As in other lists of tabs: the arrows choose the next one, Home and End the first and the last.
   * @param {KeyboardEvent} event */
  pressed(event) {
    const shown = this.links.filter((tab) => !tab.hidden);
    const at = shown.findIndex((tab) => tab === event.target);
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
    if (at < 0 || !(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const next = shown.at(steps[event.key] % shown.length);
    next?.focus();
    if (next) location.replace(next.href); // no step of the way back for each arrow
  }

  /** @param {boolean} [anyway] also what somebody is typing in */
  read(anyway = false) {
    if (!wire.ready || !this.blocks) return;
    for (const tab of this.links) tab.hidden = !this.offers(tab.dataset.tab || "");
    for (const block of this.blocks) this.show(block, anyway === true);
  }

  /** @param {NonNullable<Operations["blocks"]>[number]} block @param {boolean} anyway */
  async show(block, anyway) {
    const { element, inside } = block;
    element.hidden = !offered(block);
    const form = document.activeElement?.closest("form");
    const typing = form && element.contains(form) && !block.mindsItself;
    if (element.hidden || (typing && !anyway)) return;
    const place = { rest: this.rest, again: () => this.again(), element: inside };
    try {
      const content = await block.show(place, this);
      if (content) keepingFocus(element, () => fill(inside, content));
    } catch (error) {
      if (!(error instanceof Lost)) fill(inside, h("p", { cls: "problem" }, whyOf(error)));
    }
  }
}

customElements.define("cc-operations", Operations);
