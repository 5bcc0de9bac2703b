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
    this.buckets = Array.from({ length: BUCKETS + 1 }, () => []);
    for (const frame of this.frames) {
      const first = this.bucket(frame.start), last = this.bucket(frame.stop);
      for (let i = first; i <= last; i++) this.buckets[i].push(frame);
    }
    this.events = picture.events.map((e) => ({ at: e[0], node: e[1], kind: e[2], message: e[3],
      peer: e[4], note: e[5], place: scale.place(e[0]) }));
    this.waiting = picture.waiting.map((w) => ({ node: w[0], message: w[1], since: w[2], until: w[3],
      reasons: w[4] }));
    this.steps = scale.instants;
  }
  bucket(place) {
    return Math.max(0, Math.min(BUCKETS, Math.floor((place / (this.scale.length || 1)) * BUCKETS)));
  }
  underWay(place) {
    return this.buckets[this.bucket(place)].filter((f) => f.start <= place && place < f.stop);
  }
  held(time, node) {
    return this.waiting
      .filter((w) => w.since <= time && (w.until === null || time < w.until)
        && (node === undefined || w.node === node))
      .map((w) => ({ ...w, words: w.reasons.filter((r) => r[0] <= time).at(-1)?.[1] ?? "" }));
  }
  at(time) {
    const down = new Set(), suspected = new Set(), delivered = new Map(), links = new Map();
    for (const node of this.picture.nodes) delivered.set(node, []);
    for (const event of this.events) {
      if (event.at > time) break;
      if (event.kind === "crash") down.add(event.node);
      else if (event.kind === "recover") down.delete(event.node);
      else if (event.kind === "leave" && !event.note) { /* it left a group */ }
      else if (event.kind === "suspect") suspected.add(event.peer);
      else if (event.kind === "trust") suspected.delete(event.peer);
      else if (event.kind === "deliver") delivered.get(event.node)?.push(event);
    }
    for (const [at, a, b, state] of this.picture.links) {
      if (at > time) break;
      links.set(`${a}-${b}`, state);
    }
    return { down, suspected, delivered, links };
  }
}

export function words(event, name = (n) => `n${n}`) {
  const who = name(event.node);
  switch (event.kind) {
    case "publish": return `${who} publishes ${event.message}`;
    case "deliver": return `${who} delivers ${event.message}`;
    case "hold": return `${who} holds ${event.message}: ${event.note}`;
    case "release": return `${who} holds ${event.message} no longer`;
    case "duplicate": return `${who} got ${event.message} once more`;
    case "crash": return `${who} goes down`;
    case "recover": return `${who} is back`;
    case "suspect": return `${who} suspects ${name(event.peer)}`;
    case "trust": return `${who} trusts ${name(event.peer)} again`;
    case "join": return `${who} joins`;
    case "leave": return `${who} leaves`;
    default: return `${who} ${event.kind}`;
  }
}

export function milliseconds(micros) {
  const ms = micros / 1000;
  return `${ms >= 1000 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

// One hue per origin, far from its neighbours'.
export function colour(message, dark) {
  if (!message) return dark ? "#8d94a1" : "#8a8f99";
  const origin = Number(message.split(".")[0]);
  return `hsl(${(origin * 137.5 + 205) % 360} ${dark ? 70 : 62}% ${dark ? 66 : 42}%)`;
}
