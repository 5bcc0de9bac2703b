// Where nodes stand: on a circle where the graph is a ring, a mesh or tiny, else by springs. The
// same graph is always laid out alike.

export function layout(nodes, edges) {
  const n = nodes.length;
  const place = new Map(nodes.map((node, i) => {
    const angle = (i / n) * 2 * Math.PI - Math.PI / 2;
    return [node, { x: Math.cos(angle), y: Math.sin(angle) }];
  }));
  const degree = new Map(nodes.map((node) => [node, 0]));
  for (const [a, b] of edges) {
    degree.set(a, (degree.get(a) ?? 0) + 1); degree.set(b, (degree.get(b) ?? 0) + 1);
  }
  const degrees = [...degree.values()];
  const regular = degrees.every((d) => d === degrees[0]) && (degrees[0] === n - 1 || degrees[0] === 2);
  if (n > 3 && !regular && edges.length) springs(nodes, edges, place);
  return fitted(place);
}

function springs(nodes, edges, place) {
  const n = nodes.length;
  const ideal = 1.6 / Math.sqrt(n);
  nodes.forEach((node, i) => { const p = place.get(node); p.x *= 1 + (i % 3) * 0.05; });
  const rounds = n > 60 ? 160 : 320;
  for (let round = 0; round < rounds; round++) {
    const heat = 0.12 * (1 - round / rounds) + 0.002;
    const force = new Map(nodes.map((node) => [node, { x: 0, y: 0 }]));
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const a = place.get(nodes[i]), b = place.get(nodes[j]);
        let dx = a.x - b.x, dy = a.y - b.y;
        const d2 = dx * dx + dy * dy || 1e-6;
        const push = (ideal * ideal) / d2;
        const fa = force.get(nodes[i]), fb = force.get(nodes[j]);
        fa.x += dx * push; fa.y += dy * push; fb.x -= dx * push; fb.y -= dy * push;
      }
    }
    for (const [u, v] of edges) {
      const a = place.get(u), b = place.get(v);
      if (!a || !b) continue;
      const dx = a.x - b.x, dy = a.y - b.y;
      const pull = Math.hypot(dx, dy) / ideal;
      const fa = force.get(u), fb = force.get(v);
      fa.x -= dx * pull; fa.y -= dy * pull; fb.x += dx * pull; fb.y += dy * pull;
    }
    for (const node of nodes) {
      const f = force.get(node), p = place.get(node);
      const size = Math.hypot(f.x, f.y) || 1;
      p.x += (f.x / size) * Math.min(size, heat); p.y += (f.y / size) * Math.min(size, heat);
    }
  }
}

function fitted(place) {
  const xs = [...place.values()].map((p) => p.x), ys = [...place.values()].map((p) => p.y);
  const left = Math.min(...xs), right = Math.max(...xs), top = Math.min(...ys), bottom = Math.max(...ys);
  for (const p of place.values()) {
    p.x = right - left < 1e-6 ? 0.5 : (p.x - left) / (right - left);
    p.y = bottom - top < 1e-6 ? 0.5 : (p.y - top) / (bottom - top);
  }
  return place;
}
