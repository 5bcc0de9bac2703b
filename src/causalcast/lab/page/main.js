// The page of the lab: what is chosen, what time it is, and what people do to a run.
import { startEngine } from "./engine.js";
import { Diagram } from "./diagram.js";
import { Graph } from "./graph.js";
import { Run, milliseconds, words } from "./moment.js";
import { packed, unpacked } from "./share.js";
import { TimeScale } from "./timescale.js";

const $ = (id) => document.getElementById(id);
const LOG_LINES = 40;
const PLAY_SECONDS = 14; // for a short run; longer ones take longer
const MOST_PER_SECOND = 14; // steps of the time scale, at speed 1,
const LONGEST_PLAY = 60; // unless that takes more than so many seconds

let engine, catalogue;
// What is run: everything that a link carries.
let choice = { scenario: "revoke_then_post", text: null, protocol: "naive_flood",
  other: "vector_clock_broadcast", seed: null, options: {}, edits: [], sources: {}, about: "" };
let panes = []; // [{run, graph, diagram}]
let scale = null, place = 0, playing = false, selected = null, example = null, started = 0;

// ---- small helpers

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function tell(text, bad = false) {
  $("message").textContent = text;
  $("message").className = bad ? "bad" : "";
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("lab-theme", name); } catch { /* private mode */ }
  refresh();
}

// ---- choosing and running

function fillChoices() {
  const options = (names, chosen) => names.map((name) => {
    const option = element("option", { value: name }, name);
    option.selected = name === chosen;
    return option;
  });
  const names = catalogue.scenarios.map((s) => s.name);
  const shown = choice.text !== null ? "(edited text)" : choice.scenario;
  if (!names.includes(shown)) names.unshift(shown);
  $("scenario").replaceChildren(...options(names, shown));
  const protocols = [...catalogue.protocols.map((p) => p.name), ...catalogue.examples];
  $("protocol").replaceChildren(...options(protocols, choice.protocol));
  const other = [element("option", { value: "" }, "nothing"), ...options(protocols, choice.other)];
  $("other").replaceChildren(...other);
  $("seed").value = choice.seed ?? "";
  $("seed").placeholder = "file's";
}

async function question(protocol, own) {
  return { do: "run", scenario: choice.scenario, text: choice.text, protocol, seed: choice.seed,
    options: own ? choice.options : {}, edits: choice.edits, sources: own ? choice.sources : {} };
}

async function runChoice(keepTime = false) {
  const before = scale && keepTime ? scale.time(place) : null;
  playing = false;
  tell(engine.slowStart ? "Running, as soon as Python has started …" : "Running …");
  $("run").textContent = "Stop";
  $("run").dataset.running = "yes";
  const wanted = [choice.protocol, ...(choice.other ? [choice.other] : [])];
  const answers = [];
  for (const [number, protocol] of wanted.entries()) {
    answers.push(await engine.ask(await question(protocol, number === 0)));
  }
  $("run").textContent = "Run";
  delete $("run").dataset.running;
  const failed = answers.find((answer) => answer.error);
  if (failed) {
    tell(failed.error + (failed.trace ? `\n${failed.trace}` : ""), true);
    return failed;
  }
  tell(told(answers));
  show(answers);
  if (before !== null) moveTo(scale.place(before));
  history.replaceState(null, "", `${location.pathname}${location.search}#${await packed(choice)}`);
  return null;
}

function told(answers) {
  const parts = answers.map((a) => {
    const many = a.frames_left_out ? `; ${a.frames_left_out} messages are not drawn` : "";
    return `${a.protocol}: ${a.nodes.length} nodes, ${a.frames.length} messages${many}`
      + (a.stopped ? ` (${a.stopped})` : "");
  });
  return parts.join("   ·   ");
}

function show(pictures) {
  scale = new TimeScale(pictures);
  $("panes").replaceChildren();
  $("diagrams").replaceChildren();
  $("panes").className = pictures.length > 1 ? "two" : "";
  $("about").textContent = choice.about;
  example = null;
  panes = pictures.map((picture, number) => {
    const run = new Run(picture, scale);
    const changed = number === 0 && Object.keys(choice.sources).length > 0;
    const title = element("h3", {}, picture.protocol + (changed ? " (changed)" : ""));
    title.append(chip(picture), element("span", { class: "cost" }, cost(picture)));
    const pane = element("div", { class: "pane" }, title);
    $("panes").append(pane);
    const graph = new Graph(pane, run, (what) => select(what));
    const lower = element("div", { class: "pane diagram" });
    if (pictures.length > 1) lower.append(element("h3", {}, picture.protocol));
    $("diagrams").append(lower);
    return { run, graph, diagram: new Diagram(lower, run, moveTo) };
  });
  if (selected?.node !== undefined && !pictures[0].nodes.includes(selected.node)) selected = null;
  showVerdicts();
  showEdits();
  place = Math.min(place, scale.length);
  if (started === 0) { place = 0; started = performance.now(); }
  const wrong = pictures[0].verdict.guarantees.flatMap((g) => g.state === "violated" ? g.examples : []);
  if (wrong.length) example = { pane: 0, ...wrong[0] };
  showVerdicts();
  refresh();
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}

