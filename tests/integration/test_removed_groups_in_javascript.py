"""`causalcast.js` under Node: a group that is removed ends its own reading, and no other."""

import asyncio
import shutil
from pathlib import Path

import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE

import causalcast.clients

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
STORY = """
import { connect } from "./causalcast.mjs";
const node = connect([process.argv[2]], "", { name: "page" });
node.onfailure = (error) => { console.log("failed", error.message); process.exit(1); };
const heard = (message) => console.log("heard", message.group, message.text());
await node.createGroup("doc/1");
await node.subscribe(["all"], heard);
const onRefused = (error) => console.log("refused", error.code, error.group);
await node.subscribe(["doc/1"], heard, { onRefused });
await node.publish("doc/1", "one");
console.log("ready");
process.stdin.once("data", () => {
  node._socket.close();
  process.stdin.once("data", () => process.exit(0));
});
"""


def test_it_goes_on_in_its_other_groups(tmp_path: Path) -> None:
    """Before, the first refusal was the end of the client."""
    script = tmp_path / "story.mjs"
    script.write_text(STORY)
    clients = Path(causalcast.clients.__file__).parent
    shutil.copy(clients / "causalcast.js", tmp_path / "causalcast.mjs")
    doors = Doors(tmp_path / "nodes", 1, groups='all = "*"\n"doc/*" = "*"')

    async def tell() -> None:
        async with doors.running() as (node,):
            page = await asyncio.create_subprocess_exec(
                *("node", "--no-warnings", "--experimental-websocket", script, doors.url(1)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert page.stdin is not None and page.stdout is not None
            try:
                first = {(await page.stdout.readline()).decode() for _ in range(2)}
                assert first == {"ready\n", "heard doc/1 one\n"}
                await node.remove_group("doc/1")
                page.stdin.write(b"cut\n")
                assert await page.stdout.readline() == b"refused no_group doc/1\n"
                async with causalcast.connect(doors.url(1)) as other:
                    await other.group("all").publish(b"two")
                assert await page.stdout.readline() == b"heard all two\n"
                page.stdin.write(b"end\n")
                assert await page.wait() == 0
            finally:
                if page.returncode is None:
                    page.kill()
                    await page.wait()

    asyncio.run(asyncio.wait_for(tell(), PATIENCE))
