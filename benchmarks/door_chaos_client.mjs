// One client of `door_chaos.py`, under Node: publishes, reads, and writes down what it sees.
//
//   node --experimental-websocket door_chaos_client.mjs CAUSALCAST_JS NAME LOG TIMES URL...
//
// A line on stdin is a command: `cut` breaks the connection, `enough` ends publishing. Ten times a
// second it prints how far it is. It ends with its stdin.

import fs from "node:fs";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const [script, name, path, times, ...urls] = process.argv.slice(2);
const { connect } = await import(pathToFileURL(script));
const GROUPS = ["acl", "posts"];
const log = fs.openSync(path, "a");
const far = { published: 0, sure: 0, handled: 0, enough: false, failure: "" };
let place = 0;

function write(line) {
  const row = { node: name, pos: place, at_us: Date.now() * 1000, ...line };
  fs.writeSync(log, `${JSON.stringify(row)}\n`);
  return `${name}-${place++}`;
}

const node = connect(urls, "", { name, ...JSON.parse(times) });
node.onfailure = (error) => (far.failure = `${error.code}: ${error.message}`);

async function publish() {
  const group = GROUPS[Math.floor(Math.random() * GROUPS.length)];
  const id = write({ kind: "publish", message: `${name}-${place}`, group });
  far.published += 1;
  await node.publish(group, id);
  far.sure += 1;
}

function handle(message) {
  write({ kind: "deliver", message: message.text(), group: message.group });
  far.handled += 1;
}

async function live() {
  for (const group of GROUPS) write({ kind: "join", group });
  await node.subscribe(GROUPS, handle, { since: "kept" });
  while (!far.enough) {
    await publish();
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
  }
}

live().catch((error) => (far.failure = `${error.code}: ${error.message}`));
setInterval(() => process.stdout.write(`${JSON.stringify(far)}\n`), 100);
readline
  .createInterface({ input: process.stdin })
  .on("line", (word) => {
    if (word === "cut") node._socket?.close();
    else if (word === "enough") far.enough = true;
  })
  .on("close", () => process.exit(0));
