"""The types of the JavaScript client say what is there.

Names are compared in any case. With TypeScript at hand (`npm install typescript`, and
CAUSALCAST_NODE_MODULES says where) a program that uses everything is checked with it, and programs
that are wrong are refused.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import causalcast.clients

CLIENTS = Path(causalcast.clients.__file__).parent
ROOT = Path(__file__).parents[3]
MODULES = Path(os.environ.get("CAUSALCAST_NODE_MODULES", ROOT / "node_modules"))
TSC = shutil.which("tsc") or shutil.which("tsc", path=MODULES / ".bin")
CLASS = re.compile(r"^export class (\w+).*?^\}", re.MULTILINE | re.DOTALL)
EXPORTED = re.compile(r"^export (?:class|function|const) (\w+)", re.MULTILINE)
METHOD = re.compile(r"^  (?:async |get )?([a-z]\w*)\(", re.MULTILINE)
ATTRIBUTE = re.compile(r"\bthis\.([a-z]\w*) = ")
DECLARED = re.compile(r"^  (?:readonly |get )?([a-z]\w*)[:(]", re.MULTILINE)
OPTIONS = re.compile(r"\{ (.*) \} = (?:options;|\{\}\))")
USED = """
import { CausalcastError, Client, Message, Position, connect } from "./causalcast.js";

const saved: Position = JSON.parse("{}");
const node: Client = connect(["wss://one", "wss://two"], "token", {
  name: "me", position: saved, stay: 0, openWithin: 1000, alive: 1000,
});
node.onfailure = (error: CausalcastError) => console.log(error.code, error.group, error.message);
const id: string = await node.publish("chat", new Uint8Array([1]), {
  key: "k", headers: { a: "b" }, contentType: "text/plain",
});
const onGap = (error: CausalcastError) => console.log(error.group);
await node.subscribe(["chat"], async (message: Message) => {
  const when: Date | null = message.publishedAt;
  console.log(message.id, message.group, message.body.length, message.headers.a, when,
    message.contentType, message.text());
}, { since: "kept", onGap });
await node.createGroup("doc/1");
await node.removeGroup("doc/1");
const groups: string[] = (await node.groups()).publish;
const at: Position = node.position();
console.log(id, groups, at.seen["chat"], at.past, at.log, node.isOpen, node.node);
node.close();
"""
WRONG = {
    "a body that is a number": 'await connect("wss://one").publish("chat", 1);',
    "a word that does not exist": 'await connect("u").subscribe([], () => 0, { since: "ever" });',
    "a method that does not exist": 'connect("wss://one").ask();',
    "one group instead of a list": 'await connect("wss://one").subscribe("chat", () => 0);',
}
YJS = """
import * as Y from "yjs";
import { Awareness } from "y-protocols/awareness";
import { connect } from "./causalcast.js";
import { CausalcastProvider } from "./causalcast_yjs.js";

const doc = new Y.Doc();
const provider = new CausalcastProvider(connect("wss://one"), "doc", doc, {
  awareness: new Awareness(doc), also: { acl: (message) => console.log(message.text()) },
  keeps: false, aloneAfter: 100,
});
const from: "answer" | "kept" | "keeps" = await provider.synced;
await provider.saved();
provider.onfailure = (error) => console.log(error.code, from, provider.isWhole, provider.doc);
await provider.destroy();
"""


def classes(text: str) -> dict[str, str]:
    return {found[1]: found[0] for found in CLASS.finditer(text)}


@pytest.mark.parametrize("name", ["causalcast", "causalcast_yjs"])
def test_the_types_name_all_that_is_there_and_nothing_else(name: str) -> None:
    script = (CLIENTS / f"{name}.js").read_text()
    types = (CLIENTS / f"{name}.d.ts").read_text()
    assert set(EXPORTED.findall(script)) == set(EXPORTED.findall(types))
    declared = classes(types)
    for of, body in classes(script).items():
        there = {*METHOD.findall(body), *ATTRIBUTE.findall(body)} - {"constructor"}
        assert there == set(DECLARED.findall(declared[of])) - {"constructor"}, of
    found = {word for words in OPTIONS.findall(script) for word in re.findall(r"(\w+) =", words)}
    assert found and found <= set(re.findall(r"^  (\w+)\?:", types, re.MULTILINE))


def checked(folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    for path in CLIENTS.glob("*.d.ts"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "program.ts").write_text(program)
    if not (folder / "node_modules").exists() and MODULES.is_dir():
        (folder / "node_modules").symlink_to(MODULES.resolve())
    command = [str(TSC), "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    command += ["--skipLibCheck", "--types", "", "--lib", "es2022,dom", "program.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(TSC is None, reason="there is no tsc here: npm install typescript")
def test_typescript_accepts_what_is_right_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    done = checked(tmp_path, USED)
    assert done.returncode == 0, done.stdout
    for what, line in WRONG.items():
        wrong = f'import {{ connect }} from "./causalcast.js";\n{line}\n'
        assert checked(tmp_path, wrong).returncode != 0, what


@pytest.mark.skipif(
    TSC is None or not (MODULES / "y-protocols").is_dir(),
    reason="there is no tsc or no yjs here: npm install typescript yjs y-protocols",
)
def test_typescript_accepts_the_provider(tmp_path: Path) -> None:
    done = checked(tmp_path, YJS)
    assert done.returncode == 0, done.stdout
