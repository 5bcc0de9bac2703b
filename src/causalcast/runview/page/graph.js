// The overlay as a graph: nodes and links can be chosen, messages move along links.
import { layout } from "./layout.js";
import { colour, inks } from "./moment.js";

const SVG = "http://www.w3.org/2000/svg";
const LONGEST_NAME = 6; // inside a circle
const FLASH = 2.2; // how long a delivery is seen, in steps of the time scale

function make(name, attributes = {}, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
}

// Most of a picture is as it was an instant ago, and what is not touched is not drawn again.
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export class Graph {
  constructor(host, run, choose) {
    this.run = run;
    this.choose = choose;
    const { nodes } = run.picture;
    this.edges = allEdges(run.picture);
    this.places = layout(nodes, run.picture.edges.length ? run.picture.edges : this.edges);
    this.radius = 18;
    this.svg = make("svg", { class: "graph", role: "group", "aria-label": "the overlay" });
    // Messages are many and move all the time: on a canvas they cost a tenth of what elements would.
    this.dots = document.createElement("canvas");
    this.dots.className = "dots";
    this.dots.setAttribute("aria-hidden", "true");
    const box = document.createElement("div");
    box.className = "overlay";
    box.append(this.svg, this.dots);
    host.append(box);
    this.links = make("g", {}, this.svg);
    this.nodes = make("g", {}, this.svg);
    this.linkElements = new Map();
    this.nodeElements = new Map();
    for (const [a, b] of this.edges) this.addLink(a, b);
    for (const node of nodes) this.addNode(node);
    new ResizeObserver(() => this.resize()).observe(this.svg);
    this.resize();
  }
  addLink(a, b) {
    const g = make("g", { class: "link", tabindex: 0, role: "button",
      "aria-label": `link between ${this.run.name(a)} and ${this.run.name(b)}` }, this.links);
    const hit = make("line", { class: "hit" }, g), seen = make("line", { class: "seen" }, g);
    g.append(seen, hit);
    this.chosenBy(g, { link: [a, b] });
    this.linkElements.set(`${a}-${b}`, { g, lines: [hit, seen], a, b });
  }
  addNode(node) {
    const g = make("g", { class: "node", tabindex: 0, role: "button" }, this.nodes);
    const halo = make("circle", { class: "halo", r: this.radius + 5 }, g);
    const body = make("circle", { class: "body", r: this.radius }, g);
    const label = make("text", {}, g);
    const name = this.run.name(node).replace(/^n(?=\d+$)/, "");
    label.textContent = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
    const badge = make("g", { class: "badge" }, g);
    make("rect", { x: -10, y: -7.5, width: 20, height: 15, rx: 4 }, badge);
    const count = make("text", {}, badge);
    this.chosenBy(g, { node });
    this.nodeElements.set(node, { g, halo, body, label, badge, count });
  }
  setRadius(radius) {
    this.radius = radius;
    for (const { halo, body, label, badge } of this.nodeElements.values()) {
      halo.setAttribute("r", radius + 5);
      body.setAttribute("r", radius);
      label.setAttribute("font-size", radius > 12 ? 13 : radius > 9 ? 10 : 8);
      badge.setAttribute("transform", `translate(${radius + 4} ${-radius - 1})`);
    }
  }
  chosenBy(element, what) {
    element.addEventListener("click", () => this.choose(what));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault(); event.stopPropagation(); this.choose(what);
      }
    });
  }
  resize() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    this.ratio = window.devicePixelRatio || 1;
    this.dots.width = Math.round(width * this.ratio);
    this.dots.height = Math.round(height * this.ratio);
    const crowd = Math.sqrt((width * height) / this.nodeElements.size);
    this.setRadius(Math.max(7, Math.min(18, Math.round(crowd / 6))));
    const margin = this.radius + 18;
    this.at = new Map();
    for (const [node, p] of this.places) {
      this.at.set(node, { x: margin + p.x * (width - 2 * margin), y: margin + p.y * (height - 2 * margin) });
    }
    for (const { lines, a, b } of this.linkElements.values()) {
      const p = this.at.get(a), q = this.at.get(b);
      for (const line of lines) {
        line.setAttribute("x1", p.x); line.setAttribute("y1", p.y);
        line.setAttribute("x2", q.x); line.setAttribute("y2", q.y);
      }
    }
    for (const [node, { g }] of this.nodeElements) {
      const p = this.at.get(node);
      g.setAttribute("transform", `translate(${p.x} ${p.y})`);
    }
    if (this.last) this.draw(...this.last);
  }
  draw(place, time, state, selected) {
    this.last = [place, time, state, selected];
    if (!this.at) return;
    const dark = document.documentElement.dataset.theme === "dark";
    const waits = new Map();
    for (const held of this.run.held(time)) waits.set(held.node, (waits.get(held.node) ?? 0) + 1);
    const isStatic = this.run.picture.edges.length > 0;
    for (const [key, { g, a, b }] of this.linkElements) {
      const now = state.links.get(key);
      const gone = now === undefined || now === "";
      const kind = gone ? (isStatic ? "gone" : "absent") : now;
      const chosen = selected?.link && selected.link[0] === a && selected.link[1] === b;
      set(g, "class", `link ${kind}${chosen ? " selected" : ""}`);
    }
    for (const [node, { g, halo, badge, count }] of this.nodeElements) {
      const classes = ["node"];
      if (state.down.has(node)) classes.push("down");
      else if (state.suspected.has(node)) classes.push("suspected");
      if (selected?.node === node) classes.push("selected");
      set(g, "class", classes.join(" "));
      const held = waits.get(node) ?? 0;
      set(badge, "visibility", held ? "visible" : "hidden");
      const shown = held > 99 ? "99+" : String(held);
      if (count.textContent !== shown) count.textContent = shown;
      const delivered = state.delivered.get(node) ?? [];
      const last = delivered.at(-1);
      const age = last ? place - last.place : Infinity;
      set(halo, "opacity", age < FLASH ? (1 - age / FLASH).toFixed(2) : "0");
      if (age < FLASH) set(halo, "stroke", colour(last.message, dark));
      set(g, "aria-label", `node ${this.run.name(node).replace(/^n(?=\d+$)/, "")}: ${state.down.has(node) ? "down, " : ""}`
        + `${delivered.length} delivered, ${held} held`);
    }
    this.drawFrames(place, dark);
  }
  drawFrames(place, dark) {
    const c = this.dots.getContext("2d");
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.dots.width, this.dots.height);
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const lost = inks(dark).bad;
    for (const frame of this.run.underWay(place)) {
      const p = this.at.get(frame.from), q = this.at.get(frame.to);
      if (!p || !q) continue;
      const length = Math.hypot(q.x - p.x, q.y - p.y) || 1;
      const edge = Math.min(0.45, this.radius / length);
      const whole = (place - frame.start) / (frame.stop - frame.start || 1);
      const share = edge + (1 - 2 * edge) * (frame.lost ? whole * 0.6 : whole);
      // The two directions of a link keep to their sides.
      const side = 4 / length;
      c.beginPath();
      c.arc(p.x + (q.x - p.x) * share - (q.y - p.y) * side,
        p.y + (q.y - p.y) * share + (q.x - p.x) * side,
        frame.message ? Math.min(6, this.radius * 0.5) : 3, 0, 2 * Math.PI);
      c.fillStyle = colour(frame.message, dark);
      c.fill();
      if (frame.lost) { c.strokeStyle = lost; c.lineWidth = 2; c.stroke(); }
    }
  }
}

function allEdges(picture) {
  const found = new Map(picture.edges.map(([a, b]) => [`${a}-${b}`, [a, b]]));
  for (const [, a, b] of picture.links) found.set(`${a}-${b}`, [a, b]);
  return [...found.values()];
}
