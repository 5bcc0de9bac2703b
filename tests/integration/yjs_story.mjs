// Stories of two or three people and one document, under Node, for test_yjs_provider.py.
//
//   node --experimental-websocket yjs_story.mjs STORY PATIENCE URL...
//
// It lies beside causalcast.mjs and causalcast_yjs.mjs. It prints what became of it as JSON.

import * as Y from "yjs";
import { connect } from "./causalcast.mjs";
import { CausalcastProvider } from "./causalcast_yjs.mjs";

const [story, patience, ...urls] = process.argv.slice(2);
const PATIENCE = Number(patience); // milliseconds
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

class Person {
  constructor(name, url, options = {}) {
    this.name = name;
    this.client = connect(url, "", { name, stay: 0, openWithin: 1000 });
    this.doc = new Y.Doc();
    this.text = this.doc.getText("t");
    this.failures = [];
    this.provider = new CausalcastProvider(this.client, "all", this.doc, options);
    this.provider.onfailure = (error) => this.failures.push(`${error.code}: ${error.message}`);
  }

  type(words) {
    this.text.insert(this.text.length, words);
  }

  async away() {
    this.urls = this.client._urls;
    this.client._urls = ["ws://127.0.0.1:9"]; // nobody is there
    this.client._socket.close();
    while (this.client.isOpen) await wait(5);
  }

  back() {
    this.client._urls = this.urls;
  }
}

async function equal(...people) {
  const deadline = Date.now() + PATIENCE;
  const texts = () => new Set(people.map((one) => one.text.toString()));
  while (texts().size > 1 && Date.now() < deadline) await wait(20);
  return texts().size === 1;
}

const stories = {
  // More is written than the nodes keep; who comes late gets the rest from whoever has it.
  async late() {
    const ada = new Person("ada", urls[0], { keeps: true });
    await ada.provider.synced;
    for (let number = 0; number < 60; number++) {
      ada.type(`${number},`);
      await ada.provider.saved();
    }
    const bob = new Person("bob", urls[1], { aloneAfter: PATIENCE });
    const from = await bob.provider.synced;
    return { equal: bob.text.toString() === ada.text.toString(), from, length: bob.text.length };
  },

  // Somebody is away for longer than the nodes keep, and writes meanwhile, too.
  async gap() {
    const ada = new Person("ada", urls[0], { keeps: true });
    const bob = new Person("bob", urls[1]);
    await bob.provider.synced;
    bob.type("here.");
    await equal(ada, bob);
    await bob.away();
    bob.type("away.");
    for (let number = 0; number < 60; number++) {
      ada.type(`${number},`);
      await ada.provider.saved();
    }
    bob.back();
    await bob.provider.saved();
    const same = await equal(ada, bob);
    return { equal: same, length: ada.text.length, failures: bob.failures };
  },

  // A text that no single message can carry.
  async large() {
    const ada = new Person("ada", urls[0], { keeps: true });
    const bob = new Person("bob", urls[1]);
    await bob.provider.synced;
    ada.type("x".repeat(1_500_000));
    const same = await equal(ada, bob);
    const cleo = new Person("cleo", urls[1], { aloneAfter: PATIENCE });
    await cleo.provider.synced;
    return { equal: same && (await equal(ada, cleo)), length: cleo.text.length };
  },

  // A program in Python keeps the document. One writes and leaves; another one comes later.
  async keeper() {
    const ada = new Person("ada", urls[0], { aloneAfter: PATIENCE });
    const first = await ada.provider.synced;
    for (let number = 0; number < 60; number++) {
      ada.type(`${number},`);
      await ada.provider.saved();
    }
    await ada.provider.destroy();
    ada.client.close();
    const bob = new Person("bob", urls[1], { aloneAfter: PATIENCE });
    const second = await bob.provider.synced;
    const same = bob.text.toString() === ada.text.toString();
    return { equal: same, first, second, sure: bob.provider._isSure, length: bob.text.length };
  },

  // Two that nobody was there to answer; then a third asks. Both answer it.
  async alone() {
    const ada = new Person("ada", urls[0], { aloneAfter: 100 });
    const first = await ada.provider.synced;
    ada.type("a");
    const bob = new Person("bob", urls[1], { aloneAfter: PATIENCE });
    const second = await bob.provider.synced;
    return { equal: await equal(ada, bob), first, second, sure: bob.provider._isSure };
  },
};

process.stdout.write(`${JSON.stringify(await stories[story]())}\n`, () => process.exit(0));
