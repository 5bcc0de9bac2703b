// What holds at one moment of a run: who is up, which links stand, what waits and why, what is
// under way.

const BUCKETS = 500;

export class Run {
  constructor(picture, scale) {
    this.picture = picture;
    this.scale = scale;
    this.frames = picture.frames.map((f, index) => ({
      index, from: f[0], to: f[1], sent: f[2], end: f[3], lost: f[4], message: f[5], name: f[6],
      payload: f[7], metadata: f[8],
      start: scale.place(f[2]), stop: f[3] === null ? scale.length + 1 : scale.place(f[3]),
    }));
    this.buckets = this.inBuckets(this.frames);
    this.events = picture.events.map((e, index) => ({ index, at: e[0], node: e[1], kind: e[2],
      message: e[3], peer: e[4], note: e[5], place: scale.place(e[0]) }));
    this.waiting = picture.waiting.map((w) => ({ node: w[0], message: w[1], since: w[2], until: w[3],
      reasons: w[4], start: scale.place(w[2]), stop: w[3] === null ? scale.length + 1 : scale.place(w[3]) }));
    this.waits = this.inBuckets(this.waiting);
    this.begin();
  }
  inBuckets(things) {
    const buckets = Array.from({ length: BUCKETS + 1 }, () => []);
    for (const thing of things) {
      const last = this.bucket(thing.stop);
      for (let i = this.bucket(thing.start); i <= last; i++) buckets[i].push(thing);
    }
    return buckets;
  }
  bucket(place) {
    return Math.max(0, Math.min(BUCKETS, Math.floor((place / (this.scale.length || 1)) * BUCKETS)));
  }
  underWay(place) {
    return this.buckets[this.bucket(place)].filter((f) => f.start <= place && place < f.stop);
  }
  held(time, node) {
    return this.waits[this.bucket(this.scale.place(time))]
      .filter((w) => w.since <= time && (w.until === null || time < w.until)
        && (node === undefined || w.node === node))
      .map((w) => ({ ...w, words: w.reasons.filter((r) => r[0] <= time).at(-1)?.[1] ?? "" }));
  }
  // How many events had happened at a time; events are in the order of time.
  until(time) {
    let low = 0, high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].at <= time) low = middle + 1; else high = middle;
    }
    return low;
  }
  begin() {
    this.seen = { time: -Infinity, events: 0, links: 0 };
    this.state = { down: new Set(), suspected: new Set(), delivered: new Map(), links: new Map() };
    for (const node of this.picture.nodes) this.state.delivered.set(node, []);
  }
  // What holds at a time. Played forwards, only what is new since the last question is looked at.
  at(time) {
    if (time < this.seen.time) this.begin();
    this.seen.time = time;
    const { down, suspected, delivered, links } = this.state;
    for (; this.seen.events < this.events.length; this.seen.events++) {
      const event = this.events[this.seen.events];
      if (event.at > time) break;
      if (event.kind === "crash") down.add(event.node);
      else if (event.kind === "recover") down.delete(event.node);
      else if (event.kind === "suspect") suspected.add(event.peer);
      else if (event.kind === "trust") suspected.delete(event.peer);
      else if (event.kind === "deliver") delivered.get(event.node)?.push(event);
    }
    for (; this.seen.links < this.picture.links.length; this.seen.links++) {
      const [at, a, b, state] = this.picture.links[this.seen.links];
      if (at > time) break;
      links.set(`${a}-${b}`, state);
    }
    return this.state;
  }
  // How people call nodes and messages; logs of other systems have names of their own.
  name(node) { return this.picture.names?.[node] ?? `n${node}`; }
  label(message) { return this.picture.labels?.[message] ?? message; }
  clock(time) {
    const passed = time - this.picture.begin;
    return this.picture.unit === "step" ? `step ${Math.round(passed / 1000)}` : milliseconds(passed);
  }
  words(event) {
    const who = this.name(event.node), what = this.label(event.message);
    switch (event.kind) {
      case "publish": return `${who} publishes ${what}`;
      case "deliver": return `${who} delivers ${what}`;
      case "hold": return `${who} holds ${what}: ${event.note}`;
      case "release": return `${who} holds ${what} no longer`;
      case "duplicate": return `${who} got ${what} once more`;
      case "crash": return `${who} goes down`;
      case "recover": return `${who} is back`;
      case "suspect": return `${who} suspects ${this.name(event.peer)}`;
      case "trust": return `${who} trusts ${this.name(event.peer)} again`;
      case "join": return `${who} joins`;
      case "leave": return `${who} leaves`;
      default: return `${who} ${event.kind}`;
    }
  }
}

export function milliseconds(micros) {
  const ms = micros / 1000;
  return `${ms >= 1000 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

// One hue per origin, far from its neighbours'.
const colours = new Map();
export function colour(message, dark) {
  if (!message) return dark ? "#8d94a1" : "#8a8f99";
  const key = dark ? `${message} dark` : message;
  let found = colours.get(key);
  if (found === undefined) colours.set(key, found = hue(message, dark));
  return found;
}

function hue(message, dark) {
  const origin = Number(message.split(".")[0]);
  return `hsl(${(origin * 137.5 + 205) % 360} ${dark ? 70 : 62}% ${dark ? 66 : 42}%)`;
}

// The colours of the page, by name. Asked for once: an answer makes the browser lay out everything.
const INKS = ["ink", "soft", "card", "accent", "good", "bad", "wait"];
const known = new Map();
export function inks(dark) {
  if (!known.has(dark)) {
    const style = getComputedStyle(document.documentElement);
    known.set(dark, Object.fromEntries(INKS.map((name) =>
      [name, style.getPropertyValue(`--${name}`).trim()])));
  }
  return known.get(dark);
}