function chip(picture) {
  const { word, promises_broken: promises } = picture.verdict;
  const text = word === "violated" && !promises.length ? "violated, not promised" : word;
  return element("span", { class: `chip ${word}` }, text);
}

function cost(picture) {
  const carrying = picture.frames.filter((f) => f[5]);
  if (!carrying.length) return "";
  const mean = carrying.reduce((sum, f) => sum + f[8], 0) / carrying.length;
  return `${picture.frames.length} messages, ${mean.toFixed(0)} bytes of metadata each`;
}

// ---- time

function moveTo(where) {
  place = Math.max(0, Math.min(scale?.length ?? 0, where));
  refresh();
}

function steps(direction) {
  if (!scale) return;
  const { places } = scale;
  const next = direction > 0 ? places.find((p) => p > place + 1e-6)
    : places.findLast((p) => p < place - 1e-6);
  playing = false;
  moveTo(next ?? (direction > 0 ? scale.length : 0));
}

function togglePlay() {
  if (!scale) return;
  playing = !playing;
  if (playing && place >= scale.length - 1e-6) place = 0;
  refresh();
  if (playing) requestAnimationFrame(tick);
}

let lastTick = 0;
function tick(now) {
  if (!playing) { lastTick = 0; return; }
  const passed = lastTick ? Math.min(0.1, (now - lastTick) / 1000) : 0;
  lastTick = now;
  const perSecond = Math.max(Math.min(scale.length / PLAY_SECONDS, MOST_PER_SECOND),
    scale.length / LONGEST_PLAY);
  place += passed * Math.max(perSecond, 1) * Number($("speed").value);
  if (place >= scale.length) { place = scale.length; playing = false; lastTick = 0; }
  refresh();
  if (playing) requestAnimationFrame(tick);
}

function refresh() {
  if (!scale || !panes.length) return;
  const time = scale.time(place);
  $("time").max = String(Math.ceil(scale.length * 10));
  $("time").value = String(Math.round(place * 10));
  const clock = milliseconds(time - panes[0].run.picture.begin);
  $("clock").textContent = clock;
  $("time").setAttribute("aria-valuetext", clock);
  $("play").textContent = playing ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", playing ? "pause" : "play");
  panes.forEach(({ run, graph, diagram }, number) => {
    const state = run.at(time);
    graph.draw(place, time, state, selected);
    diagram.draw(place, time, example?.pane === number ? example : null);
  });
  showLog(time);
  showSelected(time);
}

function showLog(time) {
  const { run } = panes[0];
  const past = [];
  for (let i = run.events.length - 1; i >= 0 && past.length < LOG_LINES; i--) {
    const event = run.events[i];
    if (event.at <= time && event.kind !== "duplicate") past.push(event);
  }
  const key = `${past.length}/${past[0]?.at}/${past[0]?.node}/${past[0]?.kind}/${run.picture.protocol}`;
  if ($("log").dataset.key === key) return;
  $("log").dataset.key = key;
  $("log").replaceChildren(...past.map((event) => element("li",
    { class: event.kind === "hold" ? "wait" : event.kind === "crash" ? "bad" : "" },
    element("time", {}, milliseconds(event.at - run.picture.begin)), words(event))));
}

// ---- verdicts

const SIGNS = { ok: "✓", violated: "✗", pending: "…", "not judged": "?" };

