"""The page for Prometheus: its own parser reads it, and it has what operators and deploy/ name."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from loopback_nodes import Neighbourhood, until

from causalcast.runtime.metadata import MARK
from causalcast.runtime.observing.histogram import BOUNDS, Histogram
from causalcast.runtime.observing.loop_lag import EVERY

ROOT = Path(__file__).parent.parent.parent
parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is absent")

# Delivers what others publish a moment after it came, and says meanwhile that it holds it.
LATE = """
from causalcast.core import MessageId, Multicast, Needs, Outbox, ProtocolSpec, Message, Wire
from causalcast.core import Publication


class Copy(Message):
    wire = Wire("late.copy", publication=Publication)

    def __init__(self, publication):
        self.publication = publication


class Late(Multicast):
    def __init__(self):
        self.peers = {}
        self.held = {}

    def on_neighbour_up(self, peer, link, newborn, out):
        self.peers[peer] = None

    def on_neighbour_down(self, peer, link, out):
        self.peers.pop(peer, None)

    def on_publish(self, publication, out):
        out.deliver(publication)
        for peer in self.peers:
            out.send(peer, Copy(publication))

    def on_message(self, sender, message, out):
        self.held[message.publication.id] = message.publication
        out.hold(message.publication.id, MessageId(-1), "the timer")
        out.start_timer("late", 300_000, message.publication.id)

    def on_timer(self, name, subject, out):
        publication = self.held.pop(subject)
        out.release(publication.id)
        out.deliver(publication)


