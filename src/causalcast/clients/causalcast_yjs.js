// A document of Yjs that a group of causalcast shares. One file, nothing to build; `yjs` is found by
// an import map, by Node or by a bundler, and so is `y-protocols` if there is an awareness.
//
//   import * as Y from "yjs";
//   import { connect } from "./causalcast.js";
//   import { CausalcastProvider } from "./causalcast_yjs.js";
//   const client = connect(["wss://one:7500", "wss://two:7500"], token, { stay: 0 });
//   const provider = new CausalcastProvider(client, "doc", new Y.Doc());
//   await provider.synced;
//
// Edits become publications; several that wait become one. Who comes late gets what its node has
// kept, and asks for the rest by a question in the group. Who has the whole document answers. What
// the newcomer's node had delivered before comes before the question in causal order, so it is in
// every answer; what is published later comes to the newcomer by itself. So one answer is enough.

import * as Y from "yjs";

const PIECE = 1 << 19; // bytes of one message; a node takes 1 MiB
const PIECES = 20; // things that may come in pieces at a time
const MERGED_AT = 100; // updates that wait for a connection
const ANSWER_WITHIN = 200; // milliseconds; at random, so that mostly one answers
const ALONE_AFTER = 3000; // then nobody is there, and what was kept is the document
const AWARENESS_EVERY = 200; // cursors move quickly, and every node keeps each message
const OUTDATED = 30000; // of an awareness, as y-protocols has it

/** Keeps a document equal to those of all others in a group. */
export class CausalcastProvider {
  /**
   * @param {import("./causalcast.js").Client} client
   * @param {string} group @param {Y.Doc} doc
   * @param {{awareness?: object, also?: Object<string, (message: object) => unknown>,
   *   keeps?: boolean, aloneAfter?: number}} options an Awareness of y-protocols; handlers of other
   *   groups that are read in one causal order with the document; whether it has the document
   *   already, and was never away; after how many milliseconds without an answer nobody is there
   */
  constructor(client, group, doc, options = {}) {
    const { awareness = null, also = {}, keeps = false, aloneAfter = ALONE_AFTER } = options;
    this.doc = doc;
    this.awareness = awareness;
    this.isWhole = keeps; // it answers others
    this.onfailure = (error) => console.error(error); // what it publishes or reads is refused
    this._isSure = keeps; // it was answered by somebody who is, so others need not answer
    this._client = client;
    this._group = group;
    this._me = `${doc.clientID}`;
    this._number = 0; // of what was published
    this._aloneAfter = aloneAfter;
    this._updates = Y.encodeStateVector(doc).length > 1 ? [Y.encodeStateAsUpdate(doc)] : [];
    this._asking = new Map(); // who: the state vector
    this._pieces = new Map(); // name of what comes in pieces: those that are there
    this._isPublishing = false;
    this._waiting = []; // who waits until nothing is to be published: {resolve, reject}
    this._alone = null;
    this._moved = null; // when to publish the awareness
    this._isOver = false;
    this.synced = new Promise((resolve) => (this._resolveSynced = resolve));
    this._onUpdate = (update, origin) => origin !== this && this._publish(update);
    this._onAwareness = (_, origin) => origin === "local" && this._awarenessSoon();
    doc.on("update", this._onUpdate);
    this._start(also).catch((error) => this.onfailure(error));
  }

  /** Resolves when every edit that was made here is durable at a node. */
  saved() {
    if (!this._isPublishing && !this._updates.length) return Promise.resolve();
    return new Promise((resolve, reject) => this._waiting.push({ resolve, reject }));
  }

  /** Publish and read nothing more. The client stays connected. */
  async destroy() {
    clearTimeout(this._alone);
    clearTimeout(this._moved);
    this.doc.off("update", this._onUpdate);
    this.awareness?.off("update", this._onAwareness);
    this._isOver = true;
    if (!this._coding) return;
    this._coding.removeAwarenessStates(this.awareness, [this.doc.clientID], this);
    await this._sayAwareness();
  }

  async _start(also) {
    if (this.awareness) {
      this._coding = await import("y-protocols/awareness");
      this.awareness.on("update", this._onAwareness);
    }
    const handle = (message) =>
      message.group === this._group ? this._arrived(message) : also[message.group](message);
    const onGap = (error) => (error.group === this._group ? this._ask() : this.onfailure(error));
    const groups = [this._group, ...Object.keys(also)];
    await this._client.subscribe(groups, handle, { since: "kept", onGap });
    if (this.isWhole) this._becomeWhole("keeps");
    else this._ask();
    this._publish();
    if (this.awareness) this._awarenessSoon();
  }

