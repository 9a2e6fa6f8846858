// @ts-check
// What a careful eye finds wrong on a page: things without a name, words too pale, what is cut or hidden. A script for
// `page.evaluate`: its last line answers a list of sentences, one rule after the other; an empty one is good.
"use strict"; // so that no name of its own is left behind on the page

/** @typedef {{left: number, top: number, right: number, bottom: number}} Box */
/** @typedef {[r: number, g: number, b: number, a: number]} Color */
/** @typedef {() => string[]} Rule */

// ── what the rules look at ──────────────────────────────────────────────────────────────────

/** @param {Element} element */
const isShown = (element) =>
  element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true }) &&
  element.getClientRects().length > 0;

/** @param {Element} element */
const say = (element) =>
  `<${element.localName}${element.id ? ` id=${element.id}` : ""}${typeof element.className === "string" && element.className ? ` class="${element.className}"` : ""}>`;

/** @param {string} selector @returns {HTMLElement[]} */
const all = (selector) => [...document.querySelectorAll(/** @type {"a"} */ (selector))];

const interactive = () =>
  all("a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])").filter(isShown);

/** The texts in sight, each with the element that it stands in.
 * @param {Element} root */
function* textsIn(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = /** @type {Text} */ (walker.currentNode),
      element = node.parentElement,
      text = node.data.trim();
    if (text && element && isShown(element)) yield { node, element, text };
  }
}

/** An element and all around it, up to the body. @param {Element} element */
function* outward(element) {
  for (let each = /** @type {Element | null} */ (element); each && each !== document.body; each = each.parentElement) yield each;
}

/** @param {Text} node */
function rangeOf(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range;
}

// ── names ───────────────────────────────────────────────────────────────────────────────────

/** @param {HTMLElement} element */
const nameOf = (element) => {
  const labelled = element.getAttribute("aria-labelledby");
  const labels = "labels" in element ? /** @type {HTMLInputElement} */ (element).labels : null;
  return (
    element.getAttribute("aria-label") ||
    (labelled && document.getElementById(labelled)?.textContent) ||
    [...(labels || [])].map((label) => label.textContent).join(" ") ||
    element.getAttribute("alt") ||
    (["input", "select", "textarea"].includes(element.localName) ? "" : element.textContent) ||
    ""
  ).trim();
};

/** @type {Rule} */
const whatHasNoName = () => [
  ...interactive().filter((each) => !nameOf(each)).map((each) => `${say(each)} has no name`),
  ...all("img:not([alt])").map((each) => `${say(each)} has no alternative`),
];

/** @type {Rule} */
const whatJumpsAhead = () =>
  all("[tabindex]").filter((each) => each.tabIndex > 0).map((each) => `${say(each)} jumps ahead in the order of focus`);

/** @type {Rule} */
const idsThereTwice = () => {
  const times = new Map();
  for (const { id } of all("[id]")) times.set(id, (times.get(id) || 0) + 1);
  return [...times].filter(([, n]) => n > 1).map(([id, n]) => `the id ${id} is there ${n} times`);
};

/** @type {Rule} */
const whatNamesNothing = () =>
  ["aria-controls", "aria-labelledby", "aria-activedescendant"].flatMap((name) =>
    all(`[${name}]`)
      .filter((each) => !document.getElementById(each.getAttribute(name) || ""))
      .map((each) => `${say(each)} ${name} names nothing`),
  );

/** @type {Rule} */
const viewWithoutHeading = () =>
  all("main").filter((main) => isShown(main) && !main.querySelector("h2")).map(() => "the view has no heading");

// ── contrast ────────────────────────────────────────────────────────────────────────────────

const pen = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
/** @type {Map<string, Color>} */
const known = new Map();

/** @param {string} color @returns {Color} */
const rgba = (color) => {
  const before = known.get(color);
  if (before) return before;
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = color;
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
  known.set(color, [r, g, b, a / 255]);
  return [r, g, b, a / 255];
};

/** @param {Color} top @param {Color} below @returns {Color} */
const over = (top, below) => {
  /** @param {0 | 1 | 2} i */
  const mix = (i) => top[i] * top[3] + below[i] * (1 - top[3]);
  return [mix(0), mix(1), mix(2), 1];
};

/** What lies under the words of an element. @param {Element} element */
const ground = (element) => {
  /** @type {Color[]} */
  const layers = [];
  for (let each = /** @type {Element | null} */ (element); each; each = each.parentElement) {
    const color = rgba(getComputedStyle(each).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.body).backgroundColor));
};

/** @param {Color} color */
const light = ([r, g, b]) =>
  [r, g, b]
    .map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

/** @type {Rule} */
const wordsTooPale = () => {
  /** @type {Map<string, string>} */
  const found = new Map(); // one sentence for all that look alike
  for (const { element, text } of textsIn(document.body)) {
    if (element.closest(".sr, option, script, svg")) continue;
    const style = getComputedStyle(element),
      below = ground(element);
    const [a, b] = [light(over(rgba(style.color), below)), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05),
      size = parseFloat(style.fontSize),
      large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5) && !found.has(say(element)))
      found.set(say(element), `${say(element)} "${text.slice(0, 30)}" has contrast ${ratio.toFixed(2)}`);
  }
  return [...found.values()];
};

