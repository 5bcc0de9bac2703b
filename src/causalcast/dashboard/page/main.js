// The page: asks for the last picture of the cluster again and again, and shows it.
import { Graph } from "./graph.js";
import { age, count, make, rate, size } from "./numbers.js";

const $ = (id) => document.getElementById(id);
const EVENTS_SHOWN = 60, LINKS_SHOWN = 12;
const WORDS = { up: "up", silent: "no answer", down: "down", elsewhere: "elsewhere" };
let picture = null, chosen = null, paused = false, sort = { key: "name", down: false };
const reasons = new Map(); // by node and message: what was answered
const graph = new Graph($("overlay"), choose);

function choose(name) {
  chosen = chosen === name ? null : name;
  draw();
}

// A list or table is drawn anew; whoever had the focus in it has it again.
function replace(host, ...children) {
  const focus = host.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  host.replaceChildren(...children);
  if (focus) host.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
}

function sparkline(values) {
  const most = Math.max(1e-9, ...values), n = Math.max(2, values.length);
  const points = values.map((v, i) => `${((i / (n - 1)) * 100).toFixed(1)},${(23 - (v / most) * 21).toFixed(1)}`);
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "polyline");
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}

function tile(label, value, level = "", key = null) {
  const item = make("li", { class: `tile ${level}` }, make("b", {}, value), make("span", {}, label));
  if (key) item.append(sparkline(picture.history.map((one) => one[key])));
  return item;
}

function drawTiles() {
  const up = picture.nodes.filter((node) => node.state === "up");
  const links = picture.links.filter((link) => link.up).length;
  const held = up.reduce((sum, node) => sum + node.held.messages, 0);
  const kept = up.reduce((sum, node) => sum + node.kept_bytes, 0);
  const oldest = picture.held[0]?.seconds ?? 0;
  const restarts = picture.nodes.reduce((sum, node) => sum + node.restarts, 0);
  const bad = picture.alarms.filter((alarm) => alarm.level === "bad").length;
  const now = picture.history.at(-1);
  $("tiles").replaceChildren(
    tile("nodes up", `${up.length} of ${picture.nodes.length}`, up.length < picture.nodes.length ? "bad" : "good"),
    tile("links up", `${links} of ${picture.links.length}`, links < picture.links.length ? "wait" : ""),
    tile("alarms", String(picture.alarms.length), bad ? "bad" : picture.alarms.length ? "wait" : "good"),
    tile("published a second", rate(now.published), "", "published"),
    tile("delivered a second", rate(now.delivered), "", "delivered"),
    tile("sent a second", size(now.bytes), "", "bytes"),
    tile(held ? `held, the oldest ${age(oldest)}` : "held", count(held), oldest > 10 ? "bad" : held ? "wait" : "", "held"),
    tile("kept for neighbours", size(kept), "", "kept"),
    tile("restarts since you look", String(restarts), restarts ? "wait" : ""));
}

const COLUMNS = [
  ["name", "node", (n) => n.name, (n) => Number(n.name) || 0],
  ["state", "state", (n) => make("span", { class: `chip ${n.state}` }, WORDS[n.state]), (n) => n.state],
  ["links", "links", (n) => n.links ? String(n.links.length) : "–", (n) => n.links?.length ?? -1],
  ["published", "published/s", (n) => n.rates ? rate(n.rates.published) : "–", (n) => n.rates?.published ?? -1],
  ["delivered", "delivered/s", (n) => n.rates ? rate(n.rates.delivered) : "–", (n) => n.rates?.delivered ?? -1],
  ["sent", "sent/s", (n) => n.rates ? size(n.rates.sent_bytes) : "–", (n) => n.rates?.sent_bytes ?? -1],
  ["held", "held", (n) => n.held ? count(n.held.messages) : "–", (n) => n.held?.messages ?? -1],
  ["oldest", "oldest", (n) => n.held?.messages ? age(n.held.oldest_seconds) : "–", (n) => n.held?.oldest_seconds ?? -1],
  ["kept", "kept", (n) => n.held ? size(n.kept_bytes) : "–", (n) => n.kept_bytes ?? -1],
  ["inbox", "inbox", (n) => n.held ? count(n.waiting) : "–", (n) => n.waiting ?? -1],
  ["lag", "loop lag", (n) => n.held ? age(n.lag) : "–", (n) => n.lag ?? -1],
  ["memory", "memory", (n) => n.held ? size(n.memory) : "–", (n) => n.memory ?? -1],
  ["starts", "starts", (n) => n.starts ? String(n.starts) : "–", (n) => n.starts ?? -1],
];

