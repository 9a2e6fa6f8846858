// What a careful eye finds wrong on a page: things without a name, words too pale, what is cut or hidden.
// Answers a list of sentences; an empty one is good.
() => {
  const wrong = [];
  const shown = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true }) &&
    element.getClientRects().length > 0;
  const say = (element) =>
    `<${element.localName}${element.id ? ` id=${element.id}` : ""}${typeof element.className === "string" && element.className ? ` class="${element.className}"` : ""}>`;

  // ── names ──────────────────────────────────────────────────────────────────────────────
  const nameOf = (element) => {
    const labelled = element.getAttribute("aria-labelledby");
    return (
      element.getAttribute("aria-label") ||
      (labelled && document.getElementById(labelled)?.textContent) ||
      [...(element.labels || [])].map((label) => label.textContent).join(" ") ||
      element.getAttribute("alt") ||
      (["input", "select", "textarea"].includes(element.localName) ? "" : element.textContent) ||
      ""
    ).trim();
  };
  const interactive = [
    ...document.querySelectorAll(
      "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])",
    ),
  ].filter(shown);
  for (const element of interactive) if (!nameOf(element)) wrong.push(`${say(element)} has no name`);
  for (const image of document.querySelectorAll("img"))
    if (!image.hasAttribute("alt")) wrong.push(`${say(image)} has no alternative`);
  for (const element of document.querySelectorAll("[tabindex]"))
    if (element.tabIndex > 0) wrong.push(`${say(element)} jumps ahead in the order of focus`);
  const ids = new Map();
  for (const element of document.querySelectorAll("[id]")) ids.set(element.id, (ids.get(element.id) || 0) + 1);
  for (const [id, times] of ids) if (times > 1) wrong.push(`the id ${id} is there ${times} times`);
  for (const name of ["aria-controls", "aria-labelledby", "aria-activedescendant"])
    for (const element of document.querySelectorAll(`[${name}]`))
      if (!document.getElementById(element.getAttribute(name))) wrong.push(`${say(element)} ${name} names nothing`);
  const main = document.querySelector("main");
  if (shown(main) && !main.querySelector("h2")) wrong.push("the view has no heading");

  // ── contrast ───────────────────────────────────────────────────────────────────────────
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = color;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(color, [r, g, b, a / 255]);
    }
    return known.get(color);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = rgba(getComputedStyle(each).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers
      .reverse()
      .reduce((below, top) => over(top, below), rgba(getComputedStyle(document.body).backgroundColor));
  };
  const light = ([r, g, b]) =>
    [r, g, b]
      .map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const reported = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(element) || element.closest(".sr, option, script, svg")) continue;
    const style = getComputedStyle(element);
    const below = ground(element),
      ink = over(rgba(style.color), below);
    const [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize),
      large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const sentence = `${say(element)} "${walker.currentNode.data.trim().slice(0, 30)}" has contrast ${ratio.toFixed(2)}`;
    if (ratio < (large ? 3 : 4.5) && !reported.has(say(element))) {
      reported.add(say(element));
      wrong.push(sentence);
    }
  }

  // ── what is cut ────────────────────────────────────────────────────────────────────────
  const wide = document.scrollingElement.scrollWidth;
  if (wide > innerWidth) wrong.push(`the page is ${wide} wide and the window ${innerWidth}`);
  for (const element of interactive) {
    if (
      element.closest(".table, .log, cc-recent nav, .side, .page, .panel, .hits, .sr, pre") ||
      element.classList.contains("skip")
    )
      continue; // these scroll
    const box = element.getBoundingClientRect();
    if (box.right > innerWidth + 1 || box.bottom > innerHeight + 1 || box.left < -1 || box.top < -1)
      wrong.push(`${say(element)} lies outside the window`);
  }
  for (const element of interactive) {
    const box = element.getBoundingClientRect();
    if (innerWidth < 500 && element.localName === "button" && (box.width < 24 || box.height < 24))
      wrong.push(`${say(element)} is too small for a finger`);
  }

  // ── words that are cut ─────────────────────────────────────────────────────────────────
  // Names and messages of others have any length and here a line or two: they end with an ellipsis, and what they
  // stand for shows all of them. The page's own words in the rail, links and buttons are never cut.
  const ANY_LENGTH = ".rows .name, .rows .more, .table .tr > *, .flow .route, .tool .line, .cards .text, .actor span, .step .said, .state";
  const cutter = (element, words) => {
    for (let around = element; around && around !== document.body; around = around.parentElement) {
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
  const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    const words = all.currentNode.data.trim(),
      element = all.currentNode.parentElement;
    if (!words || !element.closest(".rail, a[href], button, summary")) continue;
    if (!shown(element) || element.closest(`${ANY_LENGTH}, .sr, option, svg`)) continue;
    const range = document.createRange();
    range.selectNodeContents(all.currentNode);
    const by = cutter(element, range.getBoundingClientRect());
    if (by) wrong.push(`"${words}" is cut by ${say(by)}`);
  }

  // ── words on words ─────────────────────────────────────────────────────────────────────
  const cut = (box, element) => {
    let { left, top, right, bottom } = box;
    for (let around = element; around && around !== document.body; around = around.parentElement) {
      if (getComputedStyle(around).overflow === "visible") continue;
      const edge = around.getBoundingClientRect();
      [left, top] = [Math.max(left, edge.left), Math.max(top, edge.top)];
      [right, bottom] = [Math.min(right, edge.right), Math.min(bottom, edge.bottom)];
    }
    return { left, top, right, bottom };
  };
  const onTop = ({ left, top, right, bottom }, element) =>
    [left + 1, (left + right) / 2, right - 1].some((x) => {
      const hit = document.elementFromPoint(x, (top + bottom) / 2);
      return hit && (element.contains(hit) || hit.contains(element));
    });
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const lines = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !shown(element) || element.closest(".sr, option")) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    for (const rect of range.getClientRects()) {
      const box = cut(rect, element);
      if (box.right - box.left < 2 || box.bottom - box.top < 2 || !onTop(box, element)) continue;
      lines.push({ ...box, element, text: texts.currentNode.data.trim().slice(0, 20) });
    }
  }
  lines.forEach((one, n) => {
    for (const other of lines.slice(n + 1)) {
      if (one.element === other.element) continue;
      const wide_ = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide_ > 3 && high > 5) wrong.push(`"${one.text}" and "${other.text}" lie on each other`);
    }
  });
  return wrong;
};
