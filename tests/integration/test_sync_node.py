"""The synchronous face: threads, timeouts and interrupts lose nothing, and it ends well."""

import os
import random
import select
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from door_nodes import Doors
from loopback_nodes import PATIENCE, Neighbourhood

from causalcast import SyncNode, connect_sync
from causalcast.errors import NodeError
from causalcast.runtime.sync_node import SyncMessage


def test_publish_receive_acknowledge_and_return(tmp_path: Path) -> None:
    """Two nodes; what was acknowledged before closing is not handed over by the next life."""
    town = Neighbourhood(tmp_path, 2)
    with SyncNode(town.config(1)) as one:
        with SyncNode(town.config(2)) as two, two.group("all") as group:
            receipt = one.group("all").publish(b"first")
            assert one.group("all").publish(b"second").id == receipt.id + 1
            message = group.receive(PATIENCE)
            assert message is not None
            assert (message.payload, message.origin, message.number) == (b"first", 1, 1)
            message.ack()
        with SyncNode(town.config(2)) as two:
            received = [each.payload for each in two.group("all").messages(timeout=0.3)]
            assert received == [b"second"]
            assert two.status()["delivered"] == {"all": 2}
            assert two.explain(receipt.id) == []
            assert "causalcast_" in two.metrics()


def test_timeouts_lose_nothing(tmp_path: Path) -> None:
    """A reader that gives up all the time, also at the moment a message comes, gets all of them
    in order; half of those it gets it gives back at first."""
    town = Neighbourhood(tmp_path, 1)
    random.seed(1)
    with SyncNode(town.config(1)) as node:
        group = node.group("all")

        def publish() -> None:
            for number in range(300):
                group.publish(b"%d" % number)

        publisher = threading.Thread(target=publish)
        publisher.start()
        received: list[bytes] = []
        timeouts = 0
        deadline = time.monotonic() + PATIENCE
        while len(received) < 300 and time.monotonic() < deadline:
            message = group.receive(random.choice([0.0, 0.0001, 0.001]))
            if message is None:
                timeouts += 1
            elif random.random() < 0.5:
                message.give_back()
            else:
                received.append(message.payload)
        publisher.join()
    assert received == [b"%d" % number for number in range(300)]
    assert timeouts > 0


def test_an_interrupt_ends_the_waiting_and_loses_nothing(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)
    main = threading.main_thread().ident
    assert main is not None
    with SyncNode(town.config(1)) as node:
        group = node.group("all")
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            group.receive(PATIENCE)
        group.publish(b"later")
        message = group.receive(PATIENCE)
        assert message is not None and message.payload == b"later"


def test_many_threads_publish_at_once(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)
    with SyncNode(town.config(1)) as node, ThreadPoolExecutor(8) as threads:
        group = node.group("all")
        receipts = list(threads.map(lambda n: group.publish(b"%d" % n), range(100)))
        assert len({receipt.id for receipt in receipts}) == 100
        received = [message.payload for message in group.messages(timeout=0.3)]
        assert sorted(received, key=int) == [b"%d" % number for number in range(100)]


def test_closing_wakes_whoever_waits(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)
    node = SyncNode(town.config(1))
    with node, ThreadPoolExecutor(1) as threads:
        group = node.group("all")
        waiting = threads.submit(group.receive)
        time.sleep(0.1)
        node.close()
        with pytest.raises(NodeError, match="stopped"):
            waiting.result(PATIENCE)
        with pytest.raises(NodeError, match="not running"):
            group.publish(b"too late")
        with pytest.raises(NodeError, match="not running"):
            group.receive(1.0)
    with pytest.raises(NodeError, match="open it anew"):
        node.__enter__()


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 1)
    with SyncNode(town.config(1)):
        other = SyncNode(town.config(1))
        with pytest.raises(NodeError):
            other.__enter__()


def test_late_members_are_told_what_they_get(tmp_path: Path) -> None:
    """Node 2 joins late: from now on, or not at all where nothing is kept."""
    town = Neighbourhood(tmp_path, 2, groups="some = [1]\nboth = [1, 2]")
    with SyncNode(town.config(1)) as one, SyncNode(town.config(2)) as two:
        one.group("some").publish(b"before")
        one.group("both").publish(b"go on")
        assert two.group("both", since="kept").receive(PATIENCE) is not None  # a member already
        with pytest.raises(NodeError, match="keeps nothing for late members"):
            two.group("some", since="kept").__enter__()
        with pytest.raises(NodeError, match="expected one of now, kept"):
            two.group("some", since="ever")  # type: ignore[arg-type]
        with two.group("some") as some:
            one.group("some").publish(b"after")
            message = some.receive(PATIENCE)
            assert message is not None and message.payload == b"after"
            assert two.status()["groups"] == ["both", "some"]
        assert two.status()["groups"] == ["both"]


def test_who_knows_the_members_of_the_start_only_says_so(tmp_path: Path) -> None:
    town = Neighbourhood(
        tmp_path,
        2,
        protocol="delta_neighbourhood",
        overlay='kind = "line"',
        groups="some = [1]\nboth = [1, 2]",
    )
    with SyncNode(town.config(2)) as two:
        with pytest.raises(NodeError, match="members of the start only"):
            two.group("some").__enter__()
        with two.group("both"):
            assert two.status()["groups"] == ["both"]


def test_a_callback_reads_groups_together(tmp_path: Path) -> None:
    """It is called in causal order over groups, may give a message back, and cannot wait for the
    node that waits for it."""
    town = Neighbourhood(tmp_path, 1, groups='left = "*"\nright = "*"')
    with SyncNode(town.config(1)) as node:
        received: list[tuple[str, bytes]] = []
        errors: list[str] = []
        is_over = threading.Event()

        def handle(message: SyncMessage) -> None:
            if not errors:
                with pytest.raises(NodeError) as refused:
                    node.group("left").publish(b"from inside")
                errors.append(str(refused.value))
                message.give_back()
                return
            received.append((message.group, message.payload))
            if len(received) == 20:
                is_over.set()

        node.on_message(handle)
        sent = [(("left", "right")[number % 2], b"%d" % number) for number in range(20)]
        for group, body in sent:
            node.group(group).publish(body)
        assert is_over.wait(PATIENCE)
        assert received == sent
        assert errors == ["a callback of the node cannot wait for it; use another thread"]


def test_a_forked_process_is_told_that_it_has_no_node(tmp_path: Path) -> None:
    """Before, it waited for a thread that only its parent has."""
    doors = Doors(tmp_path, 1)
    with SyncNode(doors.config(1)) as node, connect_sync(doors.url(1)) as client:
        told, write = os.pipe()
        child = os.fork()
        if child == 0:
            words = []
            for one in (node, client):
                try:
                    one.group("all").publish(b"from the child")
                except NodeError as error:
                    words.append(str(error))
                one.close()
            os.write(write, "\n".join(words).encode())
            os._exit(0)
        os.close(write)
        is_told, _, _ = select.select([told], [], [], PATIENCE)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert is_told, "it waits for ever"
        assert os.read(told, 10_000).decode().count("forked off") == 2
        os.close(told)
        node.group("all").publish(b"from the parent")
        client.group("all").publish(b"from the parent")
