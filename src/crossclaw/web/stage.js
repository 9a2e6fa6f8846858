// The stage of the map: it is drawn when something moves, as it was at a time.
import { Part, h, stateOf } from "./dom.js";
import { drawLabels } from "./labels.js";
import { drawFlights, drawRoads, drawWaits } from "./lines.js";
import { drawCircles, drawNodes } from "./nodes.js";
import { boxOf, circlesOf } from "./places.js";

const INKS = ["ink", "soft", "faint", "line", "accent", "amber", "red", "blue", "card", "paper", "tint"];

/** Draws `nodes`, `runs`, `roads` and `waits` as they were at `time`. */
export class Stage extends Part {
  layout() {
    this.unplaced = false;
    this.circles = circlesOf(this.nodes);
    this.fit();
  }

  fit() {
    const width = this.canvas.clientWidth,
      height = this.canvas.clientHeight;
    if (!width || !this.circles?.length || this.view.moved) return;
    const box = boxOf(this.circles);
    const zoom = Math.min(1.7, (width - 60) / (box.r - box.l + 30), (height - 90) / (box.b - box.t + 30));
    Object.assign(this.view, {
      zoom,
      x: width / 2 - (zoom * (box.l + box.r)) / 2,
      y: height / 2 + 8 - (zoom * (box.t + box.b)) / 2,
    });
  }

  wake() {
    this.frame ??= requestAnimationFrame((now) => this.paint(now));
  }

  dress() {
    const probe = this.appendChild(h("i"));
    this.ink = {};
    for (const name of INKS) {
      probe.style.color = `var(--${name})`;
      this.ink[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    const [r, g, b] = this.ink.paper.match(/[\d.]+/g).map(Number);
    this.dark = r + g + b < (r > 1 || g > 1 ? 380 : 1.5);
    this.wake();
  }

  paint(now) {
    this.frame = null;
    if (!this.isConnected) return;
    const passed = Math.min(100, now - (this.painted || now));
    this.painted = now;
    if (this.playing) {
      this.at += passed * this.speed;
      if (this.at >= Date.now() - (this.skew || 0)) this.goLive();
    }
    this.showClock();
    const time = this.time,
      stretch = this.live ? 1 : this.playing ? this.speed : 4;
    const moving = this.settle();
    const { pen, canvas, view } = this,
      ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth,
      height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio))
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.translate(view.x, view.y);
    pen.scale(view.zoom, view.zoom);
    const states = this.states(time);
    drawCircles(this);
    drawRoads(this);
    drawWaits(this, time, now);
    const flying = drawFlights(this, time, stretch);
    drawNodes(this, states, now);
    drawLabels(this, states);
    this.drawn++;
    const busy = [...states.values()].some((state) => state !== "idle");
    if (moving || flying || this.playing || (busy && !this.still)) this.wake();
  }

  settle() {
    let moving = false;
    for (const node of this.nodes.values()) {
      const dx = node.tx - node.x,
        dy = node.ty - node.y;
      if (Math.abs(dx) + Math.abs(dy) < 0.3) continue;
      node.x += dx * 0.14;
      node.y += dy * 0.14;
      moving = true;
    }
    return moving;
  }

  /** What each session did at that time; now it is what the gateway says. */
  states(time) {
    const states = new Map();
    if (this.live) {
      for (const [key, node] of this.nodes) if (node.row.lane) states.set(key, stateOf(node.row.lane).name);
      return states;
    }
    for (const run of this.runs) {
      if (run.createdAt > time) break;
      if (!run.endedAt || run.endedAt > time)
        states.set(run.key, run.startedAt && run.startedAt <= time ? "running" : states.get(run.key) || "queued");
    }
    return states;
  }
}
