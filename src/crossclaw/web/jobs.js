// @ts-check
// Cron jobs: when they run next, what came of the last times, and a form for a new one.
import { dayOf, empty, fill, h, isBad, lasted, oneLine, stateMark, timeOf, whyOf } from "./dom.js";
import { plainList } from "./controls.js";
import { complain, notice } from "./gateway.js";
import { wire } from "./wire.js";

const LOG_RUNS = 5;

export class Jobs {
  /** @type {Set<string>} */ logs = new Set(); // ids of the jobs whose log is open
  /** @type {HTMLFormElement | null} */ form = null; // for a new job, once it was asked for

  /** `again` is called when they changed, with whether one was added.
   * @param {(added?: boolean) => void} again */
  constructor(again) {
    this.again = again;
  }

  /** What is shown of them. */
  async show() {
    const { jobs } = await wire.call("cron.list", { includeDisabled: true, includeMakers: true });
    const rows = plainList(jobs.map((job) => this.job(job)));
    return [
      jobs.length ? rows : empty("No jobs yet", "A job sets an agent to work at its time."),
      wire.offers("cron.add") && (this.form ??= this.newJob()), // the same one: what is typed stays
    ].filter(Boolean);
  }

  /** @param {Api.JobRow} job */
  job(job) {
    const { nextRunAtMs: next, lastStatus: last, standing } = job.state;
    const log = h("ol", { cls: "ticks", hidden: true });
    if (this.logs.has(job.id)) this.showRuns(job, log); // opened before this redraw
    return [
      h(
        "span",
        { cls: "grow" },
        job.name || job.id,
        h("small", null, `${scheduleOf(job.schedule)}${next ? ` · next ${inZone(next, zoneOf(job.schedule))}` : ""}`),
        h("small", null, makerOf(job)),
        isBad(standing) && standing?.why && h("small", { cls: "problem" }, oneLine(standing.why, 300)),
        log,
      ),
      last && stateMark(standing),
      !job.enabled && h("small", null, "off"),
      wire.offers("cron.run") &&
        h(
          "button",
          { type: "button", onclick: () => this.doJob(wire.call("cron.run", { id: job.id, mode: "force" }), "It runs.") },
          "Run now",
        ),
      wire.offers("cron.runs") &&
        h(
          "button",
          { type: "button", "aria-expanded": String(this.logs.has(job.id)), onclick: (event) => this.unfold(job, log, event.currentTarget) },
          "Log",
        ),
      wire.offers("cron.update") &&
        h(
          "button",
          {
            type: "button",
            onclick: () =>
              this.doJob(
                wire.call("cron.update", { id: job.id, patch: { enabled: !job.enabled } }),
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
                done: () => this.doJob(wire.call("cron.remove", { id: job.id }), ""),
              }),
          },
          "Remove",
        ),
    ].filter(Boolean);
  }

  /** @param {Api.JobRow} job @param {HTMLElement} log @param {HTMLElement} button */
  unfold(job, log, button) {
    const opens = !this.logs.delete(job.id);
    button.setAttribute("aria-expanded", String(opens));
    log.hidden = !opens;
    if (!opens) return;
    this.logs.add(job.id);
    this.showRuns(job, log);
  }

  /** @param {Api.JobRow} job @param {HTMLElement} log */
  async showRuns(job, log) {
    try {
      const { entries } = await wire.call("cron.runs", { id: job.id, limit: LOG_RUNS, includeStanding: true });
      const rows = entries.map((each) => [
        h("time", null, `${dayOf(each.ts || each.runAtMs)}, ${timeOf(each.ts || each.runAtMs)}`),
        stateMark(each.standing),
        h("span", null, each.summary || each.error || ""),
      ]);
      fill(log, rows.length ? rows.map((cells) => h("li", null, cells)) : h("li", null, "It has not run yet."));
      log.hidden = false;
    } catch (error) {
      complain(error);
    }
  }

  newJob() {
    /** @param {string} label @param {HTMLInputElement} input */
    const named = (label, input) => h("label", null, label, input);
    const name = h("input", { name: "name", required: true, placeholder: "Morning news" });
    const expr = h("input", { name: "expr", required: true, placeholder: "0 7 * * *" });
    const message = h("input", { name: "message", required: true });
    const problem = h("p", { cls: "problem", role: "alert" });
    return h(
      "form",
      {
        cls: "fields",
        "aria-label": "New job",
        onsubmit: async (event) => {
          event.preventDefault();
          const form = event.currentTarget; // which an event knows only until the first wait
          try {
            await wire.call("cron.add", {
              name: name.value,
              schedule: { kind: "cron", expr: expr.value },
              sessionTarget: "isolated",
              wakeMode: "now",
              payload: { kind: "agentTurn", message: message.value },
            });
          } catch (error) {
            problem.textContent = whyOf(error);
            return;
          }
          problem.textContent = "";
          form.reset();
          notice("Added.", { ms: 2000 });
          this.again(true);
        },
      },
      named("Name", name),
      named("When (minute hour day month weekday)", expr),
      named("Message to the agent", message),
      problem,
      h("div", null, h("button", { type: "submit" }, "Add a job")),
    );
  }

  /** @param {Promise<unknown>} work @param {string} done what is said then */
  async doJob(work, done) {
    try {
      await work;
      if (done) notice(done, { ms: 2000 });
      this.again();
    } catch (error) {
      complain(error);
    }
  }
}

/** A job's times are those of its own zone, which is named where it is not this browser's.
 * @param {number} at @param {string | null} [zone] */
function inZone(at, zone) {
  const here = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || zone === here) return `${dayOf(at)}, ${timeOf(at)}`;
  /** @type {Intl.DateTimeFormatOptions} */
  const there = { weekday: "long", day: "numeric", month: "long", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone };
  try {
    return `${new Intl.DateTimeFormat(undefined, there).format(at)} in ${zone}`;
  } catch {
    return `${dayOf(at)}, ${timeOf(at)}`; // a zone that this browser does not know
  }
}

/** @param {Api.JobRow["schedule"]} schedule */
const zoneOf = (schedule) => (schedule.kind === "cron" ? schedule.tz : null);

/** @param {Api.JobRow["schedule"]} schedule */
function scheduleOf(schedule) {
  if (schedule.kind === "every") return `every ${lasted(schedule.everyMs)}`;
  if (schedule.kind === "at") return `once, ${dayOf(Date.parse(schedule.at))}`;
  return `${schedule.expr}${schedule.tz ? ` ${schedule.tz}` : ""}`;
}

/** Who made it, and why it is off, where the gateway did that.
 * @param {Api.JobRow} job */
function makerOf(job) {
  const names = (job.madeBy || []).join(", ");
  const made = names ? `made by ${names}${job.earlierToken ? ", with an earlier token: keep or remove it" : ""}` : "";
  return [made, job.offBecause && `off: ${job.offBecause}`].filter(Boolean).join(" · ");
}
