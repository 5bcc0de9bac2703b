"""Nodes in one process over real sockets and a real disk: what applications may rely on."""

import asyncio
import logging
import os
import threading
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, disorder, links, take, until

from causalcast.core.ids import NodeId
from causalcast.errors import ConfigError, JournalError, NodeError
from causalcast.parts.broadcast.stamped_broadcast import broadcast_of
from causalcast.runtime.links.links import Links
from causalcast.runtime.storage.journal_frames import COMPACTED
from causalcast.trace.gather import gather
from causalcast.trace.log_rows import Row
from causalcast.trace.node_log import read_log
from causalcast.trace.schema import KINDS


def test_everybody_gets_everything_in_causal_order(tmp_path: Path) -> None:
    """Questions and answers from three nodes at once, checked on the gathered run."""
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"')

    async def story() -> None:
        async with town.running() as nodes:
            groups = [node.group("all") for node in nodes]

            async def talk(number: int) -> None:
                for turn in range(30):
                    await groups[number].publish(f"{number} {turn}".encode())
                    await take(groups[number], 1)

            await asyncio.gather(*(talk(number) for number in range(3)))
            for group in groups:
                await take(group, 60)

    asyncio.run(story())
    run = gather([tmp_path], tmp_path / "run")
    assert disorder(run) == []
    assert run.events.num_rows > 3 * 90
    assert run.header.faults == {}