SPEC = ProtocolSpec(
    name="late", summary="Late.", build=lambda setup: Late(), messages=[Copy],
    guarantees=["validity"], needs=Needs(links="reliable"),
)
"""


def families(text: str) -> dict[str, Any]:
    """What the page has, by name; the parser raises where it is no page."""
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def value(text: str, sample: str, **labels: str) -> float:
    """One number of the page."""
    found = [
        one.value
        for family in families(text).values()
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    ]
    assert len(found) == 1, (sample, labels, found)
    return float(found[0])


@pytest.mark.parametrize("name", ['we"ird\n', 'a"} 1\ncausalcast_links{node="9', "back\\", "ünï{}"])
def test_groups_of_any_name_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    """Our own writer stays: it has no more to do than this, and a node no further dependency."""
    town = Neighbourhood(tmp_path, 1, groups=f"{json.dumps(name)} = [1]")

    async def story() -> str:
        async with town.node(1) as node:
            await node.group(name).publish(b"x")
            await until(lambda: node.status()["delivered"].get(name) == 1)
            return node.metrics()

    text = asyncio.run(story())
    assert value(text, "causalcast_published_total", group=name) == 1
    assert value(text, "causalcast_delivered_total", group=name) == 1
    nodes = {s.labels.get("node") for f in families(text).values() for s in f.samples}
    assert nodes <= {"1", None}


def test_what_goes_over_links_is_counted_at_both_ends(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            await until(lambda: one.status()["links"] == [2] and two.status()["links"] == [1])
            for _ in range(10):
                await one.group("all").publish(b"x" * 1000)
            await until(lambda: two.status()["inbox"] == {"all": 10})
            await until(lambda: one.status()["kept_for"] == {"2": 0})
            await asyncio.sleep(2.5 * EVERY)
            pages = {"1": one.metrics(), "2": two.metrics()}
            sent = value(pages["1"], "causalcast_link_sent_bytes_total", peer="2")
            received = value(pages["2"], "causalcast_link_received_bytes_total", peer="1")
            assert sent >= received > 10_000
            assert value(pages["1"], "causalcast_link_sent_messages_total", peer="2") >= 10
            came = value(pages["2"], "causalcast_link_received_messages_total", peer="1")
            assert 10 <= came <= value(pages["1"], "causalcast_link_sent_messages_total", peer="2")
            assert value(pages["2"], "causalcast_inbox_messages", group="all") == 10
            assert value(pages["2"], "causalcast_delivery_delay_seconds_count") == 10
            assert value(pages["2"], "causalcast_held_oldest_seconds") == 0
            assert value(pages["1"], "causalcast_loop_lag_seconds_count") >= 1
            assert value(pages["1"], "process_resident_memory_bytes") > 1 << 20
            assert value(pages["1"], "causalcast_link_up", peer="2") == 1
            for page in pages.values():
                for family in families(page).values():
                    assert family.documentation and family.type != "unknown", family.name

    asyncio.run(story())


@pytest.mark.parametrize("storage", ["", "durable = false"])
def test_the_whole_way_is_measured_of_messages_that_say_when_they_began(
    storage: str, tmp_path: Path
) -> None:
    more = "[limits]\nstamp_every_us = 1"
    town = Neighbourhood(tmp_path, 2, storage=storage, more=more, level="none")
    name = "causalcast_publication_to_delivery_seconds"

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            await until(lambda: one.status()["links"] == [2] and two.status()["links"] == [1])
            before = datetime.now(UTC)
            for _ in range(10):
                await one.group("all").publish(b"x")
                await asyncio.sleep(0.002)
            for _ in range(10):
                message = await two.group("all").receive(timeout=10)
                assert message is not None and message.published_at is not None
                assert message.payload == b"x"
                assert timedelta() <= message.published_at - before < timedelta(seconds=60)
            await until(lambda: two.status()["delivered"] == {"all": 10})
            for node in (one, two):
                assert value(node.metrics(), f"{name}_count") == 10
                assert 0 < value(node.metrics(), f"{name}_sum") < 60
                assert value(node.metrics(), "causalcast_published_in_the_future_total") == 0

    asyncio.run(story())


def test_of_many_messages_at_once_one_says_when_it_began(tmp_path: Path) -> None:
    more = "[limits]\nstamp_every_us = 3600000000"
    town = Neighbourhood(tmp_path, 1, more=more)

    async def story() -> None:
        async with town.node(1) as node:
            payloads = [b"first", b"second", b"it ends like metadata" + MARK]
            await node.group("all").publish_many(payloads)
            found = [await node.group("all").receive(timeout=10) for _ in payloads]
            assert [message.payload for message in found if message] == payloads
            assert [bool(message and message.published_at) for message in found] == [
                *(True, False, True)
            ]

    asyncio.run(story())


def test_numbers_go_on_over_links_that_are_lost(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2)

    async def story() -> None:
        async with town.node(1) as one:
            async with town.node(2):
                await until(lambda: one.status()["links"] == [2])
                await one.group("all").publish(b"x" * 5000)
                await until(lambda: one.status()["kept_for"] == {"2": 0})
                before = one.status()["traffic"]["2"]
            await until(lambda: one.status()["links"] == [])
            for _ in range(3):
                await one.group("all").publish(b"kept")
            page = one.metrics()
            assert value(page, "causalcast_kept_messages", peer="2") == 3
            assert value(page, "causalcast_link_up", peer="2") == 0
            async with town.node(2):
                await until(lambda: one.status()["kept_for"] == {"2": 0})
                after = one.status()["traffic"]["2"]
                assert all(after[name] > before[name] for name in before), (before, after)

    asyncio.run(story())


def test_held_messages_have_an_age_and_count_as_late(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    town = Neighbourhood(tmp_path, 2, protocol=str(tmp_path / "late.py"))

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two:
            await until(lambda: one.status()["links"] == [2] and two.status()["links"] == [1])
            await one.group("all").publish(b"held there")
            await until(lambda: two.status()["held"]["oldest_seconds"] > 0.05)
            held = two.status()["held"]
            assert held["messages"] == 1 and held["oldest"][0][0] == "1.1" and held["bytes"] > 0
            assert value(two.metrics(), "causalcast_held_messages") == 1
            await until(lambda: two.status()["delivered"] == {"all": 1})
            page = two.metrics()
            assert value(page, "causalcast_held_messages") == 0
            assert 0.25 < value(page, "causalcast_delivery_delay_seconds_sum") < 30

    asyncio.run(story())


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_every_metric_that_deploy_names_is_exported(name: str, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / name).read_text()
    if name.endswith("json"):
        panels = json.loads(text)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels) > 20
        text = "\n".join(target["expr"] for panel in panels for target in panel["targets"])
    named = set(re.findall(r"\b(?:causalcast|process)_[a-z0-9_]+", text))
    assert len(named) > 8
    town = Neighbourhood(tmp_path, 1, tls=True)

    async def page() -> str:
        async with town.node(1) as node:
            await node.group("all").publish(b"one")
            await asyncio.sleep(0)
            return node.metrics()

    there = set(re.findall(r"^# TYPE (\S+)", asyncio.run(page()), re.MULTILINE))
    exported = there | {f"{one}_{part}" for one in there for part in ("bucket", "sum", "count")}
    assert named - exported == set()


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram()
    histogram.observe(BOUNDS[0])  # a bound belongs to what is below it
    histogram.observe(BOUNDS[0] + 1, 2)
    histogram.observe(BOUNDS[-1] + 1)
    numbers = histogram.as_numbers()
    below: Any = numbers["below"]
    assert below[:2] == [[BOUNDS[0] / 1e6, 1], [BOUNDS[1] / 1e6, 3]]
    assert below[-1][1] == 3 and numbers["count"] == 4
    assert numbers["sum"] == pytest.approx((3 * BOUNDS[0] + 3 + BOUNDS[-1]) / 1e6)
