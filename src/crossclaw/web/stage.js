// The stage of the map: where everything stands, how it is drawn, and the hands that move it.
import { Part, agentName, agentOf, cost, fill, h, hueOf, nameOf, stateOf, to, tokens } from "./dom.js";

const FLIGHT = 1100; // milliseconds that a message is seen on its way
const GLOW = 9000; // and its road shines after it
const GAP = 52; // between the nodes of one agent
const WIDE_GAP = 88; // while there is room for their names
const LABELS_MAX = 70;
const LABEL_PX_MIN = 10.5; // on the screen: smaller is not read
const LABEL_CHARS = 28; // of a name on the map; the rest is in the list
const INKS = ["ink", "soft", "faint", "line", "accent", "amber", "red", "blue", "card", "paper", "tint"];

/** Draws `nodes`, `runs`, `roads` and `waits` as they were at `time`. */
export class Stage extends Part {
  // ── places ────────────────────────────────────────────────────────────────────────────────
  /** Each agent has its circle: its main session in the middle, the others around it in the order of their
   * birth. Places depend on nothing that moves, so the map stays as people remember it. */
  layout() {
    this.unplaced = false;
    const agents = new Map(),
      gap = this.nodes.size <= LABELS_MAX ? WIDE_GAP : GAP;
    for (const node of this.nodes.values()) {
      const id = node.row.agentId || agentOf(node.row.key);
      if (!agents.has(id)) agents.set(id, []);
      agents.get(id).push(node);
    }
    this.circles = [...agents].map(([id, nodes]) => ({
      id,
      nodes,
      r: gap * Math.sqrt(Math.max(0, nodes.length - 1)) + 50,
    }));
    this.circles.sort((a, b) => (a.id < b.id ? -1 : 1));
    placeCircles(this.circles);
    for (const circle of this.circles) {
      const isMain = (node) => (node.row.key === `agent:${circle.id}:main` ? 0 : 1);
      circle.nodes.sort(
        (a, b) => isMain(a) - isMain(b) || a.row.createdAt - b.row.createdAt || (a.row.key < b.row.key ? -1 : 1),
      );
      circle.nodes.forEach((node, i) => {
        const r = gap * Math.sqrt(i),
          turn = i * 2.39996;
        node.tx = circle.x + r * Math.cos(turn);
        node.ty = circle.y + r * Math.sin(turn);
        if (node.fresh) [node.x, node.y, node.fresh] = [node.tx, node.ty, false];
      });
    }
    this.fit();
  }

  fit() {
    const width = this.canvas.clientWidth,
      height = this.canvas.clientHeight;
    if (!width || !this.circles?.length || this.view.moved) return;
    const box = this.circles.reduce(
      (b, c) => ({
        l: Math.min(b.l, c.x - c.r),
        r: Math.max(b.r, c.x + c.r),
        t: Math.min(b.t, c.y - c.r),
        b: Math.max(b.b, c.y + c.r),
      }),
      { l: Infinity, r: -Infinity, t: Infinity, b: -Infinity },
    );
    const zoom = Math.min(1.7, (width - 60) / (box.r - box.l + 30), (height - 90) / (box.b - box.t + 30));
    Object.assign(this.view, {
      zoom,
      x: width / 2 - (zoom * (box.l + box.r)) / 2,
      y: height / 2 + 8 - (zoom * (box.t + box.b)) / 2,
    });
  }

  // ── drawing ───────────────────────────────────────────────────────────────────────────────

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
    this.drawCircles();
    this.drawRoads();
    this.drawWaits(time, now);
    const flying = this.drawFlights(time, stretch);
    this.drawNodes(states, now);
    this.drawLabels(states);
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

  hue(node, light, chroma, alpha = 1) {
    return `oklch(${light} ${chroma} ${hueOf(node.row.agentId || agentOf(node.row.key))} / ${alpha})`;
  }