function drawNodes() {
  const head = make("tr", {}, ...COLUMNS.map(([key, label]) => make("th",
    { scope: "col", "aria-sort": sort.key === key ? (sort.down ? "descending" : "ascending") : "none" },
    make("button", { type: "button", "data-key": `sort-${key}`, onclick: () => {
      sort = { key, down: sort.key === key ? !sort.down : key !== "name" };
      draw();
    } }, label, make("i", { "aria-hidden": "true" }, sort.key === key ? (sort.down ? " ▾" : " ▴") : "")))));
  const by = COLUMNS.find(([key]) => key === sort.key)[3];
  const rows = [...picture.nodes].sort((a, b) => {
    const x = by(a), y = by(b), order = x < y ? -1 : x > y ? 1 : 0;
    return sort.down ? -order : order;
  });
  replace($("nodes"), make("thead", {}, head), make("tbody", {}, ...rows.map((node) =>
    make("tr", { class: node.name === chosen ? "chosen" : "" }, ...COLUMNS.map(([key, , show]) =>
      key === "name"
        ? make("th", { scope: "row" }, make("button", { type: "button", class: "plain", "data-key": `node-${node.name}`,
          "aria-pressed": String(node.name === chosen), onclick: () => choose(node.name) }, node.name))
        : make("td", {}, show(node)))))));
}

function drawLinks() {
  const busy = picture.links.filter((link) => !chosen || link.a === chosen || link.b === chosen)
    .sort((a, b) => a.up - b.up || b.rate_bytes - a.rate_bytes).slice(0, LINKS_SHOWN);
  $("h-links").textContent = chosen ? `Links of node ${chosen}` : "Lost and busiest links";
  replace($("links"),
    make("thead", {}, make("tr", {}, ...["link", "state", "bytes/s", "messages/s", "queued"].map((label) =>
      make("th", { scope: "col" }, label)))),
    make("tbody", {}, ...busy.map((link) => make("tr", {},
      make("th", { scope: "row" }, `${link.a} – ${link.b}`),
      make("td", {}, make("span", { class: `chip ${link.up ? "up" : "down"}` }, link.up ? "up" : "lost")),
      make("td", {}, size(link.rate_bytes)), make("td", {}, rate(link.rate_messages)),
      make("td", {}, size(link.queued))))));
}

function drawAlarms() {
  $("h-alarms").textContent = picture.alarms.length ? `Alarms (${picture.alarms.length})` : "Alarms";
  replace($("alarms"), ...(picture.alarms.length ? picture.alarms.map((alarm) =>
    make("li", { class: alarm.level }, make("b", {}, `node ${alarm.node}`), ` ${alarm.text}`))
    : [make("li", { class: "calm" }, "none")]));
}

async function explain(node, message) {
  const key = `${node} ${message}`;
  reasons.set(key, "…");
  draw();
  try {
    const found = await (await fetch(`explain.json?${new URLSearchParams({ node, message })}`)).json();
    reasons.set(key, found.error ?? (found.reasons.join("; ") || "it waits no longer"));
  } catch { reasons.set(key, "the dashboard does not answer"); }
  draw();
}

function drawHeld() {
  const held = picture.held.filter((one) => !chosen || one.node === chosen);
  replace($("held"), ...(held.length ? held.slice(0, 30).map((one) => {
    const key = `${one.node} ${one.message}`;
    return make("li", {},
      make("button", { type: "button", class: "plain", "data-key": `held-${key}`, title: "what does it wait for?",
        onclick: () => explain(one.node, one.message) }, one.message),
      ` at node ${one.node} for ${age(one.seconds)}`,
      reasons.has(key) ? make("p", {}, reasons.get(key)) : "");
  }) : [make("li", { class: "calm" }, chosen ? `none at node ${chosen}` : "none")]));
}

function drawKept() {
  const kept = picture.kept.filter((one) => !chosen || one.node === chosen || one.peer === chosen);
  const lines = kept.slice(0, 30).map((one) =>
    `node ${one.node} keeps ${count(one.messages)} messages for node ${one.peer}`);
  for (const node of picture.nodes) {
    if (!node.kept_bytes || (chosen && node.name !== chosen)) continue;
    if (!Object.keys(node.kept_for).length) {
      lines.push(`node ${node.name} keeps ${size(node.kept_bytes)}; its protocol does not say for whom`);
    }
  }
  replace($("kept"), ...(lines.length ? lines.map((line) => make("li", {}, line))
    : [make("li", { class: "calm" }, "none")]));
}

function drawGroups() {
  replace($("groups"),
    make("thead", {}, make("tr", {}, ...["group", "nodes", "publ./s", "deliv./s", "inbox"].map((label) =>
      make("th", { scope: "col" }, label)))),
    make("tbody", {}, ...picture.groups.map((group) => make("tr", {},
      make("th", { scope: "row" }, group.name),
      make("td", { title: group.members.join(", ") }, String(group.members.length)),
      make("td", {}, rate(group.published)), make("td", {}, rate(group.delivered)),
      make("td", {}, count(group.inbox))))));
}

