// @ts-check
// Operations: how the house is, who is connected, channels, config, logs, cron jobs. What the gateway does
// not offer is not shown.
import { Part, ago, cost, count, debounce, fill, h, lasted, plainMark, to } from "./dom.js";
import { keepingFocus, plainList } from "./controls.js";
import { house } from "./house.js";
import { t } from "./language.js";
import { Jobs } from "./jobs.js";
import { Lost, wire } from "./wire.js";
import "./config.js";

const REFRESH_MS = 15000;
const LOG_LINES = 200;

/** What the config says of an agent, in its list or in its map. */
const saidOf = (id, agents) => (agents?.list || []).find((each) => each.id === id) || agents?.entries?.[id] || {};

class Operations extends Part {
  jobs = new Jobs((added) => (added ? this.showCron(true) : this.soon()));

  editor = null; // of the config, once it was looked at

  open() {
    this.blocks = {
      house: block("Gateway"),
      agents: block("Agents"),
      clients: block("Connected"),
      channels: block("Channels"),
      cron: block("Cron jobs", "wide"),
      config: block("Config", "wide"),
      logs: block("Log", "wide"),
    };
    fill(
      this,
      h(
        "div",
        { cls: "page" },
        h("header", null, h("h2", null, "Operations")),
        h("div", { cls: "grid" }, Object.values(this.blocks)),
      ),
    );
    this.hear(house, "open", () => this.read());
    this.hear(wire, "presence", () => this.soon());
    this.hear(wire, "cron", () => this.soon());
    this.soon = debounce(() => this.read(), 300);
    this.timer = setInterval(() => this.read(), REFRESH_MS);
    this.read();
  }

  close() {
    clearInterval(this.timer);
  }

  go() {}

  read() {
    if (!wire.ready) return;
    this.section("house", ["health", "status"], () => this.showHouse());
    this.section("agents", ["agents.list"], () => this.showAgents());
    this.section("clients", ["system-presence"], () => this.showClients());
    this.section("channels", ["channels.status"], () => this.showChannels());
    this.showCron();
    this.section("config", ["config.get"], () => this.showConfig());
    this.section("logs", ["logs.tail"], () => this.showLogs());
  }

  showCron(added = false) {
    return this.section("cron", ["cron.list"], () => this.jobs.show(), added);
  }

  /** What somebody is typing in is left alone, unless `anyway`. */
  async section(name, methods, show, anyway = false) {
    const shown = this.blocks[name];
    shown.hidden = !methods.every((method) => wire.offers(method));
    const busy = document.activeElement?.closest("form");
    const typing = busy && shown.contains(busy) && name !== "config"; // which minds its own text
    if (shown.hidden || (typing && !anyway)) return;
    try {
      const content = await show();
      if (content) keepingFocus(shown, () => fill(shown.lastElementChild, ...[content].flat()));
    } catch (error) {
      if (!(error instanceof Lost)) fill(shown.lastElementChild, h("p", { cls: "problem" }, error.message));
    }
  }

  async showHouse() {
    const [health, status] = await Promise.all([wire.call("health"), wire.call("status")]);
    const uptime = (house.hello?.snapshot?.uptimeMs || 0) + performance.now() - (house.helloAt || 0);
    const pairs = [
      ["State", plainMark(health.ok ? "ok" : "bad", health.ok ? "ok" : "failed")],
      ["Version", house.hello?.server?.version || "?"],
      ["Sessions", h("a", { href: "#/sessions" }, count(status.sessions?.count ?? 0))],
      ["Model", status.model || "–"],
      ["Up for", lasted(uptime)],
      ["Store", h("code", null, status.sessions?.paths?.[0] || "–")],
      ...(status.disk ? [["Size", sizes(status.disk)]] : []),
    ];
    const facts = h(
      "dl",
      { cls: "facts" },
      pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
    );
    const warnings = [];
    if (status.modelFault) warnings.push(status.modelFault);
    else if (status.rehearsal)
      warnings.push(
        t("This is the rehearsal model: it needs no key and plays scripts. For a real one: crossclaw onboard"),
      );
    if (status.unimported?.length)
      warnings.push(
        t("Sessions or jobs of OpenClaw are here and not imported yet. Stop the gateway, then: crossclaw import"),
      );
    return [facts, ...warnings.map((text) => h("p", { cls: "warn" }, text))];
  }