// ── what is cut ─────────────────────────────────────────────────────────────────────────────

const SCROLLS = ".table, .log, cc-recent nav, .side, .page, .panel, .hits, .sr, pre";

/** @type {Rule} */
const whatLiesOutside = () => {
  const wide = document.scrollingElement?.scrollWidth || 0;
  const wrong = wide > innerWidth ? [`the page is ${wide} wide and the window ${innerWidth}`] : [];
  for (const element of interactive()) {
    if (element.closest(SCROLLS) || element.classList.contains("skip")) continue;
    const box = element.getBoundingClientRect();
    if (box.right > innerWidth + 1 || box.bottom > innerHeight + 1 || box.left < -1 || box.top < -1)
      wrong.push(`${say(element)} lies outside the window`);
  }
  return wrong;
};

/** @type {Rule} */
const whatIsTooSmall = () => {
  if (innerWidth >= 500) return [];
  const small = interactive().filter((each) => {
    const box = each.getBoundingClientRect();
    return each.localName === "button" && (box.width < 24 || box.height < 24);
  });
  return small.map((each) => `${say(each)} is too small for a finger`);
};

// Names and messages of others have any length and here a line or two: they end with an ellipsis, and what they
// stand for shows all of them. The page's own words in the rail, links and buttons are never cut.
const ANY_LENGTH = ".rows .name, .rows .more, .table .tr > *, .flow .route, .tool .line, .cards .text, .actor span, .step .said, .state";

/** What cuts these words; null when nothing does. @param {Element} element @param {Box} words */
const cutter = (element, words) => {
  for (const around of outward(element)) {
    const { clipPath, overflowX, overflowY } = getComputedStyle(around);
    if (clipPath !== "none") return null; // only read aloud
    if ([overflowX, overflowY].some((way) => way === "auto" || way === "scroll")) return null; // scrolls
    if (overflowX === "visible" && overflowY === "visible") continue;
    const edge = around.getBoundingClientRect();
    const wide = Math.max(edge.left - words.left, words.right - edge.right);
    const high = Math.max(edge.top - words.top, words.bottom - edge.bottom);
    if (wide > 0.5 || high > 4) return around; // a line's box is a little higher than its letters
  }
  return null;
};

/** @type {Rule} */
const wordsThatAreCut = () =>
  [...textsIn(document.body)].flatMap(({ node, element, text }) => {
    if (!element.closest(".rail, a[href], button, summary") || element.closest(`${ANY_LENGTH}, .sr, option, svg`)) return [];
    const by = cutter(element, rangeOf(node).getBoundingClientRect());
    return by ? [`"${text}" is cut by ${say(by)}`] : [];
  });

// ── words on words ──────────────────────────────────────────────────────────────────────────

/** What is left of a box within all that cuts it. @param {Box} box @param {Element} element @returns {Box} */
const cut = (box, element) => {
  let { left, top, right, bottom } = box;
  for (const around of outward(element)) {
    if (getComputedStyle(around).overflow === "visible") continue;
    const edge = around.getBoundingClientRect();
    [left, top] = [Math.max(left, edge.left), Math.max(top, edge.top)];
    [right, bottom] = [Math.min(right, edge.right), Math.min(bottom, edge.bottom)];
  }
  return { left, top, right, bottom };
};

/** @param {Box} box @param {Element} element */
const isOnTop = ({ left, top, right, bottom }, element) =>
  [left + 1, (left + right) / 2, right - 1].some((x) => {
    const hit = document.elementFromPoint(x, (top + bottom) / 2);
    return hit && (element.contains(hit) || hit.contains(element));
  });

/** The lines of text that can be seen. @param {Element} main */
function* linesIn(main) {
  for (const { node, element, text } of textsIn(main)) {
    if (element.closest(".sr, option")) continue;
    for (const rect of rangeOf(node).getClientRects()) {
      const box = cut(rect, element);
      if (box.right - box.left >= 2 && box.bottom - box.top >= 2 && isOnTop(box, element))
        yield { ...box, element, text: text.slice(0, 20) };
    }
  }
}

/** @type {Rule} */
const wordsOnWords = () => {
  const lines = all("main").flatMap((main) => [...linesIn(main)]);
  return lines.flatMap((one, n) =>
    lines.slice(n + 1).flatMap((other) => {
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      const lie = one.element !== other.element && wide > 3 && high > 5;
      return lie ? [`"${one.text}" and "${other.text}" lie on each other`] : [];
    }),
  );
};

[
  whatHasNoName,
  whatJumpsAhead,
  idsThereTwice,
  whatNamesNothing,
  viewWithoutHeading,
  wordsTooPale,
  whatLiesOutside,
  whatIsTooSmall,
  wordsThatAreCut,
  wordsOnWords,
].flatMap((rule) => rule());
