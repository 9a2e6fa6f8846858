// @ts-check
// An exchange: a send with its rounds and announce, or a spawn with its child's run, step by step.
import {
  Part,
  cost,
  count,
  debounce,
  exactTime,
  face,
  fill,
  h,
  isBad,
  lasted,
  letter,
  nameOfKey,
  oneLine,
  stateOf,
  stateMark,
  timeOf,
  to,
} from "./dom.js";
import { chainOf, figures } from "./causes.js";
import { keepingFocus } from "./controls.js";
import { findNamed } from "./finding.js";
import { gateway, showWords } from "./gateway.js";
import { EXPLAINED, isSilent } from "./protocol.js";
import { wire } from "./wire.js";

/** @typedef {{at?: number, from: string, to: string, kind: string, text: string, run?: Api.RunRow, spent?: Api.RunSpending,
 * reply?: string, answer?: boolean, silent?: boolean}} Step what passes from one lifeline to another */

/** @type {Record<string, string>} */
const ANNOUNCED = { "no address": "not posted: the session has no chat", failed: "the announce failed" };

class Exchange extends Part {
  /** @type {string | null} */ name = null;
  /** @type {Api.ExchangeTrace | null} */ trace = null;
  page = h("div", { cls: "page" });
  soon = debounce(() => this.read(), 400);

  open() {
    fill(this, this.page);
    this.hear(gateway, "open", () => this.read());
    this.hear(wire, "sessions.changed", ({ detail }) => {
      if (!this.trace || [this.trace.requester, this.trace.target].includes(detail.sessionKey)) this.soon();
    });
  }

  /** @param {string | null} id */
  go(id) {
    this.name = id;
    this.trace = null;
    fill(this.page);
    this.read();
  }

  read() {
    return findNamed(this, {
      ask: askExchange,
      draw: (found) => this.draw(found),
      refuse: (why) => fill(this.page, h("header", null, h("h2", null, "Exchange")), why),
    });
  }

  /** @param {Awaited<ReturnType<typeof askExchange>>} found */
  draw({ trace, began }) {
    this.trace = trace;
    /** @type {NodeListOf<HTMLElement>} */
    const open = this.page.querySelectorAll("details[open]");
    const opened = new Set([...open].map((each) => each.dataset.step));
    const spent = trace.steps.reduce(
      (sum, { spent: each }) => ({
        tokens: sum.tokens + each.inputTokens + each.outputTokens,
        cost: sum.cost + (each.costUsd || 0),
      }),
      { tokens: 0, cost: 0 },
    );
    const drawn = [
      h(
        "header",
        null,
        h("h2", null, `${nameOfKey(trace.requester)} → ${nameOfKey(trace.target)}`),
        stateMark(trace.standing, true),
        trace.steps[0] && h("a", { cls: "button main", href: to.trace(trace.steps[0].run.runId) }, "Trace"),
      ),
      chainOf(began, trace.steps[0]?.run),
      figures([
        ["Kind", trace.kind],
        ["Began", `${timeOf(trace.createdAt)}`],
        ["Took", trace.endedAt ? lasted(trace.endedAt - trace.createdAt) : "under way"],
        ["Rounds", trace.kind === "send" ? `${trace.turn || 0} of ${trace.turnsMax || 0}` : "–"],
        ["Tokens", count(spent.tokens)],
        ["Cost", cost(spent.cost)],
      ]),
      this.diagram(trace, opened),
    ];
    keepingFocus(this.page, () => fill(this.page, ...drawn));
  }

  /** @param {Api.ExchangeTrace} trace @param {Set<string | undefined>} opened */
  diagram(trace, opened) {
    const lanes = [trace.requester, trace.target];
    const steps = stepsOf(trace, lanes);
    const element = h("div", { cls: "sequence", role: "list", "aria-label": "Steps" });
    element.style.setProperty("--lanes", String(lanes.length));
    lanes.forEach((key, lane) => {
      const actor = h(
        "a",
        { cls: "actor", href: key && !key.startsWith("chat:") ? to.chat(key) : null },
        key?.startsWith("agent:") ? face(key) : letter(laneName(key)),
        h("span", null, laneName(key)),
      );
      const line = h("div", { cls: "lifeline", "aria-hidden": "true" });
      for (const each of [actor, line]) each.style.gridColumn = `${lane + (narrow() ? 1 : 2)}`;
      element.append(actor, line);
    });
    element.style.gridTemplateRows = `repeat(${steps.length + 1}, auto)`;
    steps.forEach((step, i) => element.append(stepElement(step, i, lanes, opened.has(String(i)), trace.createdAt)));
    return element;
  }
}

/** The exchange, and the run that began it.
 * @param {string} id */
async function askExchange(id) {
  const trace = await wire.call("exchanges.trace", { id });
  const first = trace.steps[0]?.run.runId;
  return { trace, began: first ? await wire.call("runs.trace", { runId: first }) : null };
}

const narrow = () => matchMedia("(max-width: 699px)").matches;

/** What passed between the lifelines, in the order of the ledger.
 * @param {Api.ExchangeTrace} trace @param {string[]} lanes */
