// A run that can be watched: the overlay, the space–time diagram, time, the verdict, what happened.
// The lab adds what people can do to a run; a report shows the same and changes nothing.
import { Diagram } from "./diagram.js";
import { Graph } from "./graph.js";
import { Run } from "./moment.js";
import { TimeScale } from "./timescale.js";

const LOG_LINES = 40;
const PLAY_SECONDS = 14; // for a short run; longer ones take longer
const MOST_PER_SECOND = 14; // steps of the time scale, at speed 1,
const LONGEST_PLAY = 60; // unless that takes more than so many seconds
const SIGNS = { ok: "✓", violated: "✗", pending: "…" };
const STAGE = `
  <p id="about"></p>
  <div id="panes"></div>
  <div id="transport" role="group" aria-label="time">
    <button id="first" type="button" aria-label="to the beginning">|◀</button>
    <button id="back" type="button" aria-label="one step back">◁</button>
    <button id="play" type="button" aria-label="play">▶</button>
    <button id="step" type="button" aria-label="one step on">▷</button>
    <input id="time" type="range" min="0" max="1000" value="0" aria-label="time">
    <output id="clock" for="time">0 ms</output>
    <label class="speed">Speed <select id="speed">
      <option value="0.25">¼</option><option value="0.5">½</option>
      <option value="1" selected>1</option>
      <option value="2">2</option><option value="4">4</option></select></label>
  </div>
  <div id="diagrams"></div>
  <ul class="legend" aria-label="signs">
    <li><i class="publish"></i>published</li><li><i class="deliver"></i>delivered</li>
    <li><i class="hold"></i>held</li><li><i class="lost"></i>lost</li>
    <li><i class="control"></i>without a publication</li><li><i class="down"></i>down</li>
  </ul>`;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export class RunView {
  // `told` may hold: hint, what to say while nothing is chosen; actions(chosen, states), buttons
  // for what is chosen; drawn(), called when pictures were shown.
  constructor(stage, aside, told = {}) {
    this.told = told;
    this.panes = []; // [{run, graph, diagram}]
    this.scale = null;
    this.place = 0;
    this.playing = false;
    this.selected = null;
    this.example = null;
    this.lastTick = 0;
    stage.innerHTML = STAGE;
    this.parts = {};
    for (const part of stage.querySelectorAll("[id]")) this.parts[part.id] = part;
    this.verdicts = element("section", { id: "verdicts", "aria-label": "verdict" });
    this.chosen = element("section", { id: "selected", "aria-label": "selected node or link",
      "aria-live": "polite" });
    this.log = element("ol", { id: "log", "aria-label": "events until now, the latest first" });
    aside.prepend(this.verdicts, this.chosen);
    aside.append(element("section", {}, element("h2", {}, "What happened"), this.log));
    this.listen();
  }
  listen() {
    const { time, play, step, back, first } = this.parts;
    time.addEventListener("input", () => { this.pause(); this.moveTo(Number(time.value) / 10); });
    play.addEventListener("click", () => this.togglePlay());
    step.addEventListener("click", () => this.step(1));
    back.addEventListener("click", () => this.step(-1));
    first.addEventListener("click", () => { this.pause(); this.moveTo(0); });
  }
  // Keys that are pressed inside `room`, and in no dialog of it.
  listenToKeys(room) {
    room.addEventListener("keydown", (event) => {
      const { target } = event;
      const elsewhere = target.closest("input, select, textarea")
        || (target.closest("dialog") ?? room) !== (room.closest?.("dialog") ?? room);
      if (elsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "ArrowRight") this.step(1);
      else if (event.key === "ArrowLeft") this.step(-1);
      else if (event.key === " " && !target.closest("button, a, .node, .link")) this.togglePlay();
      else if (event.key === "Home") this.moveTo(0);
      else if (event.key === "End") this.moveTo(this.scale?.length ?? 0);
      else if (event.key === "Escape" && this.selected) this.select(null);
      else return;
      event.preventDefault();
    });
  }

  // ---- pictures

  show(pictures, { about = "", titles = [], fromStart = false } = {}) {
    this.scale = new TimeScale(pictures);
    const { panes, diagrams } = this.parts;
    panes.replaceChildren();
    diagrams.replaceChildren();
    panes.className = pictures.length > 1 ? "two" : "";
    this.parts.about.textContent = about;
    this.panes = pictures.map((picture, number) => {
      const run = new Run(picture, this.scale);
      const name = titles[number] ?? picture.protocol;
      const title = element("h3", {}, name);
      title.append(chip(picture), element("span", { class: "cost" }, cost(picture)));
      const pane = element("div", { class: "pane" }, title);
      panes.append(pane);
      const graph = new Graph(pane, run, (what) => this.select(what));
      const lower = element("div", { class: "pane diagram" });
      if (pictures.length > 1) lower.append(element("h3", {}, name));
      diagrams.append(lower);
      return { run, name, graph, diagram: new Diagram(lower, run, (to) => this.moveTo(to)) };
    });
    const { nodes } = pictures[0];
    if (this.selected?.node !== undefined && !nodes.includes(this.selected.node)) this.selected = null;
    this.place = fromStart ? 0 : Math.min(this.place, this.scale.length);
    const wrong = pictures[0].verdict.guarantees
      .flatMap((g) => g.state === "violated" ? g.examples : []);
    this.example = wrong.length ? { pane: 0, ...wrong[0] } : null;
    this.log.dataset.key = this.chosen.dataset.key = "";
    this.showVerdicts();
    this.refresh();
  }

  // ---- time

  get now() { return this.scale.time(this.place); }
  pause() { this.playing = false; }
  moveTo(where) {
    this.place = Math.max(0, Math.min(this.scale?.length ?? 0, where));
    this.refresh();
  }
  step(direction) {
    if (!this.scale) return;
    const { places } = this.scale;
    const next = direction > 0 ? places.find((p) => p > this.place + 1e-6)
      : places.findLast((p) => p < this.place - 1e-6);
    this.pause();
    this.moveTo(next ?? (direction > 0 ? this.scale.length : 0));
  }
  togglePlay() {
    if (!this.scale) return;
    this.playing = !this.playing;
    if (this.playing && this.place >= this.scale.length - 1e-6) this.place = 0;
    this.refresh();
    if (this.playing) requestAnimationFrame((now) => this.tick(now));
  }
  tick(now) {
    if (!this.playing) { this.lastTick = 0; return; }
    const passed = this.lastTick ? Math.min(0.1, (now - this.lastTick) / 1000) : 0;
    this.lastTick = now;
    const { length } = this.scale;
    const perSecond = Math.max(Math.min(length / PLAY_SECONDS, MOST_PER_SECOND), length / LONGEST_PLAY);
    this.place += passed * Math.max(perSecond, 1) * Number(this.parts.speed.value);
    if (this.place >= length) { this.place = length; this.playing = false; this.lastTick = 0; }
    this.refresh();
    if (this.playing) requestAnimationFrame((next) => this.tick(next));
  }
  refresh() {
    if (!this.scale || !this.panes.length) return;
    const at = this.now;
    const { time, clock, play } = this.parts;
    time.max = String(Math.ceil(this.scale.length * 10));
    time.value = String(Math.round(this.place * 10));
    const said = this.panes[0].run.clock(at);
    clock.textContent = said;
    time.setAttribute("aria-valuetext", said);
    play.textContent = this.playing ? "❚❚" : "▶";
    play.setAttribute("aria-label", this.playing ? "pause" : "play");
    const states = this.panes.map(({ run, graph, diagram }, number) => {
      const state = run.at(at);
      graph.draw(this.place, at, state, this.selected);
      diagram.draw(this.place, at, this.example?.pane === number ? this.example : null);
      return state;
    });
    this.showLog(at);
    this.showChosen(at, states);
  }
  showLog(at) {
    const { run } = this.panes[0];
    const past = [];
    for (let i = run.until(at) - 1; i >= 0 && past.length < LOG_LINES; i--) {
      if (run.events[i].kind !== "duplicate") past.push(run.events[i]);
    }
    const key = `${past.length}/${past[0]?.index}`;
    if (this.log.dataset.key === key) return;
    this.log.dataset.key = key;
    this.log.replaceChildren(...past.map((event) => element("li",
      { class: event.kind === "hold" ? "wait" : event.kind === "crash" ? "bad" : "" },
      element("time", {}, run.clock(event.at)), run.words(event))));
  }

  // ---- verdicts

  showVerdicts() {
    const host = this.verdicts;
    host.replaceChildren(element("h2", {}, "Verdict of the judge"));
    this.panes.forEach(({ run, name }, number) => {
      const { verdict, stopped } = run.picture;
      host.append(element("h3", {}, `${name}: ${verdict.word.replaceAll("_", " ")}`));
      if (stopped) host.append(element("p", { class: "hint" }, stopped));
      const list = element("ul", { class: "guarantees" });
      for (const g of verdict.guarantees) {
        const state = g.state.split(" ")[0];
        list.append(element("li", {}, element("span", { class: state }, SIGNS[g.state] ?? "?"),
          element("span", {}, g.name.replaceAll("_", " ")),
          element("small", {}, g.promised ? "promised" : "not promised")));
      }
      host.append(list);
      for (const g of verdict.guarantees) {
        if (g.state !== "violated") continue;
        for (const one of g.examples) {
          const pressed = this.example?.pane === number && this.example.words === one.words;
          host.append(element("button", { type: "button", class: "example", "aria-pressed": pressed,
            onclick: () => this.toggleExample(number, one) },
          `${g.name.replaceAll("_", " ")}: ${one.words}`));
        }
      }
    });
  }
  toggleExample(pane, one) {
    if (this.example?.pane === pane && this.example.words === one.words) {
      this.example = null;
      this.showVerdicts();
      this.refresh();
    } else this.showExample(pane, one);
  }
  // Draws a counter-example, and goes to the moment at which all of it has happened.
  showExample(pane, one) {
    this.example = { pane, ...one };
    this.pause();
    if (one.marks.length) this.moveTo(this.scale.place(Math.max(...one.marks.map((m) => m.at))));
    this.showVerdicts();
    this.refresh();
  }

  // ---- what is chosen

  select(what) {
    this.selected = what;
    this.chosen.dataset.key = "";
    this.refresh();
    if (what) this.chosen.scrollIntoView({ block: "nearest" });
  }
  showChosen(at, states) {
    const host = this.chosen;
    if (!this.selected) {
      if (host.dataset.key === "none") return;
      host.dataset.key = "none";
      host.replaceChildren();
      if (this.told.hint) host.append(...this.told.hint());
      return;
    }
    const { node, link } = this.selected;
    const held = this.panes.map(({ run }) => node === undefined ? [] : run.held(at, node));
    const key = JSON.stringify([this.selected, states.map((s) => [s.down.has(node),
      s.suspected.has(node), s.delivered.get(node)?.length, link && s.links.get(link.join("-"))]),
    held]);
    if (host.dataset.key === key) return;
    host.dataset.key = key;
    const focused = host.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    host.replaceChildren();
    if (node !== undefined) this.showNode(host, node, states, held);
    else this.showLink(host, link, states);
    if (focused) host.querySelector(`[data-action="${focused}"]`)?.focus();
  }
  addActions(host, states) {
    const buttons = this.told.actions?.(this.selected, states) ?? [];
    if (buttons.length) host.append(element("div", { class: "actions" }, ...buttons));
  }
  showNode(host, node, states, held) {
    const { run: own } = this.panes[0];
    const down = states[0].down.has(node) ? ", down" : "";
    host.append(element("h2", {}, `Node ${own.name(node)}${down}`));
    this.addActions(host, states);
    this.panes.forEach(({ run, name }, number) => {
      if (this.panes.length > 1) host.append(element("h3", {}, name));
      const delivered = states[number].delivered.get(node) ?? [];
      const last = delivered.slice(-6).map((e) => run.label(e.message)).join(", ");
      host.append(element("dl", {}, element("dt", {}, "delivered"),
        element("dd", {}, delivered.length ? `${delivered.length}, last ${last}` : "nothing yet"),
        element("dt", {}, "held"), element("dd", {}, held[number].length || "nothing")));
      host.append(element("ul", { class: "held" }, ...held[number].slice(0, 8).map((w) =>
        element("li", {}, element("b", {}, run.label(w.message)), ` ${w.words}`))));
    });
  }
  showLink(host, [a, b], states) {
    const { run } = this.panes[0];
    host.append(element("h2", {}, `Link between ${run.name(a)} and ${run.name(b)}`));
    const now = states[0].links.get(`${a}-${b}`);
    host.append(element("p", { class: "hint" }, { up: "It stands.", slow: "It is slow.",
      cut: "It is cut." }[now] ?? "It is not there now."));
    this.addActions(host, states);
  }
}

function chip(picture) {
  const { word, promises_broken: promises } = picture.verdict;
  const text = word === "violated" && promises && !promises.length ? "violated, not promised"
    : word.replaceAll("_", " ");
  return element("span", { class: `chip ${word}` }, text);
}

function cost(picture) {
  if (picture.direct) return "each message drawn from its publication to its deliveries";
  const carrying = picture.frames.filter((f) => f[5]);
  if (!carrying.length) return "";
  const mean = carrying.reduce((sum, f) => sum + f[8], 0) / carrying.length;
  return `${picture.frames.length} messages, ${mean.toFixed(0)} bytes of metadata each`;
}
