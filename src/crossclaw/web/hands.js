// The hands that move the map: pointer, wheel and keys.
import { cost, fill, h, nameOf, stateOf, tokens } from "./dom.js";
import { Stage } from "./stage.js";

/** Moves `view` and points at nodes; `choose` is called with the node that was picked. */
export class Hands extends Stage {
  listen() {
    const { canvas, view } = this;
    let grip = null;
    this.hear(canvas, "pointerdown", (event) => {
      grip = { x: event.clientX, y: event.clientY, far: 0 };
      canvas.setPointerCapture(event.pointerId);
    });
    this.hear(canvas, "pointermove", (event) => {
      if (grip) {
        const dx = event.clientX - grip.x,
          dy = event.clientY - grip.y;
        grip = { x: event.clientX, y: event.clientY, far: grip.far + Math.abs(dx) + Math.abs(dy) };
        if (grip.far > 4) Object.assign(view, { x: view.x + dx, y: view.y + dy, moved: true });
      } else this.point(event);
      this.wake();
    });
    this.hear(canvas, "pointerup", (event) => {
      if (grip?.far <= 4) this.choose(this.find(event));
      grip = null;
    });
    this.hear(canvas, "pointerleave", () => {
      this.over = null;
      this.tip.hidden = true;
      this.wake();
    });
    this.hear(
      canvas,
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 500), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    this.hear(canvas, "keydown", (event) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      if (step) Object.assign(view, { x: view.x + step[0], y: view.y + step[1], moved: true });
      else if (event.key === "+" || event.key === "=")
        this.zoom(1.25, canvas.clientWidth / 2, canvas.clientHeight / 2);
      else if (event.key === "-") this.zoom(0.8, canvas.clientWidth / 2, canvas.clientHeight / 2);
      else if (event.key === "0") {
        view.moved = false;
        this.fit();
      } else if (event.key === "PageDown") this.step(1);
      else if (event.key === "PageUp") this.step(-1);
      else return;
      event.preventDefault();
      this.wake();
    });
    this.hear(this, "keydown", (event) => {
      if (event.key === "Escape" && this.chosen) this.choose(null);
    });
  }

  zoom(by, x, y) {
    const { view } = this,
      zoom = Math.min(4, Math.max(0.08, view.zoom * by));
    Object.assign(view, {
      x: x - ((x - view.x) * zoom) / view.zoom,
      y: y - ((y - view.y) * zoom) / view.zoom,
      zoom,
      moved: true,
    });
    this.wake();
  }

  find(event) {
    const { view } = this;
    const x = (event.offsetX - view.x) / view.zoom,
      y = (event.offsetY - view.y) / view.zoom;
    let best = null,
      nearest = 26 / Math.max(0.6, view.zoom);
    for (const node of this.nodes.values()) {
      const far = Math.hypot(node.x - x, node.y - y);
      if (far < nearest) [best, nearest] = [node, far];
    }
    return best;
  }

  point(event) {
    this.over = this.find(event);
    this.canvas.classList.toggle("over", Boolean(this.over));
    this.tip.hidden = !this.over;
    if (!this.over) return;
    const { row } = this.over;
    fill(
      this.tip,
      h("b", null, nameOf(row)),
      h("span", null, `${stateOf(row.lane).text} · ${tokens(row.tokens)} tokens · ${cost(row.costUsd)}`),
    );
    this.tip.style.left = `${Math.min(event.offsetX + 14, this.canvas.clientWidth - 240)}px`;
    this.tip.style.top = `${event.offsetY + 16}px`;
  }
}
