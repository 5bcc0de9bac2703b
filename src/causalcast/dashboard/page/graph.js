// The overlay: nodes by their state, links by what goes over them. Laid out as in the lab.
import { layout } from "./layout.js";
import { rate, size } from "./numbers.js";

const SVG = "http://www.w3.org/2000/svg";
function make(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}
function set(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export class Graph {
  constructor(host, choose) {
    this.choose = choose;
    this.svg = make("svg", { class: "graph", role: "group", "aria-label": "the overlay" }, host);
    this.linkLayer = make("g", {}, this.svg);
    this.nodeLayer = make("g", {}, this.svg);
    this.shape = "";
    new ResizeObserver(() => this.resize()).observe(this.svg);
  }
  show(nodes, links, chosen) {
    const shape = JSON.stringify([nodes.map((n) => n.name), links.map((l) => [l.a, l.b])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(nodes, links);
    }
    const most = Math.max(2000, ...links.map((link) => link.rate_bytes));
    for (const link of links) {
      const { g, seen, title } = this.links.get(`${link.a}-${link.b}`);
      set(g, "class", `link ${link.up ? "" : "gone"} ${link.queued > 65536 ? "slow" : ""}`);
      set(seen, "stroke-width", link.up ? (1.5 + 5 * Math.sqrt(link.rate_bytes / most)).toFixed(1) : 1.5);
      title.textContent = `${link.a} – ${link.b}: ` + (link.up
        ? `${size(link.rate_bytes)}/s, ${rate(link.rate_messages)} messages/s` : "no link");
    }
    for (const node of nodes) {
      const { g, badge, badgeText } = this.nodes.get(node.name);
      const held = node.held?.messages ?? 0;
      set(g, "class", `node ${node.state} ${node.name === chosen ? "selected" : ""}`);
      set(g, "aria-label", `node ${node.name}: ${node.state}, ${held} held`);
      set(g, "aria-pressed", node.name === chosen);
      set(badge, "visibility", held ? "visible" : "hidden");
      const shown = held > 99 ? "99+" : String(held);
      if (badgeText.textContent !== shown) badgeText.textContent = shown;
    }
  }
  build(nodes, links) {
    const focus = document.activeElement?.dataset?.node;
    this.linkLayer.replaceChildren();
    this.nodeLayer.replaceChildren();
    const names = nodes.map((node) => node.name);
    this.places = layout(names, links.map((link) => [link.a, link.b]));
    this.links = new Map();
    this.nodes = new Map();
    for (const { a, b } of links) {
      const g = make("g", { class: "link" }, this.linkLayer);
      const seen = make("line", { class: "seen" }, g), hit = make("line", { class: "hit" }, g);
      this.links.set(`${a}-${b}`, { g, seen, hit, a, b, title: make("title", {}, g) });
    }
    for (const name of names) {
      const g = make("g", { class: "node", tabindex: 0, role: "button", "data-node": name }, this.nodeLayer);
      const body = make("circle", { class: "body" }, g), label = make("text", {}, g);
      label.textContent = name;
      const badge = make("g", { class: "badge" }, g);
      make("rect", { x: -12, y: -8, width: 24, height: 16, rx: 5 }, badge);
      const badgeText = make("text", {}, badge);
      g.addEventListener("click", () => this.choose(name));
      g.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.choose(name); }
      });
      this.nodes.set(name, { g, body, label, badge, badgeText });
      if (name === focus) g.focus();
    }
    this.resize();
  }
  resize() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width || !this.places) return;
    const crowd = Math.sqrt((width * height) / Math.max(1, this.nodes.size));
    const radius = Math.max(8, Math.min(18, Math.round(crowd / 6)));
    const margin = radius + 16;
    const at = new Map([...this.places].map(([name, p]) => [name,
      { x: margin + p.x * (width - 2 * margin), y: margin + p.y * (height - 2 * margin) }]));
    for (const { seen, hit, a, b } of this.links.values()) {
      const p = at.get(a), q = at.get(b);
      for (const line of [seen, hit]) {
        set(line, "x1", p.x); set(line, "y1", p.y); set(line, "x2", q.x); set(line, "y2", q.y);
      }
    }
    for (const [name, { g, body, label, badge }] of this.nodes) {
      const p = at.get(name);
      set(g, "transform", `translate(${p.x} ${p.y})`);
      set(body, "r", radius);
      set(label, "font-size", radius > 12 ? 13 : radius > 9 ? 10 : 9);
      set(badge, "transform", `translate(${radius + 5} ${-radius})`);
    }
  }
}