function showVerdicts() {
  const host = $("verdicts");
  host.replaceChildren(element("h2", {}, "Verdict of the judge"));
  panes.forEach(({ run }, number) => {
    const { verdict, protocol, stopped } = run.picture;
    host.append(element("h3", {}, `${protocol}: ${verdict.word}`));
    if (stopped) host.append(element("p", { class: "hint" }, stopped));
    const list = element("ul", { class: "guarantees" });
    for (const g of verdict.guarantees) {
      const state = g.state.split(" ")[0];
      list.append(element("li", {}, element("span", { class: state }, SIGNS[g.state]),
        element("span", {}, g.name.replaceAll("_", " ")),
        element("small", {}, g.promised ? "promised" : "not promised")));
    }
    host.append(list);
    for (const g of verdict.guarantees) {
      if (g.state !== "violated") continue;
      for (const one of g.examples) {
        const pressed = example?.pane === number && example.words === one.words;
        const button = element("button", { type: "button", class: "example", "aria-pressed": pressed,
          onclick: () => showExample(number, one) }, `${g.name.replaceAll("_", " ")}: ${one.words}`);
        host.append(button);
      }
    }
  });
}

function showExample(pane, one) {
  example = example?.pane === pane && example.words === one.words ? null : { pane, ...one };
  const wrong = one.marks.find((m) => m.role === "wrong") ?? one.marks.at(-1);
  if (example && wrong) moveTo(scale.place(Math.max(...one.marks.map((m) => m.at))));
  showVerdicts();
  refresh();
}

// ---- what people do to a run

function select(what) {
  selected = what;
  $("selected").dataset.key = "";
  refresh();
  $("selected").scrollIntoView({ block: "nearest" });
}

function showSelected(time) {
  const host = $("selected");
  if (!selected) {
    if (host.dataset.key !== "none") {
      host.dataset.key = "none";
      host.replaceChildren(element("h2", {}, "Interfere"), element("p", { class: "hint" },
        "Choose a node or a link in the graph: crash it, cut it, let it publish. "
        + "The run begins anew with your change at this moment."));
    }
    return;
  }
  const node = selected.node;
  const state = panes.map(({ run }) => run.at(time));
  const held = panes.map(({ run }) => node === undefined ? [] : run.held(time, node));
  const key = JSON.stringify([selected, state.map((s) => [s.down.has(node), s.suspected.has(node),
    s.delivered.get(node)?.length, selected.link && s.links.get(selected.link.join("-"))]), held]);
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.action : null;
  host.replaceChildren();
  if (node !== undefined) showNode(host, node, state, held); else showLink(host, state);
  if (focused) host.querySelector(`[data-action="${focused}"]`)?.focus();
}

function action(label, edit) {
  return element("button", { type: "button", "data-action": edit.kind,
    onclick: () => addEdit(edit) }, label);
}

function showNode(host, node, state, held) {
  const down = state[0].down.has(node);
  host.append(element("h2", {}, `Node n${node}${down ? ", down" : ""}`));
  const actions = element("div", { class: "actions" });
  actions.append(action("Publish", { kind: "publish", node }),
    down ? action("Recover", { kind: "recover", node }) : action("Crash", { kind: "crash", node }),
    state[0].suspected.has(node) ? action("Let all trust it", { kind: "trust", node })
      : action("Let all suspect it", { kind: "suspect", node }));
  host.append(actions);
  panes.forEach(({ run }, number) => {
    if (panes.length > 1) host.append(element("h3", {}, run.picture.protocol));
    const delivered = state[number].delivered.get(node) ?? [];
    const last = delivered.slice(-6).map((e) => e.message).join(", ");
    host.append(element("dl", {}, element("dt", {}, "delivered"),
      element("dd", {}, delivered.length ? `${delivered.length}, last ${last}` : "nothing yet"),
      element("dt", {}, "held"), element("dd", {}, held[number].length || "nothing")));
    host.append(element("ul", { class: "held" }, ...held[number].slice(0, 8).map((w) =>
      element("li", {}, element("b", {}, w.message), ` ${w.words}`))));
  });
}

function showLink(host, state) {
  const link = selected.link;
  const now = state[0].links.get(link.join("-"));
  host.append(element("h2", {}, `Link between n${link[0]} and n${link[1]}`));
  host.append(element("p", { class: "hint" }, { up: "It stands.", slow: "It is slow.",
    cut: "It is cut." }[now] ?? "It is not there now."));
  const actions = element("div", { class: "actions" });
  const cut = now === "cut" || choice.edits.some((e) => e.kind === "cut"
    && e.link.join() === link.join());
  actions.append(cut ? action("Heal", { kind: "heal", link }) : action("Cut", { kind: "cut", link }));
  if (!panes[0].run.picture.directed) {
    actions.append(now === "slow" ? action("Fast again", { kind: "delay", link, extra_ms: 0 })
      : action("Slow down by 50 ms", { kind: "delay", link, extra_ms: 50 }));
  }
  host.append(actions);
}