function stepsOf(trace, lanes) {
  /** @type {Step[]} */
  const steps = [];
  trace.steps.forEach((step, i) => {
    const { run } = step;
    const announce = run.kind === "announce";
    const from = announce ? run.key : i === 0 ? trace.requester : run.source || trace.requester;
    const kind = announce
      ? "announce"
      : run.kind === "round"
        ? `round ${run.runId.split("round-").at(-1)}`
        : run.kind;
    steps.push({
      ...step,
      at: run.createdAt,
      from,
      to: run.key,
      kind,
      text: announce ? step.reply || "…" : step.text,
      silent: announce && isSilent(step.reply || ""),
    });
    const next = trace.steps[i + 1]?.run.kind;
    if (!announce && next !== "round" && run.endedAt) {
      const other = run.key === trace.requester ? trace.target : trace.requester;
      steps.push({
        run,
        at: run.endedAt,
        from: run.key,
        to: other,
        kind: run.standing ? run.standing.name : "reply",
        text: step.reply || run.error || "",
        answer: true,
        silent: isSilent(step.reply || ""),
      });
    }
    for (const sent of step.deliveries) {
      const chat = `chat:${sent.channel}`;
      if (!lanes.includes(chat)) lanes.push(chat);
      steps.push({
        run,
        at: sent.createdAt,
        from: run.key,
        to: chat,
        kind: sent.state,
        text: sent.text,
        answer: true,
      });
    }
  });
  if (trace.announce && trace.announce in ANNOUNCED)
    steps.push({
      at: trace.endedAt,
      from: trace.target,
      to: trace.target,
      kind: "over",
      text: ANNOUNCED[trace.announce],
    });
  if (trace.spawn?.announcedAt)
    steps.push({
      at: trace.spawn.announcedAt,
      from: trace.target,
      to: trace.requester,
      kind: "announce",
      text: outcomeOf(trace.spawn),
      answer: true,
    });
  return steps;
}

/** How a child ended, in words: what it said, else what went wrong. The ledger keeps it as JSON.
 * @param {Api.SpawnRow} spawn */
function outcomeOf({ outcome = "", state }) {
  try {
    const { status, reply, error } = JSON.parse(outcome);
    return reply || error || status || state;
  } catch {
    return outcome || state;
  }
}

/** @param {Step} step @param {number} index @param {string[]} lanes @param {boolean} open @param {number} began */
function stepElement(step, index, lanes, open, began) {
  const [a, b] = [Math.max(0, lanes.indexOf(step.from)), Math.max(0, lanes.indexOf(step.to))];
  const bad = isBad(step.run?.standing) || step.run?.standing?.name === "stopped" || step.kind === "failed";
  const facts = step.run && step.spent ? factsOf(step.run, step.spent) : "";
  const element = h(
    "div",
    {
      role: "listitem",
      cls: `step${a === b ? " self" : a > b ? " left" : ""}${step.answer ? " answer" : ""}${bad ? " bad" : ""}`,
    },
    h("time", null, step.at ? exactTime(step.at) : "", index > 0 && step.at && h("small", null, `+${lasted(step.at - began)}`)),
    h(
      "details",
      { open, data: { step: index } },
      h(
        "summary",
        { "aria-label": `${step.kind}, ${laneName(step.from)} to ${laneName(step.to)}: ${oneLine(step.text, 100)}` },
        h("span", { cls: "kind", title: EXPLAINED[step.kind.split(" ")[0]] }, step.kind, h("small", null, facts)),
        h("i", { cls: "arrow", "aria-hidden": "true" }),
        h(
          "span",
          { cls: `said${step.silent ? " silent" : ""}` },
          step.silent ? "said nothing" : oneLine(step.text, 300),
        ),
      ),
      step.run && moreOf(step, step.run),
    ),
  );
  element.style.gridRow = String(index + 2);
  element.style.setProperty("--from", String(Math.min(a, b)));
  element.style.setProperty("--to", String(Math.max(a, b)));
  element.style.setProperty("--span", String(Math.abs(a - b)));
  return element;
}

/** @param {Api.RunRow} run @param {Api.RunSpending} spent */
const factsOf = (run, spent) =>
  [
    run.endedAt && lasted(run.endedAt - (run.startedAt || run.createdAt)),
    `${count(spent.inputTokens + spent.outputTokens)} tokens`,
    spent.costUsd && cost(spent.costUsd),
    run.standing && stateOf(run.standing).text,
  ]
    .filter(Boolean)
    .join(" · ");

/** @param {string} key */
const laneName = (key) => (key?.startsWith("chat:") ? key.slice(5) : nameOfKey(key));

/** @param {Step} step @param {Api.RunRow} run */
function moreOf(step, run) {
  const said = h("div", { cls: "words" });
  showWords(said, step.text);
  const reply = step.reply && !step.answer && step.kind !== "announce" ? h("div", { cls: "words" }) : null;
  if (reply) showWords(reply, step.reply || "");
  return h(
    "div",
    { cls: "more" },
    h("h4", null, step.answer ? "Words" : step.kind === "announce" ? "Said" : "Asked"),
    said,
    reply && [h("h4", null, "Answered"), reply],
    EXPLAINED[step.kind.split(" ")[0]] && h("p", { cls: "hint" }, EXPLAINED[step.kind.split(" ")[0]]),
    h("p", null, h("a", { href: to.run(run.runId) }, "The whole run")),
  );
}

customElements.define("cc-exchange", Exchange);
