// The space–time diagram: a line per node, time to the right, messages between the lines.
import { colour, inks } from "./moment.js";

const TOP = 12, BOTTOM = 24;
const LEFT = [46, 120]; // room for the names of nodes, at least and at most
const STEPS = 160; // of the time scale that are seen at once, at least,
const SHARE = 12; // … or this part of a long run
const PIXELS = [0.8, 15]; // for one of them

export class Diagram {
  constructor(host, run, moveTo) {
    this.run = run;
    this.moveTo = moveTo;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    const n = run.picture.nodes.length;
    const longest = Math.max(...run.picture.nodes.map((node) => run.name(node).length));
    this.left = Math.max(LEFT[0], Math.min(LEFT[1], 24 + longest * 8));
    this.row = n <= 4 ? 44 : n <= 10 ? 30 : n <= 30 ? 16 : n <= 60 ? 7 : 5;
    this.height = TOP + BOTTOM + Math.max(1, n - 1) * this.row + 26;
    this.canvas.style.height = `${this.height}px`;
    host.append(this.canvas);
    this.rows = new Map(run.picture.nodes.map((node, i) => [node, TOP + 13 + i * this.row]));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.point(event));
    new ResizeObserver((seen) => {
      this.width = seen[0].contentRect.width; // asked for here alone: it costs a layout
      this.redraw();
    }).observe(this.canvas);
    const { verdict } = run.picture;
    this.canvas.setAttribute("aria-label", `space–time diagram, ${n} nodes, `
      + `${run.events.length} events, verdict ${verdict.word}; the list of events says the same`);
  }
  point(event) {
    const { left } = this.canvas.getBoundingClientRect();
    this.moveTo(this.from + (event.clientX - left - this.left) / this.scale);
  }
  redraw() { if (this.last) this.draw(...this.last); }
  view(place, width) {
    const whole = this.run.scale.length || 1;
    const room = width - this.left - 24;
    const wanted = Math.max(PIXELS[0], Math.min(PIXELS[1], room / Math.max(STEPS, whole / SHARE)));
    this.scale = Math.max(room / whole, wanted);
    const shown = room / this.scale;
    if (shown >= whole) { this.from = 0; return; }
    const low = this.from ?? 0;
    if (place < low + shown * 0.1 || place > low + shown * 0.8) this.from = place - shown * 0.35;
    this.from = Math.max(0, Math.min(whole - shown, this.from ?? 0));
  }
  x(place) { return this.left + (place - this.from) * this.scale; }
  draw(place, time, example) {
    this.last = [place, time, example];
    const width = this.width ??= this.canvas.getBoundingClientRect().width;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
    }
    const c = this.canvas.getContext("2d");
    this.still ??= document.createElement("canvas");
    const dark = document.documentElement.dataset.theme === "dark";
    const colours = inks(dark);
    const ink = (name) => colours[name];
    this.view(place, width);
    const looks = [this.from, this.scale, width, ratio, dark, example !== null].join();
    if (this.looks !== looks) {
      this.looks = looks;
      this.drawStill(ink, dark, width, ratio, example !== null);
    }
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.drawImage(this.still, 0, 0);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.save();
    c.beginPath(); c.rect(this.left - 12, 0, width - this.left + 12, this.height); c.clip();
    const cursor = this.x(place);
    c.fillStyle = ink("card"); c.globalAlpha = 0.55;
    c.fillRect(cursor, 0, width - cursor, this.height - BOTTOM);
    c.globalAlpha = 1;
    if (example) this.drawExample(c, ink, example);
    c.strokeStyle = ink("accent"); c.lineWidth = 2;
    c.beginPath(); c.moveTo(cursor, 0); c.lineTo(cursor, this.height - BOTTOM); c.stroke();
    c.restore();
  }
  // Everything that does not move with time; drawn again when another part of the run is seen.
  drawStill(ink, dark, width, ratio, pale) {
    this.still.width = this.canvas.width;
    this.still.height = this.canvas.height;
    const c = this.still.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.save();
    c.beginPath(); c.rect(this.left - 12, 0, width - this.left + 12, this.height); c.clip();
    this.drawLines(c, ink, width);
    c.globalAlpha = pale ? 0.22 : 1;
    this.drawHeld(c, ink);
    this.drawFrames(c, ink, dark, width);
    this.drawEvents(c, ink, dark, width);
    c.globalAlpha = 1;
    this.drawAxis(c, ink, width);
    c.restore();
    this.drawNames(c, ink);
  }
  drawNames(c, ink) {
    c.fillStyle = ink("ink"); c.textAlign = "right"; c.textBaseline = "middle";
    const every = Math.ceil(11 / this.row);
    c.font = `600 ${this.row > 12 ? 13 : 10}px system-ui, sans-serif`;
    [...this.rows].forEach(([node, y], i) => { if (i % every === 0) c.fillText(this.run.name(node), this.left - 16, y, this.left - 18); });
  }
  drawLines(c, ink, width) {
    const downSince = new Map(), pieces = [];
    for (const e of this.run.events) {
      if (e.kind === "crash") downSince.set(e.node, e.place);
      if (e.kind === "recover" && downSince.has(e.node)) {
        pieces.push([e.node, downSince.get(e.node), e.place]); downSince.delete(e.node);
      }
    }
    for (const [node, since] of downSince) pieces.push([node, since, this.run.scale.length]);
    c.lineWidth = 1.2; c.strokeStyle = ink("soft"); c.globalAlpha = 0.65;
    for (const y of this.rows.values()) {
      c.beginPath(); c.moveTo(this.left - 10, y); c.lineTo(width, y); c.stroke();
    }
    c.globalAlpha = 1;
    for (const [node, from, to] of pieces) {
      const y = this.rows.get(node);
      c.strokeStyle = ink("card"); c.lineWidth = 3;
      c.beginPath(); c.moveTo(this.x(from), y); c.lineTo(this.x(to), y); c.stroke();
      c.strokeStyle = ink("bad"); c.lineWidth = 2; c.setLineDash([4, 4]);
      c.beginPath(); c.moveTo(this.x(from), y); c.lineTo(this.x(to), y); c.stroke();
      c.setLineDash([]);
    }
  }
  drawHeld(c, ink) {
    const { scale } = this.run;
    const alpha = c.globalAlpha;
    c.globalAlpha = alpha * (this.row < 24 ? 0.45 : 1);
    c.strokeStyle = ink("wait"); c.lineWidth = Math.min(8, this.row / 3); c.lineCap = "round";
    for (const w of this.run.waiting) {
      const y = this.rows.get(w.node);
      const from = this.x(scale.place(w.since));
      const to = this.x(w.until === null ? scale.length : scale.place(w.until));
      c.beginPath(); c.moveTo(from, y); c.lineTo(Math.max(from + 1, to), y); c.stroke();
    }
    c.lineCap = "butt";
    c.globalAlpha = alpha;
  }
  drawFrames(c, ink, dark, width) {
    const many = this.run.frames.length > 600;
    for (const frame of this.run.frames) {
      const a = this.x(frame.start), b = this.x(Math.min(frame.stop, this.run.scale.length));
      if (b < this.left - 20 || a > width) continue;
      const y = this.rows.get(frame.from), z = this.rows.get(frame.to);
      if (y === undefined || z === undefined) continue;
      const alpha = c.globalAlpha;
      c.globalAlpha = alpha * (frame.message ? (many ? 0.6 : 0.9) : many ? 0.15 : 0.35);
      c.strokeStyle = frame.lost ? ink("bad") : colour(frame.message, dark);
      c.lineWidth = frame.message ? 1.6 : 1;
      const share = frame.lost ? 0.6 : 1;
      const bx = a + (b - a) * share, by = y + (z - y) * share;
      c.beginPath(); c.moveTo(a, y); c.lineTo(bx, by); c.stroke();
      if (frame.lost) {
        c.globalAlpha = alpha;
        c.beginPath(); c.moveTo(bx - 4, by - 4); c.lineTo(bx + 4, by + 4);
        c.moveTo(bx - 4, by + 4); c.lineTo(bx + 4, by - 4); c.stroke();
      }
      c.globalAlpha = alpha;
    }
  }
  drawEvents(c, ink, dark, width) {
    const r = Math.max(2.5, Math.min(6, this.row / 4));
    const last = { publish: 1, crash: 1 }; // above a delivery of the same instant
    const inOrder = this.sorted ??= [...this.run.events].sort((a, b) =>
      (last[a.kind] ?? 0) - (last[b.kind] ?? 0));
    for (const e of inOrder) {
      const x = this.x(e.place), y = this.rows.get(e.node);
      if (x < this.left - 20 || x > width || y === undefined) continue;
      c.lineWidth = 2;
      if (e.kind === "publish" || e.kind === "deliver") {
        c.beginPath(); c.arc(x, y, e.kind === "publish" ? r + 1 : r, 0, 2 * Math.PI);
        c.fillStyle = e.kind === "publish" ? colour(e.message, dark) : ink("card");
        c.strokeStyle = colour(e.message, dark);
        c.fill(); c.stroke();
        if (e.kind === "publish" && this.row > 24) {
          c.fillStyle = ink("ink"); c.font = "11px system-ui, sans-serif"; c.textAlign = "center";
          c.textBaseline = "bottom"; c.fillText(this.run.label(e.message), x, y - r - 3);
        }
      } else if (e.kind === "crash") {
        c.strokeStyle = ink("bad"); c.lineWidth = 2.5;
        c.beginPath(); c.moveTo(x - r, y - r); c.lineTo(x + r, y + r);
        c.moveTo(x - r, y + r); c.lineTo(x + r, y - r); c.stroke();
      } else if (e.kind === "recover") {
        c.strokeStyle = ink("good"); c.lineWidth = 2.5;
        c.beginPath(); c.moveTo(x, y + r); c.lineTo(x, y - r - 2); c.moveTo(x - r, y - 1);
        c.lineTo(x, y - r - 2); c.lineTo(x + r, y - 1); c.stroke();
      } else if (e.kind === "suspect") {
        c.strokeStyle = ink("wait");
        c.strokeRect(x - r * 0.7, y - r * 0.7, r * 1.4, r * 1.4);
      }
    }
  }
  drawExample(c, ink, example) {
    const points = example.marks.map((m) => ({ ...m, x: this.x(this.run.scale.place(m.at)),
      y: this.rows.get(m.node) }));
    c.strokeStyle = ink("bad"); c.fillStyle = ink("bad"); c.lineWidth = 2.5;
    c.setLineDash([6, 4]);
    for (let i = 1; i < points.length; i++) {
      const before = points[i - 1], after = points[i];
      if (after.role === "too late") continue;
      c.beginPath(); c.moveTo(before.x, before.y); c.lineTo(after.x, after.y); c.stroke();
    }
    c.setLineDash([]);
    const texts = { cause: "cause", seen: "seen here", effect: "effect", wrong: "too early",
      "too late": "too late", published: "published" };
    c.font = "600 12px system-ui, sans-serif"; c.textAlign = "center";
    const taken = [];
    for (const p of points) {
      if (p.x < this.left - 10 || p.x > this.width + 10) continue;
      c.beginPath(); c.arc(p.x, p.y, 9, 0, 2 * Math.PI); c.stroke();
      c.beginPath(); c.arc(p.x, p.y, 4, 0, 2 * Math.PI); c.fill();
      const role = p.role === "wrong" && !example.marks.some((m) => m.role === "cause") ? "wrong"
        : texts[p.role];
      const text = `${this.run.label(p.message)} ${role}`;
      const wide = c.measureText(text).width;
      const x = Math.min(this.width - wide / 2 - 6, Math.max(this.left + wide / 2, p.x));
      const free = (y) => taken.every((t) => Math.abs(t.y - y) > 15 || Math.abs(t.x - x) > (t.wide + wide) / 2 + 4);
      const y = [p.y - 16, p.y + 17, p.y + 32, p.y - 31].find(free) ?? p.y - 16;
      taken.push({ x, y, wide });
      c.fillStyle = ink("card"); c.globalAlpha = 0.85;
      c.fillRect(x - wide / 2 - 3, y - 8, wide + 6, 16);
      c.globalAlpha = 1; c.fillStyle = ink("bad"); c.textBaseline = "middle";
      c.fillText(text, x, y);
    }
  }
  drawAxis(c, ink, width) {
    c.fillStyle = ink("soft"); c.font = "11px system-ui, sans-serif"; c.textBaseline = "alphabetic";
    c.textAlign = "center";
    let free = -Infinity;
    for (let x = this.left; x < width - 40; x += 110) {
      const time = this.run.scale.time(this.from + (x - this.left) / this.scale);
      if (x < free) continue;
      c.fillText(this.run.clock(time), Math.max(x, this.left + 14), this.height - 7);
      free = x + 90;
    }
  }
}