async function addEdit(edit) {
  const { picture } = panes[0].run;
  const time = scale.time(place);
  const at = Math.max(0, Math.round(time - picture.begin));
  const done = { ...edit, at_us: at };
  if (picture.directed) done.step = picture.step_times.filter((t) => t <= time).length;
  choice.edits = [...choice.edits, done];
  if (await runChoice(true)) {
    choice.edits = choice.edits.slice(0, -1);
    showEdits();
  }
}

function showEdits() {
  const host = $("edits");
  host.replaceChildren();
  if (!choice.edits.length) return;
  host.append(element("h2", {}, "Your changes"));
  const list = element("ul");
  choice.edits.forEach((edit, number) => {
    const whom = edit.link ? `n${edit.link[0]}–n${edit.link[1]}` : `n${edit.node}`;
    const when = "step" in edit ? `after step ${edit.step}` : milliseconds(edit.at_us);
    list.append(element("li", {}, `${edit.kind} ${whom}, ${when}`,
      element("button", { type: "button", "aria-label": `take back: ${edit.kind} ${whom}`,
        onclick: () => { choice.edits = choice.edits.filter((_, i) => i !== number); runChoice(true); } },
      "✕")));
  });
  host.append(list);
}

// ---- gallery, sources, scenario

function fillGallery() {
  const sections = new Map();
  for (const entry of catalogue.gallery) {
    if (!sections.has(entry.section)) sections.set(entry.section, []);
    sections.get(entry.section).push(entry);
  }
  $("entries").replaceChildren();
  for (const [title, entries] of sections) {
    const grid = element("div", { class: "entries" });
    for (const entry of entries) {
      grid.append(element("button", { type: "button", class: "entry", "data-id": entry.id,
        onclick: () => { $("gallery").close(); take(entry); } },
      element("b", {}, entry.title), element("span", {}, entry.about)));
    }
    $("entries").append(element("h3", {}, title), grid);
  }
}

function take(entry) {
  choice = { scenario: entry.scenario, text: null, protocol: entry.protocol, other: entry.other,
    seed: entry.seed, options: entry.options, edits: [], sources: { ...entry.sources },
    about: entry.about };
  selected = null;
  started = 0;
  fillChoices();
  return runChoice();
}

let files = {};
async function openEditor() {
  const answer = await engine.ask({ do: "sources", protocol: choice.protocol });
  if (answer.error) { tell(answer.error, true); return; }
  files = answer.files;
  $("file").replaceChildren(...Object.keys(files).map((path) =>
    element("option", { value: path }, path + (path in choice.sources ? " (changed)" : ""))));
  const changed = Object.keys(choice.sources).find((path) => path in files);
  if (changed) $("file").value = changed;
  showFile();
  $("source-error").textContent = "";
  $("editor").showModal();
}

function showFile() {
  const path = $("file").value;
  $("source").value = choice.sources[path] ?? files[path];
}

function keepSource() {
  const path = $("file").value;
  if (!(path in files)) return;
  const { [path]: _, ...others } = choice.sources;
  choice.sources = $("source").value === files[path] ? others
    : { ...others, [path]: $("source").value };
}

async function runSource() {
  keepSource();
  const failed = await runChoice();
  $("source-error").textContent = failed
    ? failed.error + (failed.trace ? `\n\n${failed.trace}` : "") : "";
  if (!failed) $("editor").close();
}

async function openScenario() {
  const own = catalogue.scenarios.find((s) => s.name === choice.scenario)?.text ?? "";
  $("text").value = choice.text !== null && !choice.edits.length ? choice.text
    : panes[0]?.run.picture.scenario ?? own;
  $("text-error").textContent = "";
  $("scenario-editor").showModal();
}

async function runText() {
  const before = { ...choice };
  const text = $("text").value;
  const named = /^protocol\s*=\s*"([^"]+)"/m.exec(text)?.[1] ?? choice.protocol;
  const seed = /^seed\s*=\s*(\d+)/m.exec(text)?.[1];
  choice = { ...choice, text, edits: [], about: "", protocol: named, seed: seed ? Number(seed) : null,
    sources: named === choice.protocol ? choice.sources : {} };
  const failed = await runChoice();
  $("text-error").textContent = failed ? failed.error : "";
  if (failed) choice = before; else { fillChoices(); $("scenario-editor").close(); }
}

function saveText() {
  const link = element("a", { download: "scenario.toml",
    href: URL.createObjectURL(new Blob([$("text").value], { type: "application/toml" })) });
  link.click();
  URL.revokeObjectURL(link.href);
}

