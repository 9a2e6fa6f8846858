// @ts-check
// Figures: cost, tokens, turns, failures and time, over time, for each agent, model or channel. Drawn here, with the same
// numbers as a table behind it.
import { Part, agentName, cost, count, dayOf, empty, fill, h, lasted, shadeOf, svg, timeOf, tokens } from "./dom.js";
import { keepingFocus, select } from "./controls.js";
import { wire } from "./wire.js";

const MINUTE = 60000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const DRAWN = 6; // each with a colour of its own; what is left is one more, in grey
const HEIGHT = 230;
const SHORTEST_MS = 300; // what took less is not told apart (domain/figures.py)
const EDGE = { left: 62, right: 10, top: 12, bottom: 26 };

/** @typedef {(ms: number) => number} Time */
/** @typedef {{agent: string | false, title: string, values: Map<number, number>, sum: string, rest: boolean}} Shown a series as it is drawn */
/** @typedef {{x: (i: number) => number, y: (value: number) => number, w: number}} Place of steps and values in the picture */
/** @typedef {ReturnType<typeof chosenBy>} Chosen */

/** @type {Time} */
const midnight = (ms) => new Date(ms).setHours(0, 0, 0, 0);
/** @type {Time} */
const wholeHour = (ms) => ms - (ms % HOUR);

/** How far back, in which steps, from where, and how a step is called.
 * @type {Record<string, {title: string, step: number, since: Time, name: (ms: number) => string}>} */
const SPANS = {
  hour: { title: "Last hour", step: 5 * MINUTE, since: (now) => now - HOUR, name: timeOf },
  day: { title: "Last day", step: HOUR, since: (now) => wholeHour(now - 23 * HOUR), name: timeOf },
  week: { title: "Last week", step: 6 * HOUR, since: (now) => midnight(now - 6 * DAY), name: (ms) => `${dayOf(ms)}, ${timeOf(ms)}` },
  month: { title: "Last 30 days", step: DAY, since: (now) => midnight(now - 29 * DAY), name: dayOf },
  year: { title: "Last year", step: 7 * DAY, since: (now) => midnight(now - 363 * DAY), name: (ms) => `week from ${dayOf(ms)}` },
};
/** @type {Record<string, {title: string}>} */
const DIVIDERS = { agent: { title: "By agent" }, model: { title: "By model" }, channel: { title: "By channel" } };
/** @param {number} usd */
const dollars = (usd) => (usd ? cost(usd) : "$0.00");

/** What is drawn: a sum is stacked, a time is not.
 * @type {Record<string, {title: string, of: (point: Api.FigurePoint) => number | null, say: (value: number) => string, apart?: boolean}>} */
const MEASURES = {
  cost: { title: "Cost", of: (point) => point.costUsd, say: dollars },
  tokens: { title: "Tokens", of: (point) => point.tokens, say: tokens },
  turns: { title: "Turns", of: (point) => point.turns, say: count },
  failed: { title: "Failures", of: (point) => point.failed, say: count },
  time: { title: "Median time", of: (point) => point.tookMedianMs ?? null, say: lasted, apart: true },
};

/** @param {string} by @param {string} name */
const nameOf = (by, name) => {
  if (by === "agent") return agentName(name);
  return name || (by === "model" ? "no model" : "–");
};

/** @param {string} rest what stands behind the tab's name in the address */
function chosenBy(rest) {
  const [span, by, measure] = rest.split("/");
  return {
    span: span in SPANS ? span : "day",
    by: by in DIVIDERS ? by : "agent",
    measure: measure in MEASURES ? measure : "cost",
  };
}

class FiguresView extends Part {
  chosen = chosenBy("");
  /** @type {Api.FiguresResult | null} */ answer = null;
  choices = {
    span: this.chooser("Time", SPANS, "span"),
    by: this.chooser("Divided", DIVIDERS, "by"),
    measure: this.chooser("Figure", MEASURES, "measure"),
  };

  sums = h("dl", { cls: "figures" });
  picture = h("figure", { cls: "chart" });
  legend = h("ul", { cls: "names" });
  table = h("table", { cls: "plain" });
  behind = h("details", null, h("summary", null, "The same as a table"), h("div", { cls: "wide" }, this.table));
  sight = new ResizeObserver(() => this.draw());

  open() {

    fill(this, h("p", { cls: "choices" }, Object.values(this.choices)), this.sums, this.picture, this.legend, this.behind);
    this.sight.observe(this.picture);
  }

  close() {
    this.sight.disconnect();
  }

  /** @param {string} label @param {Record<string, {title: string}>} options @param {keyof Chosen} part */
  chooser(label, options, part) {
    return select(label, Object.entries(options).map(([id, { title }]) => [id, title]), (event) => this.pick(part, event.currentTarget.value));
  }