  radius(node) {
    const { costUsd, tokens: used } = node.row;
    const weight = costUsd ? costUsd * 60 : (used || 0) / 40_000;
    return (this.nodes.size <= LABELS_MAX ? 14 : 9) + Math.min(15, 6 * Math.sqrt(weight));
  }

  drawCircles() {
    const { pen } = this;
    for (const circle of this.circles || []) {
      if (circle.nodes.length < 2 && this.circles.length > 1) continue;
      pen.beginPath();
      pen.arc(circle.x, circle.y, circle.r, 0, 7);
      pen.fillStyle = `oklch(${this.dark ? 0.32 : 0.86} 0.05 ${hueOf(circle.id)} / ${this.dark ? 0.25 : 0.22})`;
      pen.fill();
      if (circle.nodes.length > 3) {
        pen.fillStyle = this.ink.soft;
        pen.font = `600 ${13 / Math.min(1, this.view.zoom)}px system-ui, sans-serif`;
        pen.textAlign = "center";
        pen.fillText(agentName(circle.id), circle.x, circle.y - circle.r - 8 / this.view.zoom);
      }
    }
  }

  drawRoads() {
    const { pen } = this;
    pen.lineWidth = 1.1 / Math.max(0.5, this.view.zoom);
    pen.strokeStyle = this.ink.faint;
    pen.setLineDash([2, 4]);
    pen.beginPath();
    for (const node of this.nodes.values()) {
      const parent = node.row.spawnedBy && this.nodes.get(node.row.spawnedBy);
      if (!parent) continue;
      pen.moveTo(parent.x, parent.y);
      pen.lineTo(node.x, node.y);
    }
    pen.stroke();
    pen.setLineDash([]);
    pen.beginPath();
    for (const { from, to: target } of this.roads || []) {
      const a = this.nodes.get(from),
        b = this.nodes.get(target);
      if (!a || !b) continue;
      const c = bend(a, b);
      pen.moveTo(a.x, a.y);
      pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
    }
    pen.stroke();
  }

