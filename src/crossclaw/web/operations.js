// Operations: how the house is, who is connected, channels, config, logs, cron jobs. What the gateway does
// not offer is not shown.
import { Part, ago, cost, count, debounce, empty, fill, h, lasted, statusMark, timeOf, dayOf, to } from "./dom.js";
import { complain, house, notice } from "./house.js";
import { Lost, wire } from "./wire.js";
import "./config.js";

const REFRESH_MS = 15000;
const LOG_LINES = 200;
const LOG_RUNS = 5;

class Operations extends Part {
  logs = new Set(); // ids of the jobs whose log is open

  open() {
    this.blocks = {
      house: block("House"),
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
    this.part("house", ["health", "status"], () => this.showHouse());
    this.part("agents", ["agents.list"], () => this.showAgents());
    this.part("clients", ["system-presence"], () => this.showClients());
    this.part("channels", ["channels.status"], () => this.showChannels());
    this.part("cron", ["cron.list"], () => this.showCron());
    this.part("config", ["config.get"], () => this.showConfig());
    this.part("logs", ["logs.tail"], () => this.showLogs());
  }

  async part(name, methods, show) {
    const shown = this.blocks[name];
    shown.hidden = !methods.every((method) => wire.offers(method));
    const busy = document.activeElement?.closest("form");
    if (shown.hidden || (busy && shown.contains(busy) && name !== "config")) return; // config minds its own text
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
      ["State", statusMark(health.ok ? "ok" : "error")],
      ["Version", house.hello?.server?.version || "?"],
      ["Sessions", h("a", { href: "#/sessions" }, count(status.sessions?.count ?? 0))],
      ["Model", status.model || "–"],
      ["Up for", lasted(uptime)],
      ["Store", h("code", null, status.sessions?.paths?.[0] || "–")],
    ];
    const facts = h(
      "dl",
      { cls: "facts" },
      pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
    );
    return status.rehearsal
      ? [
          facts,
          h(
            "p",
            { cls: "warn" },
            "This is the rehearsal model: it needs no key and plays scripts. Set ANTHROPIC_API_KEY or OPENAI_API_KEY for a real one.",
          ),
        ]
      : facts;
  }

  async showAgents() {
    const [{ agents, defaultId }, { config }] = await Promise.all([
      wire.call("agents.list"),
      wire.offers("config.get") ? wire.call("config.get") : {},
    ]);
    return list(
      agents.map((agent) => [
        h(
          "span",
          { cls: "grow" },
          agent.name || agent.id,
          h("small", null, agent.id, agent.id === defaultId ? ", the default" : ""),
          h("small", { cls: "budget" }, budgetOf(agent.id, config?.agents)),
        ),
        h("a", { href: to.chat(`agent:${agent.id}:main`) }, "Chat"),
      ]),
    );
  }

