// @ts-check
// The hands that move the map: pointer, wheel and keys.
import { cost, fill, h, nameOf, stateOf, tokens } from "./dom.js";
import { fit, wake } from "./stage.js";

/** @typedef {import("./map.js").MapView} MapView */

/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };

/** The view moves under the pointer; `choose` is called with the node that was picked.
 * @param {MapView} map */
export function listen(map) {
  const { canvas, view } = map;
  /** @type {{x: number, y: number, far: number} | null} */
  let grip = null;
  map.hear(canvas, "pointerdown", (event) => {
    grip = { x: event.clientX, y: event.clientY, far: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  map.hear(canvas, "pointermove", (event) => {
    if (grip) {
      const dx = event.clientX - grip.x,
        dy = event.clientY - grip.y;
      grip = { x: event.clientX, y: event.clientY, far: grip.far + Math.abs(dx) + Math.abs(dy) };
      if (grip.far > 4) Object.assign(view, { x: view.x + dx, y: view.y + dy, moved: true });
    } else point(map, event);
    wake(map);
  });
  map.hear(canvas, "pointerup", (event) => {
    if (grip && grip.far <= 4) map.choose(find(map, event));
    grip = null;
  });
  map.hear(canvas, "pointerleave", () => {
    map.over = null;
    map.tip.hidden = true;
    wake(map);
  });
  map.hear(
    canvas,
    "wheel",
    (event) => {
      event.preventDefault();
      zoomAt(map, Math.exp(-event.deltaY / 500), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
  map.hear(canvas, "keydown", (event) => {
    const step = STEPS[event.key];
    if (step) Object.assign(view, { x: view.x + step[0], y: view.y + step[1], moved: true });
    else if (event.key === "+" || event.key === "=")
      zoomAt(map, 1.25, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (event.key === "-") zoomAt(map, 0.8, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (event.key === "0") {
      view.moved = false;
      fit(map);
    } else if (event.key === "PageDown") map.step(1);
    else if (event.key === "PageUp") map.step(-1);
    else return;
    event.preventDefault();
    wake(map);
  });
  map.hear(map, "keydown", (event) => {
    if (event.key === "Escape" && map.chosen) map.choose(null);
  });
}

/** @param {MapView} map @param {number} by @param {number} x @param {number} y */
function zoomAt(map, by, x, y) {
  const { view } = map,
    zoom = Math.min(4, Math.max(0.08, view.zoom * by));
  Object.assign(view, {
    x: x - ((x - view.x) * zoom) / view.zoom,
    y: y - ((y - view.y) * zoom) / view.zoom,
    zoom,
    moved: true,
  });
  wake(map);
}

/** @param {MapView} map @param {PointerEvent} event */
function find(map, event) {
  const { view } = map;
  const x = (event.offsetX - view.x) / view.zoom,
    y = (event.offsetY - view.y) / view.zoom;
  /** @type {import("./map.js").MapNode | null} */
  let best = null;
  let nearest = 26 / Math.max(0.6, view.zoom);
  for (const node of map.nodes.values()) {
    const far = Math.hypot(node.x - x, node.y - y);
    if (far < nearest) [best, nearest] = [node, far];
  }
  return best;
}

/** @param {MapView} map @param {PointerEvent} event */
function point(map, event) {
  map.over = find(map, event);
  map.canvas.classList.toggle("over", Boolean(map.over));
  map.tip.hidden = !map.over;
  if (!map.over) return;
  const { row } = map.over;
  fill(
    map.tip,
    h("b", null, nameOf(row)),
    h("span", null, `${stateOf(row.standing).text} · ${tokens(row.tokens)} tokens · ${cost(row.costUsd)}`),
  );
  map.tip.style.left = `${Math.min(event.offsetX + 14, map.canvas.clientWidth - 240)}px`;
  map.tip.style.top = `${event.offsetY + 16}px`;
}
