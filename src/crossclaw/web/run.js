// @ts-check
// A run from its cause to its effects: every turn of the model, every tool call with input and output.
import {
  Part,
  authorOf,
  cost,
  count,
  debounce,
  exactTime,
  fill,
  h,
  lasted,
  nameOfKey,
  oneLine,
  stateOf,
  pretty,
  stateMark,
  textOf,
  thought,
  timeOf,
  to,
} from "./dom.js";
import { chainOf, figures } from "./causes.js";
import { keepingFocus } from "./controls.js";
import { findNamed } from "./finding.js";
import { gateway } from "./gateway.js";
import { copy, save } from "./keeping.js";
import { blocksOf, words } from "./transcript.js";
import { wire } from "./wire.js";

class Run extends Part {
  /** @type {string | null} */ name = null;
  page = h("div", { cls: "page" });
  soon = debounce(() => this.read(), 300);

  open() {
    fill(this, this.page);
    this.hear(gateway, "open", () => this.read());
    this.hear(wire, "agent", ({ detail }) => {
      if (detail.runId === this.name) this.soon();
    });
    this.hear(wire, "chat", ({ detail }) => {
      if (detail.runId === this.name && detail.state !== "delta") this.soon();
    });
  }

  /** @param {string | null} id */
  go(id) {
    this.name = id;
    fill(this.page);
    this.read();
  }

  read() {
    return findNamed(this, {
      ask: (runId) => wire.call("runs.trace", { runId }),
      draw: (trace) => this.draw(trace),
      refuse: (why) => fill(this.page, h("header", null, h("h2", null, "Run")), why),
    });
  }

  /** @param {Api.RunTrace} trace */
  draw(trace) {
    const { run, spent } = trace;
    /** @type {NodeListOf<HTMLElement>} */
    const open = this.page.querySelectorAll("details[open]");
    const opened = new Set([...open].map((each) => each.dataset.call));
    const began = run.startedAt || run.createdAt;
    const drawn = [
      h(
        "header",
        null,
        h("h2", null, `${nameOfKey(run.key)} · ${run.kind}`),
        stateMark(run.standing, true),
        h("a", { cls: "button main", href: to.trace(run.runId) }, "Trace"),
        run.exchangeId && h("a", { cls: "button", href: to.exchange(run.exchangeId) }, "Exchange"),
        h("a", { cls: "button", href: to.chat(run.key) }, "Chat"),
        h("button", { type: "button", onclick: () => copy(location.href) }, "Copy link"),
        h("button", { type: "button", onclick: () => save(trace, `run-${trace.run.runId}`) }, "Export JSON"),
      ),
      chainOf(trace, run),
      figures([
        ["Queued for", lasted(began - run.createdAt)],
        ["Took", run.endedAt ? lasted(run.endedAt - began) : "under way"],
        ["Turns", spent.turns],
        ["Tokens", count(spent.inputTokens + spent.outputTokens)],
        ["Cost", cost(spent.costUsd)],
        ["Model", trace.model || "–"],
      ]),
      h("div", null, h("ol", { cls: "timeline", "aria-label": "What happened" }, timeline(trace, opened))),
      trace.caused.length > 0 && [
        h("h3", null, "What followed from it"),
        h(
          "ul",
          { cls: "cards" },
          trace.caused.map((each) =>
            h(
              "li",
              null,
              h(
                "a",
                { href: to.run(each.runId) },
                h("span", { cls: "route" }, `${nameOfKey(each.key)} · ${each.kind}`),
                h("span", { cls: "meta" }, stateMark(each.standing), timeOf(each.createdAt)),
              ),
            ),
          ),
        ),
      ],
    ];
    keepingFocus(this.page, () => fill(this.page, ...drawn));
  }
}

