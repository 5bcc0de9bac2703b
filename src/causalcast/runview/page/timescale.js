// Time as it is drawn: instants at which something happens keep their order and roughly their
// distance, long pauses become short ones.

const SHORTEST = 0.5; // of the usual distance between two instants
const LONGEST = 4;

export class TimeScale {
  constructor(pictures) {
    const found = new Set();
    for (const p of pictures) {
      found.add(p.begin); found.add(p.end);
      for (const f of p.frames) { found.add(f[2]); if (f[3] !== null && f[3] <= p.end) found.add(f[3]); }
      for (const e of p.events) found.add(e[0]);
      for (const l of p.links) if (l[0] >= p.begin && l[0] <= p.end) found.add(l[0]);
    }
    this.instants = [...found].sort((a, b) => a - b);
    const gaps = this.instants.slice(1).map((t, i) => t - this.instants[i]).sort((a, b) => a - b);
    const usual = gaps[gaps.length >> 1] || 1;
    this.places = [0];
    for (let i = 1; i < this.instants.length; i++) {
      const gap = (this.instants[i] - this.instants[i - 1]) / usual;
      this.places.push(this.places[i - 1] + Math.min(LONGEST, Math.max(SHORTEST, gap)));
    }
  }
  get length() { return this.places[this.places.length - 1]; }
  place(time) { return between(this.instants, this.places, time); }
  time(place) { return between(this.places, this.instants, place); }
}

function between(from, to, value) {
  const last = from.length - 1;
  if (value <= from[0]) return to[0];
  if (value >= from[last]) return to[last];
  let low = 0, high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= value) low = middle; else high = middle;
  }
  const share = (value - from[low]) / (from[high] - from[low] || 1);
  return to[low] + share * (to[high] - to[low]);
}