// ---- listening

function listen() {
  $("choose").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("run").dataset.running) { engine.stop(); return; }
    runChoice();
  });
  $("scenario").addEventListener("change", () => {
    choice = { ...choice, scenario: $("scenario").value, text: null, edits: [], about: "",
      options: {}, seed: null };
    const named = catalogue.scenarios.find((s) => s.name === choice.scenario);
    choice.about = named?.title ?? "";
    const own = /^protocol\s*=\s*"([^"]+)"/m.exec(named?.text ?? "")?.[1];
    if (own) { choice.protocol = own; choice.sources = {}; choice.other = ""; }
    started = 0; selected = null;
    fillChoices();
    runChoice();
  });
  $("protocol").addEventListener("change", () => {
    choice = { ...choice, protocol: $("protocol").value, sources: {}, options: {} };
    runChoice(true);
  });
  $("other").addEventListener("change", () => {
    choice = { ...choice, other: $("other").value };
    runChoice(true);
  });
  $("seed").addEventListener("change", () => {
    choice = { ...choice, seed: $("seed").value === "" ? null : Number($("seed").value) };
    runChoice();
  });
  $("time").addEventListener("input", () => { playing = false; moveTo(Number($("time").value) / 10); });
  $("play").addEventListener("click", togglePlay);
  $("step").addEventListener("click", () => steps(1));
  $("back").addEventListener("click", () => steps(-1));
  $("first").addEventListener("click", () => { playing = false; moveTo(0); });
  $("theme").addEventListener("click", () =>
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("open-gallery").addEventListener("click", () => $("gallery").showModal());
  $("open-editor").addEventListener("click", openEditor);
  $("open-scenario").addEventListener("click", openScenario);
  $("file").addEventListener("focus", keepSource);
  $("source").addEventListener("input", keepSource);
  $("file").addEventListener("change", showFile);
  $("run-source").addEventListener("click", runSource);
  $("reset-source").addEventListener("click", () => { choice.sources = {}; showFile(); });
  $("run-text").addEventListener("click", runText);
  $("save-text").addEventListener("click", saveText);
  $("share").addEventListener("click", async () => {
    const link = new URL(location.href);
    link.search = "";
    link.hash = await packed(choice);
    try {
      await navigator.clipboard.writeText(link.href);
      tell("The link is in the clipboard. It carries the scenario, the seed and all your changes.");
    } catch {
      tell(link.href);
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight") steps(1);
    else if (event.key === "ArrowLeft") steps(-1);
    else if (event.key === " " && !event.target.closest("button, .node, .link")) togglePlay();
    else if (event.key === "Home") moveTo(0);
    else if (event.key === "End") moveTo(scale?.length ?? 0);
    else if (event.key === "Escape") { selected = null; refresh(); }
    else return;
    event.preventDefault();
  });
  window.addEventListener("hashchange", openLink);
}

async function openLink() {
  const text = location.hash.slice(1);
  if (!text || text === await packed(choice)) return;
  try {
    choice = { ...choice, edits: [], sources: {}, text: null, ...await unpacked(text) };
  } catch {
    tell("This link is damaged: it does not unpack.", true);
    return;
  }
  fillChoices();
  if (!engine.confined && (choice.text !== null || Object.keys(choice.sources).length)) {
    tell("This link brings code that would run on your machine with your rights. Look at it with "
      + "Edit protocol and Edit scenario, and press Run if you want it.", true);
    return;
  }
  await runChoice();
}

async function begin() {
  let kept = null;
  try { kept = localStorage.getItem("lab-theme"); } catch { /* private mode */ }
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = kept ?? (dark ? "dark" : "light");
  listen();
  const linked = location.hash.slice(1);
  const file = (name) => fetch(name).then((a) => a.ok ? a.json() : null).catch(() => null);
  const first = linked ? null : await file("first.json");
  if (first) { choice = { ...choice, ...first.choice }; show(first.pictures); }
  engine = await startEngine();
  // Python inside the page takes seconds to start, and all that can be chosen is known before.
  catalogue = (engine.confined && await file("catalogue.json"))
    || await engine.ask({ do: "catalogue" });
  if (catalogue.error) { tell(catalogue.error, true); return; }
  fillChoices();
  fillGallery();
  if (linked) await openLink();
  else if (first) tell(told(first.pictures));
  else await take(catalogue.gallery[0]);
  document.body.dataset.engine = "ready";
}

begin();
