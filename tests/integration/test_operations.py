"""What whoever runs nodes relies on: the doctor, numbers over HTTP, logs, restarts one by one."""

import asyncio
import contextlib
import json
import logging
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from loopback_nodes import PATIENCE, Neighbourhood, free_ports, take, until

from causalcast import Node
from causalcast.cli.main import main
from causalcast.errors import NodeError
from causalcast.judge import judge
from causalcast.runtime.observing.node_logging import JsonLines
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster
from causalcast.trace.gather import gather
from causalcast.trace.node_log import read_log
from causalcast.trace.schema import KINDS

Findings = dict[str, tuple[str, str]]


def doctor(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, Findings]:
    """The exit code, and what was found by what it is about."""
    code = main(["doctor", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    return code, {one["about"]: (one["state"], one["text"]) for one in found}


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path / "nodes", ClusterPlan(nodes=2, overlay="line"))


def test_the_doctor_tells_a_healthy_node_from_its_troubles(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it ran, while it runs, with a damaged journal, with a wrong file."""
    config = cluster.config_of(1)
    code, found = doctor(capsys, config)
    assert code == 0
    assert found["journal"][1].endswith("the node has never started here")
    assert found["process"] == ("ok", "not running")
    assert found["node 2"] == ("warning", f"{cluster.addresses[2]}: Connection refused")
    try:
        cluster.start_all()
        cluster.ask(1, "publish", group="all", text="hello")
        deadline = time.monotonic() + PATIENCE
        while cluster.ask(1, "status")["links"] != [2]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        code, found = doctor(capsys, config)
        assert code == 0
        del found["disk"]  # this machine may be short of room, or slow
        assert {about for about, (state, _) in found.items() if state != "ok"} == set()
        assert "links to [2]" in found["process"][1]
        assert found["node 2"][1].endswith("answers")
    finally:
        cluster.stop_all()
    journal = cluster.folder_of(1) / "data/journal"
    content = journal.read_bytes()
    assert "entries intact, 1 starts" in doctor(capsys, config)[1]["journal"][1]
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 4
    journal.write_bytes(damaged)
    code, found = doctor(capsys, config)
    assert code == 1
    assert found["journal"][0] == "problem"
    assert f"damaged at byte {len(content) // 2} (bit 2 flipped), in" in found["journal"][1]
    assert journal.read_bytes() == damaged  # it changes nothing
    config.write_text(config.read_text().replace('"line"', '"knot"'))
    code, found = doctor(capsys, config)
    assert (code, found["configuration"][0]) == (1, "problem")


def test_a_port_that_somebody_else_has_is_a_problem(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        host, port = cluster.addresses[1].split(":")
        async with await asyncio.start_server(lambda r, w: None, host, int(port)):
            code, found = doctor(capsys, cluster.config_of(1))
            assert code == 1
            assert found["address"][0] == "problem"

    asyncio.run(story())


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def test_numbers_are_served_over_http(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    more = f'[metrics]\nlisten = "127.0.0.1:{port}"'
    town = Neighbourhood(tmp_path, 1, more=more)

    async def story() -> None:
        async with town.node(1) as node:
            await node.group("all").publish(b"counted")
            text = await asyncio.to_thread(get, port, "/metrics")
            assert 'causalcast_published_total{node="1",group="all"} 1' in text
            assert 'causalcast_log_fsync_seconds_count{node="1"} ' in text
            with pytest.raises(urllib.error.HTTPError, match="404"):
                await asyncio.to_thread(get, port, "/")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * 100_000)  # no request at all: hung up on, and nothing else
            try:
                answer = await asyncio.wait_for(reader.read(), 3)
            except ConnectionError:
                answer = b""
            assert answer == b""
            writer.close()
            assert await asyncio.to_thread(get, port, "/healthz") == "ok\n"
            assert await asyncio.to_thread(get, port, "/readyz") == "ready\n"
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            assert "causalcast_links" in await asyncio.to_thread(get, port, "/metrics")
            for _, one in silent:
                one.close()
            with pytest.raises(NodeError, match=r"another process has it.*\[metrics\] listen"):
                await Neighbourhood(tmp_path / "other", 1, more=more).node(1).start()
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(get, port, "/metrics")

    asyncio.run(story())


@pytest.mark.parametrize("error", [NodeError("no way in"), asyncio.CancelledError()])
def test_a_node_that_nobody_can_control_is_stopped_again(
    tmp_path: Path, error: BaseException
) -> None:
    """Whoever started it has no handle on it: it keeps neither port, storage nor metrics."""
    (port,) = free_ports(1)
    town = Neighbourhood(tmp_path, 1, more=f'[metrics]\nlisten = "127.0.0.1:{port}"')

    @contextlib.asynccontextmanager
    async def fails(_: Node) -> AsyncIterator[None]:
        raise error
        yield

    async def story() -> None:
        node = Node(town.config(1), control=fails)
        with pytest.raises(type(error)):
            await node.start()
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(get, port, "/healthz")
        async with town.node(1) as again:
            await again.group("all").publish(b"as if nothing had been")

    asyncio.run(story())


def test_log_lines_as_json() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("a.b", logging.WARNING, "f.py", 1, "link to %s", (3,), error)
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["logger"], line["text"]) == ("warning", "a.b", "link to 3")
    assert "ValueError: why" in line["traceback"]


def test_an_acknowledgement_may_be_waited_for(tmp_path: Path) -> None:
    """A crash right after `ack(durable=True)` hands nothing over again; without it, it may."""
    town = Neighbourhood(tmp_path, 1)

    async def first_life() -> None:
        node = town.node(1)
        await node.start()
        for text in (b"one", b"two", b"three"):
            await node.group("all").publish(text)
        group = node.group("all")
        messages = [await anext(group) for _ in range(3)]
        await asyncio.gather(*(message.ack(durable=True) for message in messages[:2]))
        await messages[2].ack()
        node._running().fail(NodeError("somebody pulled the plug"), "a test")
        with pytest.raises(NodeError, match="pulled the plug"):
            await node.wait_stopped()

    async def second_life() -> None:
        async with town.node(1) as node:
            assert await take(node.group("all"), 1) == [b"three"]
            await until(lambda: node.status()["unacknowledged"] == 0)

    asyncio.run(first_life())
    asyncio.run(second_life())


@pytest.mark.slow
def test_a_node_that_hangs_is_suspected_and_trusted_again(tmp_path: Path) -> None:
    """SIGSTOP leaves its links open: only missing beats tell. It catches up and suspects nobody."""
    plan = ClusterPlan(nodes=3, overlay="line", trace_level="full")
    cluster = LocalCluster(tmp_path / "nodes", plan)

    def beliefs(watcher: int) -> list[tuple[str, int]]:
        log = read_log(cluster.folder_of(watcher) / f"trace/node-{watcher}.nodelog")
        told = [(KINDS[row[1]], row[4]) for row in log.rows]
        return [belief for belief in told if belief[0] in ("suspect", "trust")]

    def wait_for(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    try:
        cluster.start_all()
        wait_for(lambda: cluster.ask(2, "status")["links"] in ([1, 3], [3, 1]))
        before = {node: len(beliefs(node)) for node in cluster.ids}
        cluster.pause(2)
        for number in range(5):
            cluster.ask(1, "publish", group="all", text=f"number {number}")
        told = {1: [("suspect", 2)], 3: [("suspect", 2)]}
        wait_for(lambda: all(beliefs(w)[before[w] :] == told[w] for w in told))
        assert cluster.ask(1, "status")["links"] == [2]
        cluster.resume(2)
        wait_for(lambda: cluster.ask(3, "status")["delivered"] == {"all": 5})
        told = {watcher: [("suspect", 2), ("trust", 2)] for watcher in told}
        wait_for(lambda: all(beliefs(w)[before[w] :] == told[w] for w in told))
        assert beliefs(2)[before[2] :] == []
    finally:
        assert cluster.stop_all() == []
    run = gather([cluster.folder], tmp_path / "run")
    assert {name: rows for name, rows in judge(run).violations.items() if rows} == {}


@pytest.mark.slow
def test_nodes_are_restarted_one_by_one_under_load(tmp_path: Path) -> None:
    """Every node is stopped in good order and started again while all publish: nothing is lost."""
    program = (sys.executable, "-m", "causalcast.cli.run.demo_node")
    groups = {"all": [1, 2, 3], "pair": [1, 3]}
    plan = ClusterPlan(nodes=3, overlay="line", groups=groups, command=program)
    cluster = LocalCluster(tmp_path / "nodes", plan)

    def lacking() -> dict[str, int]:
        """How many deliveries are still missing, and how many there are to be."""
        statuses = [cluster.ask(node, "status") for node in cluster.ids]
        published = {g: sum(s["published"].get(g, 0) for s in statuses) for g in groups}
        due = sum(published[group] for status in statuses for group in status["groups"])
        return {"missing": due - sum(sum(s["delivered"].values()) for s in statuses), "due": due}

    try:
        cluster.start_all()
        for node in cluster.ids:
            time.sleep(0.3)
            cluster.stop(node)
            cluster.come_back(node)
        for node in cluster.ids:
            cluster.ask(node, "be_quiet")
        deadline = time.monotonic() + PATIENCE
        before = None
        # Twice the same: no answer to a late message is under way any more.
        while (now := lacking())["missing"] or now != before:
            assert time.monotonic() < deadline, now
            before = now
            time.sleep(0.3)
    finally:
        assert cluster.stop_all() == []
    run = gather([cluster.folder], tmp_path / "run")
    assert {name: rows for name, rows in judge(run).violations.items() if rows} == {}
    kinds = run.events["kind"].to_pylist()
    assert (kinds.count("recover"), kinds.count("crash")) == (3, 0)