  async showAgents() {
    const [{ agents, defaultId }, { config, written }] = await Promise.all([
      wire.call("agents.list"),
      wire.offers("config.get") ? wire.call("config.get") : { config: null, written: null },
    ]);
    const file = JSON.parse(written || "{}").agents; // what is written, without what holds anyway
    const may = wire.offers("agents.update");
    const edit = async (agent) => (await import("./agents.js")).editAgent(agent, () => this.soon());
    const said = (id) => ({ id, ...saidOf(id, file) });
    const rows = plainList(
      agents.map((agent) => [
        h(
          "span",
          { cls: "grow" },
          agent.name || agent.id,
          h(
            "small",
            null,
            `${agent.id}${agent.id === defaultId ? ", the default" : ""} · `,
            h("span", { cls: "budget" }, budgetOf(agent.id, config?.agents)),
          ),
        ),
        h("a", { href: to.chat(`agent:${agent.id}:main`) }, "Chat"),
        may && h("button", { type: "button", onclick: () => edit(said(agent.id)) }, "Edit"),
      ]),
    );
    return [rows, may && h("p", { cls: "acts" }, h("button", { type: "button", onclick: () => edit(null) }, "New agent"))];
  }

  async showClients() {
    const clients = await wire.call("system-presence");
    return plainList(
      clients.map((each) => [
        h(
          "span",
          { cls: "grow" },
          each.host || "client",
          h(
            "small",
            null,
            [each.mode, each.platform, each.ip, each.version && `version ${each.version}`]
              .filter(Boolean)
              .join(" · "),
          ),
        ),
        h("small", null, ago(each.ts)),
      ]),
    );
  }

  async showChannels() {
    const { channels, channelOrder, channelLabels } = await wire.call("channels.status", {});
    return plainList(
      (channelOrder || Object.keys(channels)).map((name) => {
        const state = channels[name] || {};
        return [
          h(
            "span",
            { cls: "grow" },
            channelLabels?.[name] || name,
            state.lastError && h("small", { cls: "problem" }, state.lastError),
          ),
          plainMark(state.running ? "running" : state.configured ? "stopped" : "off"),
        ];
      }),
    );
  }

  async showConfig() {
    this.editor ??= h("cc-config"); // the same one: what is typed stays
    if (!this.editor.isConnected) fill(this.blocks.config.lastElementChild, this.editor);
    await this.editor.read();
    return null;
  }

  async showLogs() {
    const answer = await wire.call("logs.tail", { limit: LOG_LINES });
    const file = h("code", null, answer.file);
    const lines = (answer.lines || []).map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
    if (!lines.length)
      return h(
        "p",
        { cls: "hint" },
        "No line yet in ",
        file,
        ". The gateway writes there when it begins and when something goes wrong; if it could not, it said so where it was started.",
      );
    const text = h("pre", { tabindex: "0", "aria-label": "Last lines of the log" }, lines.join("\n"));
    requestAnimationFrame(() => {
      text.scrollTop = text.scrollHeight;
    });
    return [h("p", { cls: "hint" }, file), text];
  }
}

/** What an agent's runs, with all they cause, may spend. What it does not set is taken from the defaults. */
function budgetOf(id, agents) {
  const own = agents?.list?.find((each) => each.id === id)?.budget || agents?.entries?.[id]?.budget;
  const set = Object.fromEntries(Object.entries(own || {}).filter(([, value]) => value !== null));
  const { tokens, costUsd, minutes } = { ...agents?.defaults?.budget, ...set };
  const limits = [tokens && `${count(tokens)} tokens`, costUsd && cost(costUsd), minutes && `${minutes} min`];
  const told = limits.filter(Boolean).join(", ");
  return told ? `budget: ${told}` : "no budget";
}

const block = (title, cls = "") =>
  h("section", { cls: `block ${cls}`, hidden: true, "aria-label": title }, h("h3", null, title), h("div"));

customElements.define("cc-operations", Operations);

/** How large the store is, by how much it grew since the gateway was started, and what is left. */
function sizes(disk) {
  const mb = (bytes) => `${(bytes / 2 ** 20).toLocaleString(undefined, { maximumFractionDigits: 1 })} MB`;
  const grown = disk.grownBytes > 0 ? `, ${mb(disk.grownBytes)} of it since the start` : "";
  return `${mb(disk.ledgerBytes + disk.walBytes)}${grown}; ${mb(disk.freeBytes)} of the disk are free`;
}