def test_messages_for_other_groups_are_passed_on_and_not_delivered(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"', groups="ends = [1, 3]\nmiddle = [2]")

    async def story() -> None:
        async with town.running() as (one, two, three):
            await one.group("ends").publish(b"across")
            assert await take(three.group("ends"), 1) == [b"across"]
            assert two.status()["delivered"] == {}

    asyncio.run(story())


def test_the_trace_tells_whom_the_detector_suspects(tmp_path: Path) -> None:
    """Node 2 goes away and comes back; node 1 says so, each time once."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            await two.stop()
            await until(lambda: links(one) == [])
            async with town.node(2):
                await until(lambda: links(one) == [2])
                await one.group("all").publish(b"and it goes on")

    asyncio.run(story())
    rows = gather([tmp_path], tmp_path / "run").events.to_pylist()
    told = [(row["kind"], row["peer"]) for row in rows if row["node"] == 1]
    told = [row for row in told if row[0] in ("suspect", "trust", "publish")]
    before = told[: told.index(("publish", None))]
    assert before[-2:] == [("suspect", 2), ("trust", 2)]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is not set, the disk of node 1 stands still."""
    works = threading.Event()
    works.set()
    sync = os.fdatasync

    def slow_sync(fd: int) -> None:
        if "node-1" in os.readlink(f"/proc/self/fd/{fd}"):
            works.wait(10)
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", slow_sync)
    return works


def test_nothing_is_visible_before_it_is_durable(tmp_path: Path, disk: threading.Event) -> None:
    """The disk of node 1 stands still: no frame, no row, no delivery, no answer to `publish`."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            await asyncio.sleep(0.05)  # what linking wrote is done
            disk.clear()
            publishing = asyncio.create_task(one.group("all").publish(b"slow"))
            await asyncio.sleep(0.2)
            assert not publishing.done()
            assert two.status()["delivered"] == {}
            assert one.status()["delivered"] == {}
            log = read_log(tmp_path / "node-1/trace/node-1.nodelog")
            assert "publish" not in [KINDS[row[1]] for row in log.rows]
            disk.set()
            await publishing
            assert await take(two.group("all"), 1) == [b"slow"]

    asyncio.run(story())


def test_what_depends_on_an_entry_waits_for_it_too(tmp_path: Path, disk: threading.Event) -> None:
    """Node 1 acknowledges in a later step, which has nothing to keep itself, and still must wait.

    If the acknowledgement left before the disk has the message, a crash would lose it for ever.
    """
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            neighbour = broadcast_of(two._running().parts.stack.multicast).sending.neighbours[
                NodeId(1)
            ]
            await asyncio.sleep(0.05)
            disk.clear()
            await two.group("all").publish(b"for node 1")
            await asyncio.sleep(0.2)
            assert neighbour.has.counts == {}
            disk.set()
            await until(lambda: neighbour.has.counts == {2: 1})
            assert await take(one.group("all"), 1) == [b"for node 1"]

    asyncio.run(story())


def test_publications_and_acknowledgements_survive_a_restart(tmp_path: Path) -> None:
    """What was acked does not come again, what was not does; numbers go on."""
    town = Neighbourhood(tmp_path, 1)

    async def first_life() -> None:
        async with town.running() as (node,):
            group = node.group("all")
            for text in (b"a", b"b", b"c"):
                await group.publish(text)
            await take(group, 2)
            await take(group, 1, ack=False)

    async def second_life() -> None:
        async with town.running() as (node,):
            group = node.group("all")
            assert node.status()["starts"] == 2
            assert await take(group, 1) == [b"c"]
            receipt = await group.publish(b"d")
            assert receipt.id & 0xFFFFFFFF == 4
            assert await take(group, 1) == [b"d"]

    asyncio.run(first_life())
    asyncio.run(second_life())
    rows = gather([tmp_path], tmp_path / "run").events.to_pylist()
    kinds = [row["kind"] for row in rows if row["kind"] != "note"]
    assert kinds == ["publish", "deliver"] * 3 + ["leave", "recover", "publish", "deliver", "leave"]
    assert [row["message"] & 0xFF for row in rows if row["note"] == "redelivered"] == [3]


def test_cancelling_an_iteration_loses_nothing(tmp_path: Path) -> None:
    """The reader gives up hundreds of times while messages arrive."""
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.running() as (one, two):
            numbers = [str(number).encode() for number in range(200)]

            async def write() -> None:
                for number in numbers:
                    await one.group("all").publish(number)

            writing = asyncio.create_task(write())
            found: list[bytes] = []
            cancelled = 0
            group = two.group("all")
            while len(found) < len(numbers):
                reading = asyncio.ensure_future(anext(group))
                await asyncio.sleep(0)
                if not reading.done():
                    reading.cancel()
                try:
                    message = await reading
                except asyncio.CancelledError:
                    cancelled += 1
                else:
                    found.append(message.payload)
                    await message.ack()
            await writing
            assert found == numbers
            assert cancelled > 10

    asyncio.run(story())


def test_a_slow_application_costs_disk_not_memory(tmp_path: Path) -> None:
    """The inbox may keep 100 bytes in memory; fifty times that waits, and comes in order."""
    town = Neighbourhood(tmp_path, 2, more="[limits]\ninbox_bytes = 100")

    async def story() -> None:
        async with town.running() as (one, two):
            bodies = [b"%3d" % number + b"." * 97 for number in range(50)]
            for body in bodies:
                await one.group("all").publish(body)
            await until(lambda: two.status()["waiting"] == 50)
            inbox = two._running().inbox
            kept = [w.body for w in inbox.unacknowledged.values() if w.body is not None]
            assert sum(map(len, kept)) <= 100
            assert await take(two.group("all"), 50) == bodies

    asyncio.run(story())


def test_compaction_forgets_what_is_handled_and_nothing_else(tmp_path: Path) -> None:
    """Journals are compacted again and again under load; a restart finds all that is owed."""
    more = "[limits]\ncompact_bytes = 4000\ninbox_bytes = 1000"
    town = Neighbourhood(tmp_path, 2, more=more)
    bodies = [b"%4d" % number + b"." * 96 for number in range(300)]

    async def first_life() -> None:
        async with town.running() as (one, two):
            group = one.group("all")
            await asyncio.gather(*(group.publish(body) for body in bodies))
            await until(lambda: two.status()["delivered"] == {"all": 300})
            assert await take(two.group("all"), 100) == bodies[:100]
            await take(group, 300)
            for _ in range(10):
                await asyncio.gather(*(group.publish(b"m" * 100) for _ in range(100)))
                await take(group, 100)
                await asyncio.sleep(0.03)  # the neighbour acknowledges within 10 ms
            await until(lambda: two.status()["delivered"] == {"all": 1300})

    async def second_life() -> None:
        async with town.running() as (one, two):
            assert two.status()["delivered"] == {"all": 1300}
            assert one.status()["published"] == {"all": 1300}
            assert await take(two.group("all"), 1200) == bodies[100:] + [b"m" * 100] * 1000
            receipt = await one.group("all").publish(b"last")
            assert receipt.id & 0xFFFFFFFF == 1301
            assert await take(one.group("all"), 1) == [b"last"]
            assert await take(two.group("all"), 1) == [b"last"]

    asyncio.run(first_life())
    assert (tmp_path / "node-1/data/journal").stat().st_size < 200_000  # of 1,300 × 200 and more
    asyncio.run(second_life())
    for node in (1, 2):
        rows = read_log(tmp_path / f"node-{node}/trace/node-{node}.nodelog").rows
        delivered = [row[2] & 0xFFFFFFFF for row in rows if KINDS[row[1]] == "deliver"]
        assert delivered == list(range(1, 1302))


def test_a_restart_adds_the_rows_that_the_crash_cut_off(tmp_path: Path) -> None:
    """The log a crash leaves may be behind the journal: here by two publications."""
    town = Neighbourhood(tmp_path, 1)
    log = tmp_path / "node-1/trace/node-1.nodelog"

    async def first_life() -> None:
        node = town.node(1)
        await node.start()
        for number in range(3):
            await node.group("all").publish(b"%d" % number)
        behind = log.read_bytes()
        for number in range(2):
            await node.group("all").publish(b"%d" % number)
        node._running().fail(NodeError("somebody pulled the plug"), "a test")
        log.write_bytes(behind)

    async def second_life() -> None:
        async with town.running() as (node,):
            await node.group("all").publish(b"6")

    asyncio.run(first_life())
    asyncio.run(second_life())
    rows = gather([tmp_path], tmp_path / "run").events.to_pylist()
    told = [
        (row["kind"], row["message"] and row["message"] & 0xFF)
        for row in rows
        if row["kind"] != "note"
    ]
    assert told == [
        *((kind, number) for number in range(1, 6) for kind in ("publish", "deliver")),
        ("crash", None),
        ("recover", None),
        ("publish", 6),
        ("deliver", 6),
        ("leave", None),
    ]
    crash = [row["kind"] for row in rows].index("crash")
    before, down, back = (rows[place]["at_us"] for place in (crash - 1, crash, crash + 1))
    assert before == down < back  # the time of its last sign of life, not of its return


def test_compaction_takes_in_what_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    """It begins while an entry waits for its sync; a crash follows before its rows are there."""
    town = Neighbourhood(tmp_path, 1)
    log = tmp_path / "node-1/trace/node-1.nodelog"

    async def first_life() -> None:
        node = town.node(1)
        await node.start()
        await node.group("all").publish(b"first")
        host = node._running()
        keeper = host.parts.keeper
        assert keeper is not None
        behind = log.read_bytes()
        keeper._compact_at = 0
        await node.group("all").publish(b"second")
        await until(lambda: keeper._compact_at > 0 and not keeper._is_compacting)
        host.fail(NodeError("somebody pulled the plug"), "a test")
        log.write_bytes(behind)

    async def second_life() -> None:
        async with town.running() as (node,):
            assert await take(node.group("all"), 2) == [b"first", b"second"]
            assert node.status()["published"] == node.status()["delivered"] == {"all": 2}

    asyncio.run(first_life())
    journal = (tmp_path / "node-1/data/journal").read_bytes()
    assert journal.startswith(COMPACTED)
    asyncio.run(second_life())
    rows = gather([tmp_path], tmp_path / "run").events.to_pylist()
    kinds = [row["kind"] for row in rows if row["kind"] != "note"]
    assert kinds == ["publish", "deliver"] * 2 + ["crash", "recover", "leave"]


def test_publishing_waits_for_a_peer_that_does_not_read(tmp_path: Path) -> None:
    """Nothing is dropped: when the peer reads again, everything is there."""
    more = "[limits]\nsend_buffer_bytes = 100000"
    town = Neighbourhood(tmp_path, 2, protocol="naive_flood", more=more)
    count, size = 200, 100_000  # far more than the sockets between them hold

    async def story() -> None:
        async with town.running() as (one, two):
            transport = two._running().links._current[1]._transport  # type: ignore[index]
            assert transport is not None
            transport.pause_reading()
            one.group("all").on_message(lambda message: None)  # its own are not what it waits for

            async def publish_all() -> None:
                for number in range(count):
                    await one.group("all").publish(b"%3d" % number + b"." * size)

            publishing = asyncio.create_task(publish_all())
            await until(lambda: bool(one._running().links.outlets.congested))
            await asyncio.sleep(0.1)
            published = one.status()["published"]["all"]
            assert published < count
            assert not publishing.done()
            transport.resume_reading()
            bodies = await take(two.group("all"), count)
            assert [int(body[:3]) for body in bodies] == list(range(count))
            await publishing

    asyncio.run(story())


def test_joining_and_leaving_a_group_while_it_runs(tmp_path: Path) -> None:
    """Node 2 is a member only inside the context, and the trace says from where to where."""
    town = Neighbourhood(tmp_path, 2, groups="solo = [1]")

    async def story() -> None:
        async with town.running() as (one, two):
            await one.group("solo").publish(b"before")
            passed_by = broadcast_of(two._running().parts.stack.multicast).delivery.delivered
            await until(lambda: passed_by.get(NodeId(1)) == 1)
            async with two.group("solo") as solo:
                await one.group("solo").publish(b"during")
                assert await take(solo, 1) == [b"during"]
            await one.group("solo").publish(b"after")
            await until(lambda: passed_by.get(1) == 3)
            assert two.status()["delivered"] == {"solo": 1}

    asyncio.run(story())
    run = gather([tmp_path], tmp_path / "run")
    (mine,) = [m for m in run.members.to_pylist() if m["node"] == 2]
    rows = {r["pos"]: r["kind"] for r in run.events.to_pylist() if r["node"] == 2}
    assert rows[mine["from_pos"]] == "join"
    assert rows[mine["to_pos"]] == "leave"


def test_what_a_node_cannot_do_is_said_clearly(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1, more="[limits]\nbody_bytes = 10")

    async def story() -> None:
        async with town.running() as (node,):
            with pytest.raises(NodeError, match=r"no group 'chta'.*all"):
                node.group("chta")
            with pytest.raises(NodeError, match=r"11 bytes; at most 10.*body_bytes"):
                await node.group("all").publish(b"x" * 11)
            with pytest.raises(NodeError, match="bytes, not str"):
                await node.group("all").publish("text")  # type: ignore[arg-type]
            receipt = await node.group("all").publish(b"x" * 10)
            with pytest.raises(NodeError, match="vector_clock_broadcast does not tell"):
                await receipt.stable(timeout=1)
            assert node.explain(receipt.id) == []
            with pytest.raises(NodeError, match="in use"):
                await town.node(1).start()
        with pytest.raises(NodeError, match="stopped"):
            await anext(node.group("all"))

    asyncio.run(story())


def test_what_is_durable_is_published_even_if_the_node_stops_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row cannot be written: whoever published hears that it is durable, and does not wait."""
    town = Neighbourhood(tmp_path, 1)

    def no_room(rows: list[Row]) -> None:
        if rows:
            raise NodeError("no room for rows")

    async def story() -> None:
        async with town.running() as (node,):
            monkeypatch.setattr(node._running().rows, "happened", no_room)
            async with asyncio.timeout(10):
                await node.group("all").publish(b"durable")
                with pytest.raises(NodeError, match="no room for rows"):
                    await node.wait_stopped()
        monkeypatch.undo()
        async with town.running() as (node,):
            assert await take(node.group("all"), 1) == [b"durable"]

    asyncio.run(story())


def test_what_keeps_a_node_from_starting_is_said_clearly(tmp_path: Path) -> None:
    """A folder that is a file, and an address that somebody else has; then it starts. A trace that
    cannot be written keeps nobody from it."""
    town = Neighbourhood(tmp_path, 1)

    async def story() -> None:
        (tmp_path / "node-1").write_text("in the way")
        with pytest.raises(JournalError, match="journal: cannot be opened"):
            await town.node(1).start()
        (tmp_path / "node-1").unlink()
        (tmp_path / "node-1").mkdir()
        (tmp_path / "node-1/trace").write_text("in the way")
        async with town.running() as (node,):  # it only leaves no trace
            assert node.status()["trace"] == {}
            told = node._running().observed.events.since(0)
            assert "the trace cannot be written" in told[0].meaning
        (tmp_path / "node-1/trace").unlink()
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", town.ports[1])
        with pytest.raises(NodeError, match="cannot listen at"):
            await town.node(1).start()
        taken.close()
        await taken.wait_closed()
        async with town.running():
            pass

    asyncio.run(story())


def test_a_node_that_keeps_nothing_cannot_come_back(tmp_path: Path) -> None:
    """`naive_flood` is reborn: its storage is refused the second time."""
    town = Neighbourhood(tmp_path, 1, protocol="naive_flood")

    async def life() -> None:
        async with town.running() as (node,):
            await node.group("all").publish(b"once")
            assert await take(node.group("all"), 1) == [b"once"]

    asyncio.run(life())
    with pytest.raises(NodeError, match=r"earlier life of node 1.*under a new id"):
        asyncio.run(life())


def test_the_storage_of_another_node_is_refused(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def life(node: int, storage: int) -> None:
        config = town.config(node)
        config.storage = tmp_path / f"node-{storage}/data"
        from causalcast import Node

        async with Node(config):
            pass

    asyncio.run(life(1, 1))
    with pytest.raises(ConfigError, match="belongs to node 1, this node has 2"):
        asyncio.run(life(2, 1))


def test_storage_with_other_groups_says_what_differs(tmp_path: Path) -> None:
    before = Neighbourhood(tmp_path, 1)
    after = Neighbourhood(tmp_path, 1, groups='alerts = "*"\nall = "*"')

    async def life(town: Neighbourhood) -> None:
        async with town.node(1):
            pass

    asyncio.run(life(before))
    with pytest.raises(ConfigError, match="groups 'all' there, 'alerts', 'all' here; storage"):
        asyncio.run(life(after))
    journal = tmp_path / "node-1/data/journal"
    journal.write_bytes(journal.read_bytes()[:6] + b"9" + journal.read_bytes()[7:])
    with pytest.raises(JournalError, match=r"journal of format 9.*run the version that wrote it"):
        asyncio.run(life(before))


def test_different_options_are_refused_at_both_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        from causalcast import Node

        one, two = Node(town.config(1)), Node(town.config(2, options="window = 7"))
        async with one, two:
            # Either may dial first; both go on dialling.
            for node in (one, two):
                await until(lambda node=node: node.status()["trouble"].get("refused_greetings"))
            await until(lambda: "refusing node 2: options" in caplog.text)
            await until(lambda: "node 1 refuses us: options" in caplog.text)
            assert links(one) == links(two) == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "refusing node 2: options window: 1000 here, 7 there" in caplog.text
    assert "node 1 refuses us: options window: 7 here, 1000 there" in caplog.text


def test_of_two_crossing_dials_the_smaller_dialler_wins(tmp_path: Path) -> None:
    """Nobody is a neighbour here; both are told to dial in the same turn, many times."""
    town = Neighbourhood(tmp_path, 2, overlay='kind = "edges"\nedges = []')

    async def story() -> None:
        async with town.running() as nodes:
            one, two = (node._running().links for node in nodes)
            for _ in range(20):
                one.dial(2)  # type: ignore[arg-type]
                two.dial(1)  # type: ignore[arg-type]
                await until(lambda: bool(one._current and two._current))
                await until(lambda: not one._dials and not two._dials)
                assert one._current[2].link == two._current[1].link  # type: ignore[index]
                assert one._current[2].link >> 32 == 1  # type: ignore[index]
                assert len(one._connections) <= 2
                await until(lambda: are_apart(one, two))

    def are_apart(one: Links, two: Links) -> bool:
        """What a protocol sends to a new neighbour may come late, and dial once more."""
        one.hang_up(NodeId(2))
        one.flush()
        return not (one._dials or two._dials or two._current)

    asyncio.run(story())


def test_a_receipt_tells_when_every_member_has_the_message(tmp_path: Path) -> None:
    """The protocol here says so for every second message."""
    (tmp_path / "telling.py").write_text(
        "from causalcast.core import *\n"
        "class Telling(Multicast):\n"
        "    def on_publish(self, publication, out):\n"
        "        out.deliver(publication)\n"
        "        if number_of(publication.id) % 2 == 0:\n"
        "            out.start_timer('tell', 50 * MILLISECOND, publication.id)\n"
        "    def on_timer(self, name, subject, out):\n"
        "        out.stable(subject)\n"
        "SPEC = ProtocolSpec('telling', 'Tells.', lambda setup: Telling(), [], [],\n"
        "                    offers=['stability'])\n"
    )
    town = Neighbourhood(tmp_path, 1, protocol="telling.py")

    async def story() -> None:
        async with town.running() as (node,):
            first = await node.group("all").publish(b"1")
            second = await node.group("all").publish(b"2")
            await second.stable(timeout=5)
            await second.stable(timeout=5)
            with pytest.raises(NodeError, match=r"1\.1 in 'all'> is not stable after 0.05 s"):
                await first.stable(timeout=0.05)

    asyncio.run(story())


def test_a_bug_in_a_protocol_stops_its_node_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A user's protocol asserts; the other node goes on."""
    file = tmp_path / "fragile.py"
    file.write_text(
        "from causalcast.core import *\n"
        "class Fragile(Multicast):\n"
        "    def on_publish(self, publication, out):\n"
        "        assert publication.body != b'boom', 'I cannot stand this'\n"
        "        out.deliver(publication)\n"
        "SPEC = ProtocolSpec('fragile', 'Breaks.', lambda setup: Fragile(), [], [])\n"
    )
    town = Neighbourhood(tmp_path, 2, protocol="fragile.py")

    async def story() -> None:
        async with town.running() as (one, two):
            await one.group("all").publish(b"fine")
            with pytest.raises(NodeError, match="I cannot stand this"):
                await one.group("all").publish(b"boom")
            with pytest.raises(NodeError, match="I cannot stand this"):
                await take(one.group("all"), 2)
            await two.group("all").publish(b"still here")
            assert await take(two.group("all"), 1) == [b"still here"]
            await until(lambda: links(two) == [])

    asyncio.run(story())
    assert "node 1 stops: a bug in fragile" in caplog.text