/** @param {Api.RunTrace} trace @param {Set<string | undefined>} opened */
function timeline(trace, opened) {
  const { run } = trace;
  /** @type {Map<string | undefined, Api.Message>} */
  const results = new Map();
  for (const { message } of trace.entries) if (message?.role === "toolResult") results.set(message.toolCallId, message);
  const items = [];
  if (!trace.entries.some((each) => each.message?.role === "user") && trace.asked)
    items.push(moment(run.createdAt, "Asked", `by ${authorOf(trace.asked.provenance)}`, words(textOf(trace.asked))));
  let before = run.startedAt || run.createdAt;
  let turn = 0;
  if (run.epoch && run.epoch > 1)
    items.push(
      moment(run.startedAt || run.createdAt, "Taken up again", `${run.epoch} claims: a process went away while it ran`, null, "bad"),
    );
  for (const entry of trace.entries) {
    const { message } = entry;
    if (message?.role === "user")
      items.push(
        moment(
          entry.at,
          "Asked",
          `by ${authorOf(message.provenance)}`,
          words(textOf(message)),
        ),
      );
    if (message?.role === "assistant") items.push(...turnItems(message, entry.at, ++turn, before, results, opened));
    if (!message)
      items.push(
        moment(entry.at, entry.type === "compaction" ? "Compaction" : "Note", "", h("pre", null, pretty(entry.note))),
      );
    before = entry.at;
  }
  for (const sent of trace.deliveries)
    items.push(
      moment(
        sent.createdAt,
        "Delivery",
        `to ${sent.channel}, ${sent.state}${sent.attempt > 1 ? `, attempt ${sent.attempt}` : ""}`,
        sent.error && h("p", { cls: "problem" }, sent.error),
        sent.state === "failed" ? "bad" : "",
      ),
    );
  if (run.endedAt)
    items.push(
      moment(
        run.endedAt,
        "Ended",
        stateOf(run.standing).text,
        run.error && h("p", { cls: "problem" }, run.error),
        run.status === "ok" ? "" : "bad",
      ),
    );
  else
    items.push(
      moment(
        Date.now(),
        run.status === "queued" ? "Queued" : run.status === "waiting" ? "Waiting" : "At work",
        "now",
        null,
      ),
    );
  return items;
}

/** @param {Api.Message} message @param {number} at @param {number} turn @param {number} before
 * @param {Map<string | undefined, Api.Message>} results @param {Set<string | undefined>} opened */
function turnItems(message, at, turn, before, results, opened) {
  const blocks = blocksOf(message);
  const calls = blocks.filter((block) => block.type === "toolCall");
  const facts = [
    lasted(at - before),
    message.usage && `${count(message.usage.input)} in, ${count(message.usage.output)} out`,
    message.usage?.cacheRead && `${count(message.usage.cacheRead)} cached`,
    message.usage?.cost && cost(message.usage.cost.total),
    message.stopReason,
  ]
    .filter(Boolean)
    .join(" · ");
  const thoughts = blocks.map((block) => block.type === "thinking" && block.thinking && thought(block.thinking));
  const items = [
    moment(
      at,
      `Turn ${turn}`,
      facts,
      [
        ...thoughts,
        textOf(message) && words(textOf(message)),
        message.errorMessage && h("p", { cls: "problem" }, message.errorMessage),
      ],
      message.errorMessage ? "bad" : "",
    ),
  ];
  if (calls.length)
    items.push(
      moment(
        at,
        calls.length === 1 ? "Tool call" : `${calls.length} tool calls`,
        "",
        calls.map((call) => callElement(call, results.get(call.id), opened)),
        "tools",
      ),
    );
  return items;
}

/** @param {Extract<Api.Block, {type: "toolCall"}>} call @param {Api.Message | undefined} message @param {Set<string | undefined>} opened */
function callElement(call, message, opened) {
  return h(
    "details",
    {
      cls: "tool",
      open: opened.has(call.id),
      data: { state: message ? (message.standing ? "bad" : "ok") : "running", call: call.id },
    },
    h(
      "summary",
      null,
      h("span", { cls: "verb" }, call.name),
      h("span", { cls: "line" }, oneLine(call.arguments, 110)),
      h(
        "span",
        { cls: "time" },
        message ? `${message.standing ? `${message.standing.why || "failed"} · ` : ""}${lasted(message.durationMs)}` : "under way",
      ),
    ),
    h(
      "div",
      { cls: "inside" },
      h("h4", null, "Input"),
      h("pre", null, pretty(call.arguments)),
      h("h4", null, "Output"),
      h("pre", null, message ? textOf(message) || "(nothing)" : "…"),
    ),
  );
}

/** @param {number} at @param {string} title @param {string} facts @param {Page.Child} [content] */
function moment(at, title, facts, content, cls = "") {
  return h(
    "li",
    { cls },
    h("p", { cls: "label" }, h("b", null, title), h("time", null, exactTime(at)), facts),
    content,
  );
}


customElements.define("cc-run", Run);
