// A client of a causalcast node, for browsers and for Node. One file, nothing to build.
//
//   import { connect } from "./causalcast.js";
//   const node = connect(["wss://one:7500", "wss://two:7500"], token);
//   await node.subscribe(["chat"], async (message) => show(message.text()));
//   await node.publish("chat", "hello");
//
// It connects anew when a connection breaks, to the same node or to another, and goes on where it
// was (docs/clients.md). A message is acknowledged when its handler has returned; one whose handler
// fails comes again after the next connection.

const VERSION = 1;
const FIRST_PAUSE = 50; // milliseconds
const LONGEST_PAUSE = 2000;
const STAY = 10000; // for the node that may have made a publication
const OPEN_WITHIN = 10000; // from dialling to the welcome
const ALIVE = 20000; // a node that was silent for so long is asked, and given up after as long
const FINAL = ["no_token", "bad_frame"]; // said again the next time

/** A refusal of a node, or what became of the connection; `code` says which. */
export class CausalcastError extends Error {
  /** @param {string} code @param {string} text @param {string} group that it is about, or none */
  constructor(code, text, group = "") {
    super(text);
    this.code = code;
    this.group = group;
  }
}

/**
 * A message of a group: `id` such as "3.17", `group`, `body` as bytes, and what travelled with it:
 * `headers`, `contentType`, and `publishedAt`, a Date, or null where it does not say.
 */
export class Message {
  /** @param {object} said by the node @param {Uint8Array} body */
  constructor(said, body) {
    this.id = said.message;
    this.group = said.group;
    this.body = body;
    this.headers = said.headers ?? {};
    this.contentType = said.content_type ?? "";
    this.publishedAt = said.published_us ? new Date(said.published_us / 1000) : null;
  }

  /** The body as text. @returns {string} */
  text() {
    return new TextDecoder().decode(this.body);
  }
}

/**
 * A node at a door, or one of several.
 * @param {string | string[]} urls
 * @param {string} token of `causalcast keys client`
 * @param {{name?: string, position?: object, stay?: number, openWithin?: number, alive?: number}}
 *   options times in milliseconds: how long to wait for a node that may have made a publication,
 *   for a welcome, and for a node that is silent
 * @returns {Client}
 */
export function connect(urls, token = "", options = {}) {
  return new Client(Array.isArray(urls) ? urls : [urls], token, options);
}

/** One connection at a time, and all that outlives it. */
export class Client {
  constructor(urls, token, options) {
    const { name = "", position = null } = options;
    const { stay = STAY, openWithin = OPEN_WITHIN, alive = ALIVE } = options;
    this.node = null; // whom it is connected to, or was last
    this.onfailure = (error) => console.error(error); // when nothing can come any more
    this._urls = urls;
    this._token = token;
    this._name = name;
    const { seen = {}, past = {}, log = "" } = position ?? {};
    this._seen = structuredClone(seen);
    this._past = structuredClone(past);
    this._log = log;
    this._groups = new Map(); // name: {handler, since, onGap, gap}
    this._asked = new Map(); // id: {frame, isPublication, node, resolve, reject}
    this._number = 0;
    this._again = 0; // the request to read the groups again
    this._key = [...crypto.getRandomValues(new Uint8Array(12))].map((n) => n.toString(16)).join("");
    this._queue = [];
    this._isHandling = false;
    this._socket = null;
    this._isOpen = false;
    this._at = 0;
    this._pause = FIRST_PAUSE;
    this._lostAt = Date.now();
    this._times = { stay, openWithin, alive };
    this._timer = null; // when to ask a silent node, or to give it up
    this._failure = null;
    this._dial();
  }

  /**
   * Publish; resolves to the message's id when it is durable at a node.
   * `headers` and `contentType` travel with it, `key` makes a repetition known.
   * @param {string} group @param {string | Uint8Array} body
   * @param {{key?: string, headers?: Object<string, string>, contentType?: string}} options
   * @returns {Promise<string>}
   */
  async publish(group, body, { key = "", headers = {}, contentType = "" } = {}) {
    const id = ++this._number;
    const request = { do: "publish", id, group, key: key || `${this._key}-${id}` };
    Object.assign(request, { headers, content_type: contentType });
    const answer = await this._ask(id, withBody(request, body), true);
    note(this._past, group, answer.message);
    return answer.message;
  }