  /** Its address says what is shown: #/operations/figures/week/model/tokens. It is asked, not what was drawn last: of two
   * choices in quick succession the second must not take the first one back.
   * @param {keyof Chosen} part @param {string} value */
  pick(part, value) {
    const before = chosenBy(location.hash.split("/").slice(3).join("/"));
    const { span, by, measure } = Object.assign(before, { [part]: value });
    location.replace(`#/operations/figures/${span}/${by}/${measure}`);
  }

  /** @param {string} [rest] */
  async read(rest = "") {
    const chosen = (this.chosen = chosenBy(rest));
    const { span, by, measure } = chosen;
    this.choices.span.value = span;
    this.choices.by.value = by;
    this.choices.measure.value = measure;
    const { step, since } = SPANS[span];
    const divider = /** @type {Api.FiguresParams["by"]} */ (by);
    const answer = await wire.call("figures.get", { sinceMs: since(Date.now()), stepMs: step, by: divider });
    if (this.chosen !== chosen || !this.isConnected) return; // asked anew meanwhile
    this.answer = answer;
    this.draw();
  }

  draw() {
    if (!this.answer) return;
    const { total, series } = this.answer;
    const shown = topOf(series, this.chosen);
    const steps = stepsOf(this.answer);
    keepingFocus(this, () => {
      fill(this.sums, sumsOf(total).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
      fill(this.picture, total.turns ? chart(steps, shown, this.chosen, this.picture.clientWidth) : empty("No turn in this time", "What agents spend, how long they take and how often they fail is drawn here."));
      fill(this.legend, shown.map((each, i) => h("li", null, paint(h("i", { cls: "key", "aria-hidden": "true" }), each, i), each.title, h("b", null, each.sum))));
      this.behind.hidden = !total.turns;
      this.tabulate(steps, shown);
    });
  }

  /** @param {number[]} steps @param {Shown[]} shown */
  tabulate(steps, shown) {
    const { span, measure } = this.chosen;
    const { say } = MEASURES[measure];
    fill(
      this.table,
      h("thead", null, h("tr", null, ["Time", ...shown.map((each) => each.title)].map((each) => h("th", { scope: "col" }, each)))),
      h(
        "tbody",
        null,
        steps.map((at) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, SPANS[span].name(at)),
            shown.map(({ values }) => h("td", null, values.has(at) ? say(values.get(at) ?? 0) : "–")),
          ),
        ),
      ),
    );
  }
}

/** @param {Api.FigurePoint} total @returns {[string, string][]} */
const sumsOf = (total) => [
  ["Cost", dollars(total.costUsd)],
  ["Tokens", `${tokens(total.tokens)}${total.cached ? `, ${tokens(total.cached)} cached` : ""}`],
  ["Turns", count(total.turns)],
  ["Failed", total.turns ? `${count(total.failed)} (${((100 * total.failed) / total.turns).toFixed(total.failed ? 1 : 0)} %)` : "0"],
  ["Half of the turns took", aboutOf(total.tookMedianMs)],
  ["95 % took up to", aboutOf(total.took95Ms)],
];

/** Times are counted in classes; of the shortest only its end is known.
 * @param {number} [ms] */
function aboutOf(ms) {
  if (ms === undefined) return "–";
  return ms < SHORTEST_MS ? `less than ${lasted(SHORTEST_MS)}` : `about ${lasted(ms)}`;
}

/** @param {Api.FiguresResult} answer */
function stepsOf({ since, until, stepMs }) {
  return Array.from({ length: Math.max(1, Math.ceil((until - since) / stepMs)) }, (_, i) => since + i * stepMs);
}

/** The largest by what is drawn, and the rest as one.
 * @param {Api.FigureSeries[]} series @param {Chosen} chosen */
function topOf(series, { by, measure }) {
  const { of, say, apart } = MEASURES[measure];
  /** @param {Api.FigureSeries} each */
  const sumOf = (each) => of(each.total) ?? 0;
  const order = [...series].sort((a, b) => sumOf(b) - sumOf(a));
  /** @param {Api.FigureSeries} each */
  const valuesOf = (each) => {
    /** @type {Map<number, number>} */
    const values = new Map();
    for (const point of each.points) {
      const value = of(point);
      if (value !== null) values.set(point.at, value);
    }
    return values;
  };
  /** @type {Shown[]} */
  const shown = order
    .slice(0, DRAWN)
    .map((each) => ({ agent: by === "agent" && each.name, title: nameOf(by, each.name), values: valuesOf(each), sum: say(sumOf(each)), rest: false }));
  const left = apart ? [] : order.slice(DRAWN);
  if (left.length) {
    /** @type {Map<number, number>} */
    const values = new Map();
    for (const each of left) for (const [at, value] of valuesOf(each)) values.set(at, (values.get(at) || 0) + value);
    shown.push({ agent: "", title: `${left.length} others`, values, sum: say(left.reduce((sum, each) => sum + sumOf(each), 0)), rest: true });
  }
  return shown;
}