  drawWaits(time, now) {
    if (!this.live) return;
    const { pen } = this;
    pen.strokeStyle = this.ink.amber;
    pen.lineWidth = 2;
    pen.setLineDash([6, 5]);
    pen.lineDashOffset = this.still ? 0 : -now / 60;
    for (const wait of this.waits) {
      const a = this.nodes.get(wait.key),
        b = this.nodes.get(wait.targetKey);
      if (!a || !b) continue;
      const c = bend(a, b);
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  drawFlights(time, stretch) {
    const { pen } = this;
    let some = false;
    for (let i = this.flights.length - 1; i >= 0; i--) {
      const run = this.flights[i],
        age = (time - run.createdAt) / stretch;
      if (age < 0) continue;
      if (age > GLOW) break;
      const b = this.nodes.get(run.key),
        a = run.source ? this.nodes.get(run.source) : b && { x: b.x - 30, y: b.y - 90 };
      if (!a || !b || a === b) continue;
      some = true;
      const c = bend(a, b),
        way = Math.min(1, age / FLIGHT),
        fade = age < FLIGHT ? 1 : 1 - (age - FLIGHT) / (GLOW - FLIGHT);
      pen.globalAlpha = fade * (run.source ? 0.8 : 0.35);
      pen.strokeStyle = this.ink.accent;
      pen.lineWidth = 1 + 1.4 * fade;
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.quadraticCurveTo(c.x, c.y, b.x, b.y);
      if (run.source || age < FLIGHT) pen.stroke();
      pen.fillStyle = this.ink.accent;
      for (let tail = 0; age < FLIGHT && !this.still && tail < 5; tail++) {
        const spot = along(a, c, b, ease(Math.max(0, way - tail * 0.035)));
        pen.globalAlpha = 1 - tail * 0.2;
        pen.beginPath();
        pen.arc(spot.x, spot.y, 4.4 - tail * 0.7, 0, 7);
        pen.fill();
      }
      if (age > FLIGHT * 0.9 && age < FLIGHT * 2) {
        const ring = (age - FLIGHT * 0.9) / (FLIGHT * 1.1);
        pen.globalAlpha = 0.5 * (1 - ring);
        pen.beginPath();
        pen.arc(b.x, b.y, this.radius(b) + 3 + 16 * ring, 0, 7);
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    return some;
  }

  drawNodes(states, now) {
    const { pen, ink } = this;
    for (const circle of this.circles || []) {
      if (!circle.nodes.length) continue;
      pen.beginPath();
      for (const node of circle.nodes) {
        const r = this.radius(node);
        pen.moveTo(node.x + r, node.y);
        pen.arc(node.x, node.y, r, 0, 7);
      }
      pen.fillStyle = this.hue(circle.nodes[0], this.dark ? 0.5 : 0.72, 0.085);
      pen.fill();
      pen.strokeStyle = ink.paper;
      pen.lineWidth = 1.5;
      pen.stroke();
    }
    if (this.nodes.size <= LABELS_MAX) this.drawLetters();
    for (const [key, state] of states) {
      const node = this.nodes.get(key);
      if (node) this.drawState(node, state, now);
    }
    const chosen = this.nodes.get(this.chosen);
    for (const [node, color] of [
      [chosen, ink.ink],
      [this.over, ink.soft],
    ]) {
      if (!node) continue;
      pen.beginPath();
      pen.arc(node.x, node.y, this.radius(node) + 4, 0, 7);
      pen.strokeStyle = color;
      pen.lineWidth = 1.8;
      pen.stroke();
    }
  }

  drawLetters() {
    const { pen } = this;
    pen.font = "600 13px system-ui, sans-serif";
    pen.textAlign = "center";
    for (const node of this.nodes.values()) {
      pen.fillStyle = this.hue(node, this.dark ? 0.93 : 0.34, 0.06);
      pen.fillText(nameOf(node.row).replace(/^the /i, "").slice(0, 1).toUpperCase(), node.x, node.y + 4.6);
    }
  }

  drawState(node, state, now) {
    const { pen, ink } = this,
      r = this.radius(node) + 4.5;
    pen.strokeStyle = { running: ink.accent, waiting: ink.amber, queued: ink.blue }[state] || ink.soft;
    pen.lineWidth = 2.4;
    pen.beginPath();
    const turn = this.still ? 0 : now / 500;
    if (state === "running") pen.arc(node.x, node.y, r, turn, turn + 4.4);
    else pen.arc(node.x, node.y, r, 0, 7);
    pen.stroke();
    const queued = this.live && node.row.lane?.queued;
    if (!queued) return;
    pen.fillStyle = ink.blue;
    pen.beginPath();
    pen.arc(node.x + r * 0.8, node.y - r * 0.8, 8, 0, 7);
    pen.fill();
    pen.fillStyle = ink.card;
    pen.font = "600 10px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText(queued > 99 ? "99" : queued, node.x + r * 0.8, node.y - r * 0.8 + 3.5);
  }

  drawLabels(states) {
    const { pen, ink, view } = this;
    const all = this.nodes.size <= LABELS_MAX || view.zoom > 1.3;
    const size = Math.max(12 / Math.min(1.15, Math.max(0.6, view.zoom)), LABEL_PX_MIN / view.zoom);
    pen.textAlign = "center";
    this.labels = [];
    for (const { node, main, busy } of this.named(states, all)) {
      pen.font = `${main ? 600 : 500} ${size}px system-ui, sans-serif`;
      const paid = node.row.costUsd && all ? cost(node.row.costUsd) : "";
      const label = this.placeLabel(node, size, paid ? 2 : 1);
      if (!label) continue;
      pen.lineWidth = size / 4;
      pen.strokeStyle = ink.paper;
      pen.strokeText(label.name, label.x, label.y);
      pen.fillStyle = main || busy ? ink.ink : ink.soft;
      pen.fillText(label.name, label.x, label.y);
      if (!paid) continue;
      pen.font = `${size - 1}px system-ui, sans-serif`;
      pen.fillStyle = ink.soft;
      pen.fillText(paid, label.x, label.y + size + 2);
    }
  }

  /** Whose name is drawn: first those that matter most, for they get the room. */
  named(states, all) {
    const wanted = [];
    for (const [key, node] of this.nodes) {
      const main = key.endsWith(":main") && this.circles.length < 30,
        busy = states.has(key),
        picked = node === this.over || key === this.chosen;
      if (all || main || busy || picked) wanted.push({ node, main, busy, weight: 4 * picked + 2 * main + busy });
    }
    return wanted.sort((a, b) => b.weight - a.weight);
  }

  /** Below its node, else above it, whole within the canvas and on no other name; else nowhere: the list
   * beside the map and a touch of the node tell it. */
  placeLabel(node, size, lines) {
    const { pen, view, canvas, labels } = this;
    const whole = nameOf(node.row),
      name = whole.length > LABEL_CHARS ? `${whole.slice(0, LABEL_CHARS - 1)}…` : whole;
    const half = pen.measureText(name).width / 2,
      left = (4 - view.x) / view.zoom + half,
      right = (canvas.clientWidth - 4 - view.x) / view.zoom - half;
    if (node.x < left - half || node.x > right + half) return null;
    const x = Math.max(left, Math.min(right, node.x)),
      far = this.radius(node) + 5;
    for (const y of [node.y + far + size, node.y - far - (lines - 1) * (size + 2)]) {
      const box = { l: x - half, r: x + half, t: y - size, b: y + (lines - 1) * size + 3 };
      if (labels.some((each) => each.l < box.r && box.l < each.r && each.t < box.b && box.t < each.b)) continue;
      const label = { key: node.row.key, name, x, y, ...box };
      labels.push(label);
      return label;
    }
    return null;
  }

  // ── hands ─────────────────────────────────────────────────────────────────────────────────

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
      } else if (event.key === "Escape") this.choose(null);
      else return;
      event.preventDefault();
      this.wake();
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

/** Every road bends to its right, so that there and back are two. */
function bend(a, b) {
  const dx = b.x - a.x,
    dy = b.y - a.y;
  return { x: (a.x + b.x) / 2 - dy * 0.16, y: (a.y + b.y) / 2 + dx * 0.16 };
}

function along(a, c, b, t) {
  const u = 1 - t;
  return { x: u * u * a.x + 2 * u * t * c.x + t * t * b.x, y: u * u * a.y + 2 * u * t * c.y + t * t * b.y };
}

const ease = (t) => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);

/** Few circles stand in a ring; many on a spiral, the largest in the middle. */
function placeCircles(circles) {
  if (circles.length <= 8) {
    const widest = Math.max(...circles.map((circle) => circle.r), 0);
    const ring = circles.length < 2 ? 0 : Math.max(110, (widest + 34) / Math.sin(Math.PI / circles.length));
    circles.forEach((circle, i) => {
      const turn = (i / circles.length) * 2 * Math.PI + Math.PI;
      Object.assign(circle, { x: ring * 1.15 * Math.cos(turn), y: ring * 0.85 * Math.sin(turn) });
    });
    return;
  }
  const placed = [];
  for (const circle of [...circles].sort((a, b) => b.r - a.r)) {
    for (let step = 0, turn = 0; ; step++) {
      turn += 0.35;
      const r = step * 6;
      const spot = { x: r * Math.cos(turn) * 1.25, y: r * Math.sin(turn) };
      if (placed.every((other) => Math.hypot(other.x - spot.x, other.y - spot.y) > other.r + circle.r + 22)) {
        placed.push(Object.assign(circle, spot));
        break;
      }
    }
  }
}
