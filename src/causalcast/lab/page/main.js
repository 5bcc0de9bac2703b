// The page of the lab: what is chosen, and what people do to a run. How a run is shown stands in
// view.js.
import { startEngine } from "./engine.js";
import { milliseconds } from "./moment.js";
import { packed, unpacked } from "./share.js";
import { RunView, element } from "./view.js";

const $ = (id) => document.getElementById(id);

let engine, catalogue;
// What is run: everything that a link carries.
let choice = { scenario: "revoke_then_post", text: null, protocol: "naive_flood",
  other: "vector_clock_broadcast", seed: null, options: {}, edits: [], sources: {}, about: "" };
let fromStart = true; // whether the next picture begins at its beginning
const view = new RunView($("stage"), document.querySelector("aside"), {
  hint: () => [element("h2", {}, "Interfere"), element("p", { class: "hint" },
    "Choose a node or a link in the graph: crash it, cut it, let it publish. "
    + "The run begins anew with your change at this moment.")],
  actions,
});

// ---- small helpers

function tell(text, bad = false) {
  $("message").textContent = text;
  $("message").className = bad ? "bad" : "";
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("lab-theme", name); } catch { /* private mode */ }
  view.refresh();
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
  const before = view.scale && keepTime ? view.now : null;
  view.pause();
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
  if (before !== null) view.moveTo(view.scale.place(before));
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
  const changed = Object.keys(choice.sources).length > 0;
  const titles = pictures.map((picture, number) =>
    picture.protocol + (number === 0 && changed ? " (changed)" : ""));
  view.show(pictures, { about: choice.about, titles, fromStart });
  fromStart = false;
  showEdits();
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}

// ---- what people do to a run

function actions({ node, link }, states) {
  const now = states[0];
  const action = (label, edit) => element("button", { type: "button", "data-action": edit.kind,
    onclick: () => addEdit(edit) }, label);
  if (node !== undefined) {
    return [action("Publish", { kind: "publish", node }),
      now.down.has(node) ? action("Recover", { kind: "recover", node })
        : action("Crash", { kind: "crash", node }),
      now.suspected.has(node) ? action("Let all trust it", { kind: "trust", node })
        : action("Let all suspect it", { kind: "suspect", node })];
  }
  const state = now.links.get(link.join("-"));
  const cut = state === "cut" || choice.edits.some((e) => e.kind === "cut"
    && e.link.join() === link.join());
  const buttons = [cut ? action("Heal", { kind: "heal", link }) : action("Cut", { kind: "cut", link })];
  if (!view.panes[0].run.picture.directed) {
    buttons.push(state === "slow" ? action("Fast again", { kind: "delay", link, extra_ms: 0 })
      : action("Slow down by 50 ms", { kind: "delay", link, extra_ms: 50 }));
  }
  return buttons;
}

async function addEdit(edit) {
  const { picture } = view.panes[0].run;
  const time = view.now;
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
  view.selected = null;
  fromStart = true;
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
    : view.panes[0]?.run.picture.scenario ?? own;
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
    fromStart = true; view.selected = null;
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
  view.listenToKeys(document);
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
