// The engine behind the page: Python inside it (Pyodide, in a worker), or in a process of this
// machine over HTTP. Both take a question and give an answer, as described in lab/engine.py.

class InPage {
  constructor() {
    this.confined = true; // whatever runs there cannot reach the machine
    this.waiting = new Map();
    this.next = 1;
    this.start();
  }
  start() {
    this.slowStart = true;
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => {
      this.slowStart = false;
      const done = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      done?.(JSON.parse(data.text));
    };
    this.worker.onerror = (event) => {
      for (const done of this.waiting.values()) done({ error: event.message || "the engine failed" });
      this.waiting.clear();
    };
  }
  ask(question) {
    return new Promise((done) => {
      const id = this.next++;
      this.waiting.set(id, done);
      this.worker.postMessage({ id, text: JSON.stringify(question) });
    });
  }
  stop() {
    this.worker.terminate();
    for (const done of this.waiting.values()) done({ error: "stopped" });
    this.waiting.clear();
    this.start();
  }
}

class InProcess {
  constructor(token) {
    this.token = token;
    this.confined = false;
  }
  async ask(question) {
    this.asking = new AbortController();
    try {
      const answer = await fetch("ask", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Lab-Token": this.token },
        body: JSON.stringify(question),
        signal: this.asking.signal,
      });
      return answer.ok ? await answer.json() : { error: await answer.text() };
    } catch (error) {
      return { error: this.asking.signal.aborted ? "stopped"
        : "the lab's process does not answer: was `causalcast lab` stopped?" };
    }
  }
  stop() {
    this.asking?.abort();
    fetch("stop", { method: "POST", headers: { "X-Lab-Token": this.token } }).catch(() => {});
  }
}

// A page that was put somewhere without Python: what was run before can be watched, no more.
class Nowhere {
  constructor() { this.confined = true; }
  async ask() {
    return { error: "There is no Python in this page, so it shows this one run. "
      + "`causalcast lab` runs everything; `causalcast lab --help` says how to put Python into it." };
  }
  stop() {}
}

export async function startEngine() {
  const config = await (await fetch("config.json")).json();
  if (config.engine === "pyodide") return new InPage();
  if (config.engine === "none") return new Nowhere();
  const given = new URLSearchParams(location.search).get("token");
  if (given) sessionStorage.setItem("lab-token", given);
  return new InProcess(given ?? sessionStorage.getItem("lab-token") ?? "");
}