  /**
   * Call `handler` with the messages of these groups, one after the other, in causal order.
   * Where no node has kept what came while the client was away, it cannot go on. Without `onGap`
   * that is its end; with it, it begins anew in that group as `since` says, and then `onGap` gets
   * the refusal. What came before has to be had from elsewhere, and with "kept" some comes again.
   * `onRefused` gets the refusal of a group that was removed, or that the client may read no longer;
   * the others go on without it.
   * @param {string[]} groups @param {(message: Message) => unknown} handler
   * @param {{since?: "now" | "kept", onGap?: (error: CausalcastError) => unknown,
   *   onRefused?: (error: CausalcastError) => unknown}} options
   */
  async subscribe(groups, handler, { since = "now", onGap = null, onRefused = null } = {}) {
    for (const group of groups) {
      this._groups.set(group, { handler, since, onGap, onRefused, gap: null });
    }
    const request = this._subscription(groups, since);
    this._noteSubscribed(await this._ask(request.id, JSON.stringify(request), false));
  }

  /** Whether it is connected now. @returns {boolean} */
  get isOpen() {
    return this._isOpen;
  }

  /** What this client may do: `publish` and `subscribe`, lists of groups. */
  async groups() {
    const id = ++this._number;
    return this._ask(id, JSON.stringify({ do: "groups", id }), false);
  }

  /** Make a group, if the token allows it; resolves when that is durable at the node. */
  async createGroup(group) {
    const id = ++this._number;
    await this._ask(id, JSON.stringify({ do: "create_group", id, group }), false);
    this._past[group] ??= {};
  }

  /** Let there be no such group any more, at any node, if the token allows it. */
  async removeGroup(group) {
    const id = ++this._number;
    await this._ask(id, JSON.stringify({ do: "remove_group", id, group }), false);
    delete this._past[group];
  }

  /** Where this client is, as data: `connect(…, {position})` goes on there. */
  position() {
    return structuredClone({ seen: this._seen, past: this._past, log: this._log });
  }

  /** Hang up. */
  close() {
    this._fail(new CausalcastError("closed", "the connection was closed"), false);
    this._socket?.close();
  }

  _ask(id, frame, isPublication) {
    if (this._failure) return Promise.reject(this._failure);
    return new Promise((resolve, reject) => {
      const asked = { frame, isPublication, node: null, resolve, reject };
      this._asked.set(id, asked);
      if (this._isOpen) this._send(asked);
    });
  }

  _send(asked) {
    asked.node = this.node;
    this._socket.send(asked.frame);
  }

  _subscription(groups, since) {
    const seen = {};
    for (const group of groups) if (group in this._seen) seen[group] = this._seen[group];
    return { do: "subscribe", id: ++this._number, groups, seen, log: this._log, since };
  }

  _noteSubscribed(answer) {
    this._log = answer.log;
    for (const [group, seen] of Object.entries(answer.seen)) {
      this._seen[group] ??= seen;
      this._past[group] ??= {}; // a node that has not heard of it yet is behind this client
    }
  }

  _dial() {
    if (this._failure) return;
    const socket = new WebSocket(this._urls[this._at]);
    socket.binaryType = "arraybuffer";
    this._socket = socket;
    socket.onopen = () => {
      const words = { do: "hello", version: VERSION, token: this._token, name: this._name };
      socket.send(JSON.stringify({ ...words, past: this._past, binary: true }));
    };
    socket.onmessage = (event) => {
      if (this._isOpen) this._expectWords(); // before the welcome there is one time for all of it
      this._heard(...split(event.data));
    };
    socket.onclose = () => this._lost();
    this._timer = setTimeout(() => this._abandon(), this._times.openWithin);
  }

