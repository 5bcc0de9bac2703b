// Runs of a report, seen moving. Links open them: #see-0, #see-0+1 with another beside it, and
// #see-0-causal_order-2 at a counter-example.
import { RunView, element } from "./view.js";

const $ = (id) => document.getElementById(id);
const LINK = /^#see-(\d+)(?:\+(\d+))?(?:-([a-z_]+)-(\d+))?$/;
const runs = new Map();
for (const data of document.querySelectorAll("script[data-run]")) {
  runs.set(data.dataset.run, { title: data.dataset.title, unit: data.dataset.unit, data,
    picture: null });
}
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => {
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  view?.refresh();
};
let view = null;

function picture(number) {
  const run = runs.get(number);
  return run.picture ??= JSON.parse(run.data.textContent);
}

const option = (number) => element("option", { value: number }, runs.get(number).title);

function fill() {
  $("which").replaceChildren(...[...runs.keys()].map(option));
  for (const id of ["which", "beside"]) {
    $(id).closest("label").hidden = runs.size < 2;
    $(id).addEventListener("change", () => {
      const other = id === "beside" ? $("beside").value : "";
      location.hash = `see-${$("which").value}${other ? `+${other}` : ""}`;
    });
  }
}

// Runs that can share a time with another: both are counted in the same unit.
function besides(number) {
  return [...runs.keys()].filter((one) => one !== number && runs.get(one).unit === runs.get(number).unit);
}

function begin() {
  const hint = "Choose a node to read what it holds. Arrow keys step, the space bar plays.";
  const made = new RunView($("stage"), document.querySelector("#moving aside"),
    { hint: () => [element("p", { class: "hint" }, hint)] });
  made.listenToKeys($("moving"));
  return made;
}

function open() {
  const found = LINK.exec(location.hash);
  if (!found || !runs.has(found[1])) { $("moving").close(); return; }
  const [, number, other, property, place] = found;
  const shown = besides(number).includes(other) ? [number, other] : [number];
  const opens = !$("moving").open;
  if (opens) $("moving").showModal();
  view ??= begin();
  $("which").value = number;
  $("beside").replaceChildren(element("option", { value: "" }, "nothing"),
    ...besides(number).map(option));
  $("beside").value = shown[1] ?? "";
  $("moving-title").textContent = shown.map((one) => runs.get(one).title).join(" and ");
  const pictures = shown.map(picture);
  view.selected = null;
  view.show(pictures, { titles: titles(shown, pictures), fromStart: true });
  const guarantee = pictures[0].verdict.guarantees.find((one) => one.name === property);
  const example = guarantee?.examples[Number(place)];
  if (example) view.showExample(0, example);
  if (opens) view.parts.play.focus(); // not a choice of runs, which arrow keys would change
  document.body.dataset.moving = location.hash;
}

function titles(shown, pictures) {
  if (shown.length < 2) return [];
  return shown.map((one, i) => runs.get(one).title === pictures[i].protocol ? pictures[i].protocol
    : `${runs.get(one).title} (${pictures[i].protocol})`);
}

$("moving").addEventListener("close", () => {
  view?.pause();
  if (LINK.test(location.hash)) history.replaceState(null, "", location.pathname + location.search);
  delete document.body.dataset.moving;
});
window.addEventListener("hashchange", open);
dark.addEventListener("change", follow);
follow();
fill();
if (LINK.test(location.hash)) open();