  async showClients() {
    const clients = await wire.call("system-presence");
    return list(
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
    return list(
      (channelOrder || Object.keys(channels)).map((name) => {
        const state = channels[name] || {};
        return [
          h(
            "span",
            { cls: "grow" },
            channelLabels?.[name] || name,
            state.lastError && h("small", { cls: "problem" }, state.lastError),
          ),
          statusMark(state.running ? "running" : state.configured ? "stopped" : "off"),
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

  // ── cron ──────────────────────────────────────────────────────────────────────────────────

  async showCron() {
    const { jobs = [] } = await wire.call("cron.list", { includeDisabled: true });
    const rows = list(jobs.map((job) => this.job(job)));
    return [
      jobs.length ? rows : empty("No jobs yet", "A job sets an agent to work at its time."),
      wire.offers("cron.add") && (this.form ??= this.newJob()), // the same one: what is typed stays
    ].filter(Boolean);
  }

  job(job) {
    const next = job.state?.nextRunAtMs,
      last = job.state?.lastStatus;
    const log = h("ol", { cls: "ticks", hidden: true });
    if (this.logs.has(job.id)) this.showRuns(job, log); // opened before this redraw
    return [
      h(
        "span",
        { cls: "grow" },
        job.name || job.id,
        h("small", null, `${scheduleOf(job.schedule)}${next ? ` · next ${dayOf(next)}, ${timeOf(next)}` : ""}`),
        log,
      ),
      last && statusMark(last),
      !job.enabled && h("small", null, "off"),
      wire.offers("cron.run") &&
        h(
          "button",
          { type: "button", onclick: () => this.doJob("cron.run", { id: job.id, mode: "force" }, "It runs.") },
          "Run now",
        ),
      wire.offers("cron.runs") &&
        h(
          "button",
          { type: "button", "aria-expanded": String(this.logs.has(job.id)), onclick: (event) => this.unfold(job, log, event.target) },
          "Log",
        ),
      wire.offers("cron.update") &&
        h(
          "button",
          {
            type: "button",
            onclick: () =>
              this.doJob(
                "cron.update",
                { id: job.id, patch: { enabled: !job.enabled } },
                job.enabled ? "Off." : "On.",
              ),
          },
          job.enabled ? "Turn off" : "Turn on",
        ),
      wire.offers("cron.remove") &&
        h(
          "button",
          {
            type: "button",
            cls: "bad",
            onclick: () =>
              notice(`${job.name || job.id} is removed.`, {
                ms: 6000,
                undo: () => {},
                done: () => this.doJob("cron.remove", { id: job.id }, ""),
              }),
          },
          "Remove",
        ),
    ].filter(Boolean);
  }

  unfold(job, log, button) {
    const opens = !this.logs.delete(job.id);
    button.setAttribute("aria-expanded", String(opens));
    log.hidden = !opens;
    if (!opens) return;
    this.logs.add(job.id);
    this.showRuns(job, log);
  }

  async showRuns(job, log) {
    try {
      const { entries = [] } = await wire.call("cron.runs", { id: job.id, limit: LOG_RUNS });
      const told = entries.map((each) => [
        h("time", null, `${dayOf(each.ts || each.runAtMs)}, ${timeOf(each.ts || each.runAtMs)}`),
        statusMark(each.status || "?"),
        h("span", null, each.summary || each.error || ""),
      ]);
      fill(log, told.length ? told.map((cells) => h("li", null, cells)) : h("li", null, "It has not run yet."));
      log.hidden = false;
    } catch (error) {
      complain(error);
    }
  }

  newJob() {
    const input = (name, label, props) => h("label", null, label, h("input", { name, required: true, ...props }));
    const problem = h("p", { cls: "problem", role: "alert" });
    const form = h(
      "form",
      {
        cls: "fields",
        "aria-label": "New job",
        onsubmit: async (event) => {
          event.preventDefault();
          const given = Object.fromEntries(new FormData(form));
          const job = {
            name: given.name,
            schedule: { kind: "cron", expr: given.expr },
            sessionTarget: "isolated",
            wakeMode: "now",
            payload: { kind: "agentTurn", message: given.message },
          };
          try {
            await wire.call("cron.add", job);
          } catch (error) {
            problem.textContent = error.message;
            return;
          }
          problem.textContent = "";
          form.reset();
          form.querySelector("button").blur();
          notice("Added.", { ms: 2000 });
          this.read();
        },
      },
      input("name", "Name", { placeholder: "Morning news" }),
      input("expr", "When (minute hour day month weekday)", { placeholder: "0 7 * * *" }),
      input("message", "What the agent is told", {}),
      problem,
      h("div", null, h("button", { type: "submit" }, "Add a job")),
    );
    return form;
  }

  async doJob(method, params, done) {
    try {
      await wire.call(method, params);
      if (done) notice(done, { ms: 2000 });
      this.soon();
    } catch (error) {
      complain(error);
    }
  }
}

function scheduleOf(schedule = {}) {
  if (schedule.kind === "every") return `every ${lasted(schedule.everyMs)}`;
  if (schedule.kind === "at") return `once, ${dayOf(schedule.atMs || Date.parse(schedule.at))}`;
  return `${schedule.expr || "?"}${schedule.tz ? ` ${schedule.tz}` : ""}`;
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

const list = (rows) =>
  h(
    "ul",
    { cls: "plainlist" },
    rows.map((cells) => h("li", null, cells)),
  );

/** Whoever stands on a link of this block stands on the same one when the block is drawn anew. */
function keepingFocus(block, draw) {
  const stops = () => [...block.querySelectorAll("a[href], button, input, select, textarea, summary")];
  const at = stops().indexOf(document.activeElement);
  draw();
  if (at >= 0 && !block.contains(document.activeElement)) stops()[at]?.focus({ preventScroll: true });
}

customElements.define("cc-operations", Operations);