// ── drawing ─────────────────────────────────────────────────────────────────────────────────

/** A round number that is not below: one digit and zeros.
 * @param {number} value */
function roundUp(value) {
  if (!value) return 1;
  const zeros = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 3, 4, 5, 6, 8].find((each) => each * zeros >= value * 0.9999) ?? 10) * zeros;
}

/** @param {number[]} steps @param {Shown[]} shown @param {Chosen} chosen @param {number} width */
function chart(steps, shown, { span, by, measure }, width) {
  const { title, say, apart } = MEASURES[measure];
  const heights = steps.map((step) =>
    shown.reduce((sum, { values }) => (apart ? Math.max(sum, values.get(step) || 0) : sum + (values.get(step) || 0)), 0),
  );
  const top = roundUp(Math.max(0, ...heights));
  const wide = Math.max(240, width) - EDGE.left - EDGE.right;
  const high = HEIGHT - EDGE.top - EDGE.bottom;
  /** @type {Place} */
  const place = { x: (i) => EDGE.left + (wide * i) / steps.length, y: (value) => EDGE.top + high * (1 - value / top), w: wide / steps.length };
  const sums = shown.map((each) => `${each.title} ${each.sum}`).join(", ") || "nothing";
  return svg(
    "svg",
    { role: "img", width: wide + EDGE.left + EDGE.right, height: HEIGHT, "aria-label": `${title}, ${SPANS[span].title.toLowerCase()}, ${DIVIDERS[by].title.toLowerCase()}: ${sums}` },
    axis(top, say, place, wide),
    labels(steps, span, place, wide),
    apart ? lines(steps, shown, place) : bars(steps, shown, place, (i) => `${SPANS[span].name(steps[i])}: ${say(heights[i])}`),
  );
}

/** @param {number} top @param {(value: number) => string} say @param {Place} place @param {number} wide */
const axis = (top, say, place, wide) =>
  [0, 0.5, 1].flatMap((part) => [
    svg("line", { cls: "rule", x1: EDGE.left, x2: EDGE.left + wide, y1: place.y(part * top), y2: place.y(part * top) }),
    svg("text", { x: EDGE.left - 8, y: place.y(part * top) + 4, "text-anchor": "end" }, say(part * top)),
  ]);

/** @param {number[]} steps @param {string} span @param {Place} place @param {number} wide */
function labels(steps, span, place, wide) {
  const each = Math.ceil(steps.length / Math.max(2, Math.floor(wide / 110)));
  const short = new Intl.DateTimeFormat(undefined, SPANS[span].step < 6 * HOUR ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : { day: "numeric", month: "short" });
  return steps
    .map((step, i) => i % each === 0 && svg("text", { x: place.x(i) + 2, y: HEIGHT - 6 }, short.format(step)))
    .filter(Boolean);
}

/** An agent has the colour that it has everywhere; models and channels have one by their place.
 * @template {HTMLElement | SVGElement} Painted
 * @param {Painted} element @param {Shown} each @param {number} i */
function paint(element, each, i) {
  element.classList.add(each.agent ? "sown" : `s${each.rest ? "rest" : i}`);
  if (each.agent) for (const [name, value] of Object.entries(shadeOf(each.agent))) element.style.setProperty(`--${name}`, String(value));
  return element;
}

/** @param {number[]} steps @param {Shown[]} shown @param {Place} place @param {(i: number) => string} say */
function bars(steps, shown, place, say) {
  const gap = place.w > 6 ? 2 : 0;
  return steps.map((step, i) => {
    let below = 0;
    const pieces = shown.map((each, n) => {
      const value = each.values.get(step) || 0;
      const y = place.y(below + value);
      const piece = value > 0 && paint(svg("rect", { x: place.x(i) + gap / 2, width: Math.max(1, place.w - gap), y, height: Math.max(0.5, place.y(below) - y) }), each, n);
      below += value;
      return piece;
    });
    return below > 0 && svg("g", null, svg("title", null, say(i)), ...pieces);
  });
}

/** @param {number[]} steps @param {Shown[]} shown @param {Place} place */
function lines(steps, shown, place) {
  return shown.map((each, n) => {
    const dots = steps.flatMap((step, i) => {
      const value = each.values.get(step);
      return value === undefined ? [] : [[place.x(i) + place.w / 2, place.y(value)]];
    });
    const line = svg(
      "g",
      { cls: "line" },
      svg("polyline", { points: dots.map((dot) => dot.join()).join(" ") }),
      dots.map(([cx, cy]) => svg("circle", { cx, cy, r: 3 })),
    );
    return paint(line, each, n);
  });
}

customElements.define("cc-figures", FiguresView);
