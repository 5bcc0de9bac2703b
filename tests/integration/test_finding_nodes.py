"""Commands find their node in every layout, and programs that open nodes are told what is wrong."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, free_ports, take, until

import causalcast
from causalcast.cli.main import main
from causalcast.errors import NodeError
from causalcast.runtime.operating.node_folders import find_node

TOML = """
[node]
id = {node}
listen = "127.0.0.1:{port}"
[protocol]
name = "vector_clock_broadcast"
[overlay]
kind = "full_mesh"
[groups]
all = "*"
[security]
tls = false
[storage]
path = "data"
"""


def lay_out(folder: Path, node: int | str) -> Path:
    folder.mkdir(parents=True)
    path = folder / "node.toml"
    path.write_text(TOML.format(node=node, port=free_ports(1)[0]))
    return path


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main([*words])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("cluster/node-7", ["--dir", "cluster", "--node", "7"]),
        ("cluster/node-7", ["--dir", "cluster"]),
        ("cluster/node-7", ["--dir", "cluster/node-7"]),
        ("var/lib/causalcast/berlin-1", ["--dir", "var/lib/causalcast", "--node", "berlin-1"]),
        ("var/lib/causalcast/berlin-1", ["--dir", "var/lib/causalcast", "--node", "7"]),
        ("one", ["--dir", "one", "--node", "7"]),
        ("causalcast-cluster/node-7", []),
        (".here/..", []),
    ],
)
def test_a_node_that_a_program_opened_is_found_in_every_layout(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = lay_out(tmp_path / where, 7) if ".." not in where else lay_out(tmp_path / "x", 7)
    if ".." in where:
        monkeypatch.chdir(path.parent)

    async def story() -> None:
        async with causalcast.open(path) as node:
            for command in (["pub", "all", "hello"], ["status", "--json"], ["explain", "7.1"]):
                code, said = await asyncio.to_thread(asked, capsys, *command, *arguments)
                assert code == 0, said
            code, said = await asyncio.to_thread(asked, capsys, "doctor", str(path), "--json")
            assert code == 0, said
            code, said = await asyncio.to_thread(asked, capsys, "leave", *arguments)
            assert code == 0, said
            await asyncio.wait_for(node.wait_stopped(), 10)
        assert not [*path.parent.glob("*.sock")]

    asyncio.run(story())


def test_nodes_that_are_not_there_are_told_with_those_that_are(tmp_path: Path) -> None:
    for node in (1, 2):
        lay_out(tmp_path / f"node-{node}", node)
    with pytest.raises(NodeError, match=r"no node 9 there \(there are: 1, 2\)"):
        find_node(tmp_path, "9")
    with pytest.raises(NodeError, match="several nodes"):
        find_node(tmp_path, None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NodeError, match=r"no node\.toml and no control socket"):
        find_node(tmp_path / "empty", None)
    with pytest.raises(NodeError, match="no such folder"):
        find_node(tmp_path / "nowhere", "1")


def test_all_public_names_are_listed() -> None:
    assert {*causalcast.__all__} <= {*dir(causalcast)}
    assert all(hasattr(causalcast, name) for name in ("open", "open_sync", "Node"))


def test_a_node_that_was_stopped_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        node = Neighbourhood(tmp_path, 1).node(1)
        async with node:
            with pytest.raises(NodeError, match=r"'1\.1' is no id of a message"):
                node.explain("1.1")  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="was stopped"):
            await node.start()

    asyncio.run(story())


def test_publishing_from_another_loop_publishes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Neighbourhood(tmp_path, 1).node(1) as node:
            group = node.group("all")

            def elsewhere() -> None:
                asyncio.run(group.publish(b"from another loop"))  # type: ignore[arg-type]

            with pytest.raises(NodeError, match="nothing was published"):
                await asyncio.to_thread(elsewhere)
            await group.publish(b"from its own")
            assert await take(group, 1) == [b"from its own"]
            assert node.status()["published"] == {"all": 1}

    asyncio.run(story())


def test_a_forked_child_does_not_hold_the_journal(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)

    async def story() -> int:
        async with town.node(1) as node:
            await node.group("all").publish(b"before")
            child = os.fork()
            if child == 0:
                signal.pause()
                os._exit(0)
        again = town.node(1)
        try:
            await again.start()
            await until(lambda: again.status()["starts"] == 2)
            await again.stop()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return child

    assert asyncio.run(story()) > 0


def test_json_of_a_node_whose_id_is_new_in_every_life(tmp_path: Path) -> None:
    path = lay_out(tmp_path / "guest", '"new"')
    assert find_node(tmp_path, "guest").name == find_node(path.parent, None).name == "new"
    assert json.loads(json.dumps(find_node(path.parent, "new").name)) == "new"