  /** A node that stands still answers nothing, and its connection stays open. */
  _expectWords() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      const id = ++this._number;
      this._socket.send(JSON.stringify({ do: "presence", id })); // any answer will do
      this._timer = setTimeout(() => this._abandon(), this._times.alive);
    }, this._times.alive);
  }

  /** Hang up without waiting for the other end. */
  _abandon() {
    const socket = this._socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this._lost();
  }

  _lost() {
    clearTimeout(this._timer);
    if (this._isOpen) this._lostAt = Date.now();
    this._isOpen = false;
    this._queue = []; // all that was not handled comes again
    this._asked.delete(this._again); // the next node is told a newer position
    if (this._failure) return;
    const waits = [...this._asked.values()].some((one) => one.isPublication && one.node !== null);
    const stays = waits && Date.now() - this._lostAt <= this._times.stay;
    if (!stays) this._at = (this._at + 1) % this._urls.length;
    setTimeout(() => this._dial(), this._pause);
    this._pause = Math.min(2 * this._pause, LONGEST_PAUSE);
  }

  _welcomed(welcome) {
    this.node = welcome.node;
    this._isOpen = true;
    this._pause = FIRST_PAUSE;
    this._expectWords();
    for (const [id, asked] of [...this._asked]) {
      if (asked.isPublication && asked.node !== null && asked.node !== this.node) {
        const text = `node ${asked.node} is gone, and node ${this.node} cannot know whether it did`;
        this._asked.delete(id);
        asked.reject(new CausalcastError("unanswered", text));
      } else {
        this._send(asked);
      }
    }
    this._readAgain();
  }

  _readAgain() {
    const anew = [...this._groups.values()].filter((one) => one.gap);
    const known = [...this._groups.keys()].filter(
      (group) => group in this._seen || this._groups.get(group).gap,
    );
    if (!known.length) return;
    const since = anew.some((one) => one.since === "now") ? "now" : "kept"; // of those alone
    const request = this._subscription(known, since); // one, so that all come in one order
    this._again = request.id;
    this._ask(request.id, JSON.stringify(request), false).then(
      (answer) => {
        this._noteSubscribed(answer);
        for (const one of anew) one.onGap(one.gap);
        for (const one of anew) one.gap = null;
      },
      (error) => {
        const refused = error.code !== "gap" && this._groups.get(error.group);
        if (refused) {
          // It was removed, or may be read no longer: the others go on without it.
          this._groups.delete(error.group);
          delete this._seen[error.group];
          (refused.onRefused ?? console.error)(error);
          return this._readAgain();
        }
        const lacking = error.code === "gap" && this._groups.get(error.group);
        if (!lacking?.onGap) return this._fail(error);
        delete this._seen[error.group];
        lacking.gap = error;
        this._readAgain();
      },
    );
  }

  _heard(said, body) {
    if (said.do === "welcome") this._welcomed(said);
    else if (said.do === "message") this._arrived(new Message(said, body));
    else if (said.do === "refusal" && said.id === 0) {
      if (FINAL.includes(said.code)) this._fail(new CausalcastError(said.code, said.error));
    } else this._answered(said);
  }

  _answered(said) {
    const asked = this._asked.get(said.id);
    if (!asked || said.code === "stopping") return; // asked again when the node is back
    this._asked.delete(said.id);
    if (said.do === "refusal") asked.reject(new CausalcastError(said.code, said.error, said.group));
    else asked.resolve(said);
  }

  _arrived(message) {
    note(this._past, message.group, message.id);
    this._queue.push(message);
    if (!this._isHandling) this._handleAll();
  }

  async _handleAll() {
    this._isHandling = true;
    while (this._queue.length) {
      const message = this._queue.shift();
      const socket = this._socket;
      try {
        if (isBehind(this._seen, message)) {
          await this._groups.get(message.group)?.handler(message);
          note(this._seen, message.group, message.id);
        }
      } catch (error) {
        console.error(error);
        socket.close(); // it comes again, and nothing before it
        this._queue = [];
        continue;
      }
      if (this._isOpen && socket === this._socket) {
        socket.send(JSON.stringify({ do: "ack", messages: [message.id] }));
      }
    }
    this._isHandling = false;
  }

  _fail(error, tell = true) {
    this._failure ??= error;
    clearTimeout(this._timer);
    for (const asked of this._asked.values()) asked.reject(error);
    this._asked.clear();
    if (tell) this.onfailure(error);
  }
}

function note(position, group, id) {
  const [origin, number] = id.split(".");
  position[group] ??= {};
  position[group][origin] = Math.max(position[group][origin] ?? 0, Number(number));
}

function isBehind(seen, message) {
  const [origin, number] = message.id.split(".");
  return Number(number) > (seen[message.group]?.[origin] ?? 0);
}

function withBody(request, body) {
  const head = new TextEncoder().encode(JSON.stringify(request));
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const frame = new Uint8Array(4 + head.length + bytes.length);
  new DataView(frame.buffer).setUint32(0, head.length);
  frame.set(head, 4);
  frame.set(bytes, 4 + head.length);
  return frame;
}

function split(frame) {
  if (typeof frame === "string") return [JSON.parse(frame), null];
  const length = new DataView(frame).getUint32(0);
  const head = new TextDecoder().decode(new Uint8Array(frame, 4, length));
  return [JSON.parse(head), new Uint8Array(frame, 4 + length)];
}