  _ask() {
    this.isWhole = this._isSure = false;
    clearTimeout(this._alone);
    this._say("question", Y.encodeStateVector(this.doc)).then(
      () => (this._alone = setTimeout(() => this._becomeWhole("kept"), this._aloneAfter)),
      (error) => this.onfailure(error),
    );
  }

  _becomeWhole(from) {
    clearTimeout(this._alone);
    this.isWhole = true;
    this._resolveSynced(from); // "answer"; "kept" if nobody was there to ask; or "keeps"
  }

  _arrived(message) {
    const { yjs: kind, from, to, unsure } = message.headers;
    if (this._isOver || !kind || from === this._me) return;
    const body = this._whole(message);
    if (!body) return;
    if (kind === "update" || kind === "answer") Y.applyUpdate(this.doc, body, this);
    if (kind === "answer" && to === this._me) {
      this._isSure ||= !unsure;
      this._becomeWhole("answer");
    } else if (kind === "answer" && !unsure) {
      this._asking.delete(to); // somebody was quicker
    } else if (kind === "question" && this.isWhole) {
      this._asking.set(from, body);
      setTimeout(() => this._asking.has(from) && this._publish(), Math.random() * ANSWER_WITHIN);
    } else if (kind === "awareness" && this._coding && Date.now() - message.publishedAt < OUTDATED) {
      this._coding.applyAwarenessUpdate(this.awareness, body, this);
    }
  }

  /** All of something that comes in pieces; null as long as some are missing. */
  _whole(message) {
    const { piece, of } = message.headers;
    if (!piece) return message.body;
    const [number, count] = piece.split("/").map(Number);
    const pieces = this._pieces.get(of) ?? [];
    this._pieces.set(of, pieces);
    pieces[number - 1] = message.body;
    const isLast = number === count;
    if (!isLast && this._pieces.size <= PIECES) return null;
    const name = isLast ? of : this._pieces.keys().next().value;
    this._pieces.delete(name);
    if (isLast && Object.keys(pieces).length === count) return joined(pieces);
    this._ask(); // it began before we came, and the answers may have been made before it ended
    return null;
  }

  async _publish(update = null) {
    if (update) this._updates.push(update);
    if (this._updates.length > MERGED_AT) this._updates = [Y.mergeUpdates(this._updates)];
    if (this._isPublishing) return;
    this._isPublishing = true;
    let updates = [];
    try {
      while (this._updates.length || this._asking.size) {
        // An answer has nothing that was not published before it: if this page dies between the
        // two, the newcomer would be the only one to have it.
        const answers = [...this._asking].map(([to, v]) => [to, Y.encodeStateAsUpdate(this.doc, v)]);
        updates = this._updates.splice(0);
        if (updates.length) await this._say("update", Y.mergeUpdates(updates));
        updates = [];
        for (const [to, answer] of answers) {
          const doubt = this._isSure ? {} : { unsure: "yes" };
          if (this._asking.delete(to)) await this._say("answer", answer, { to, ...doubt });
        }
      }
      for (const { resolve } of this._waiting.splice(0)) resolve();
    } catch (error) {
      this._updates.unshift(...updates); // they go with the next edit
      for (const { reject } of this._waiting.splice(0)) reject(error);
      this.onfailure(error);
    }
    this._isPublishing = false;
  }

  _awarenessSoon() {
    this._moved ??= setTimeout(() => {
      this._moved = null;
      this._sayAwareness().catch((error) => this.onfailure(error));
    }, AWARENESS_EVERY);
  }

  _sayAwareness() {
    const { awareness, doc } = this;
    return this._say("awareness", this._coding.encodeAwarenessUpdate(awareness, [doc.clientID]));
  }

  async _say(kind, body, others = {}) {
    const headers = { yjs: kind, from: this._me, ...others };
    const count = Math.ceil(body.length / PIECE);
    if (count > 1) headers.of = `${this._me}-${++this._number}`;
    for (let number = 1; number <= count; ) {
      const piece = body.subarray((number - 1) * PIECE, number * PIECE);
      if (count > 1) headers.piece = `${number}/${count}`;
      try {
        await this._client.publish(this._group, piece, { headers: { ...headers } });
        number += 1;
      } catch (error) {
        if (error.code !== "unanswered") throw error; // else again: all of it may come twice
      }
    }
  }
}

function joined(pieces) {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