function drawBudget() {
  const told = picture.nodes.filter((node) => node.conditions && Object.keys(node.conditions).length);
  $("budget-section").hidden = !told.length;
  if (!told.length) return;
  const outside = told.filter((node) => node.conditions.within_fault_budget === 0);
  const parts = [];
  if (told.some((node) => "within_fault_budget" in node.conditions)) {
    parts.push(make("p", { class: outside.length ? "bad" : "good" }, outside.length
      ? `more nodes are away than the protocol survives, at ${outside.map((node) => node.name).join(", ")}`
      : "every node is within its fault budget"));
  }
  const sums = new Map();
  for (const node of told) {
    for (const [name, value] of Object.entries(node.conditions)) {
      if (name !== "within_fault_budget" && value) sums.set(name, [...(sums.get(name) ?? []), `${node.name}: ${value}`]);
    }
  }
  parts.push(make("dl", {}, ...[...sums].flatMap(([name, values]) => [make("dt", {}, name.replaceAll("_", " ")),
    make("dd", {}, values.slice(0, 12).join(", ") + (values.length > 12 ? " …" : ""))])));
  $("budget").replaceChildren(...parts);
}

function drawEvents() {
  const events = picture.events.filter((one) => !chosen || one.node === chosen).slice(0, EVENTS_SHOWN);
  replace($("events"), ...(events.length ? events.map((one) => make("li", {},
    make("time", {}, new Date(one.at * 1000).toLocaleTimeString("en-GB")),
    make("span", {}, one.node ? make("b", {}, `node ${one.node} `) : "", one.text)))
    : [make("li", { class: "calm" }, "none")]));
}

function drawChosen() {
  const node = picture.nodes.find((one) => one.name === chosen);
  $("chosen-section").hidden = !chosen;
  if (!chosen) return;
  $("h-chosen").textContent = `Node ${chosen}`;
  const facts = [];
  const fact = (name, value) => facts.push(make("dt", {}, name), make("dd", {}, value));
  if (!node) fact("state", "not in this folder: other nodes have links to it");
  else if (node.state !== "up") { fact("state", WORDS[node.state]); fact("why", node.why); }
  else {
    fact("called", `${node.called}, version ${node.version}`);
    fact("takes part", node.takes_part ? "yes" : "not yet");
    fact("groups", node.groups.join(", ") || "none");
    fact("links to", node.links.join(", ") || "nobody");
    if (node.suspected.length) fact("suspects", node.suspected.join(", "));
    if (node.publishers_wait.length) fact("publishers wait", node.publishers_wait.join("; "));
    fact("received a second", size(node.rates.received_bytes));
    fact("sent again", count(node.repeated));
    fact("inbox", Object.entries(node.inbox).map(([name, n]) => `${name} ${count(n)}`).join(", ") || "empty");
    fact("not acknowledged", count(node.unacknowledged));
    fact("journal", size(node.journal_bytes));
    fact("started", node.starts === 1 ? "once" : `${node.starts} times`);
  }
  replace($("chosen"), make("dl", {}, ...facts),
    make("button", { type: "button", "data-key": "all", onclick: () => choose(chosen) }, "show all nodes"));
}

function withElsewhere() {
  const known = new Set(picture.nodes.map((node) => node.name));
  const others = new Set(picture.links.flatMap((link) => [link.a, link.b]).filter((name) => !known.has(name)));
  return [...picture.nodes, ...[...others].map((name) => ({ name, state: "elsewhere" }))];
}

function draw() {
  if (!picture) return;
  $("folder").textContent = picture.folder;
  drawTiles(); drawNodes(); drawLinks(); drawAlarms(); drawChosen(); drawHeld(); drawKept();
  drawGroups(); drawBudget(); drawEvents();
  graph.show(withElsewhere(), picture.links, chosen);
}

function say(text, isBad) {
  if ($("message").textContent !== text) $("message").textContent = text;
  $("message").classList.toggle("bad", isBad);
}

async function look() {
  let pause = 1000;
  if (!paused) {
    try {
      const answer = await fetch("state.json");
      if (answer.status === 403) { say("the token is of another dashboard: open the address it printed", true); return; }
      picture = await answer.json();
      pause = Math.max(1000, picture.every * 1000);
      draw();
      say(picture.nodes.length ? "live" : "no nodes in this folder yet", !picture.nodes.length);
      document.body.dataset.looks = String(Number(document.body.dataset.looks ?? 0) + 1);
    } catch { say("the dashboard does not answer; this is what was last seen", true); }
  }
  setTimeout(look, document.hidden ? 5000 : pause);
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
  say(paused ? "paused" : "live", false);
});
function theme(name) { document.documentElement.dataset.theme = name; }
theme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});
look();
