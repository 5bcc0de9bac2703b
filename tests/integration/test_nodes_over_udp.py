"""Real nodes over UDP: links, loss, peers that come back, changed addresses, hostile datagrams."""

import asyncio
import os
import socket
import struct
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, disorder, links, take, until
from lossy_proxy import LossyProxies

from causalcast.datagrams import sealed_bytes as wire
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.greeting import first_greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.links.udp.carrier import MOST_UNPROVEN, UdpCarrier
from causalcast.runtime.links.udp.sealing import ClusterKey, Exchange, SessionNumbers
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.joining import WayIn
from causalcast.trace.gather import gather


class Proxied(Neighbourhood):
    """Nodes that reach one another through proxies."""

    def __init__(self, folder: Path, nodes: int, proxies: LossyProxies) -> None:
        super().__init__(folder, nodes, transport="udp")
        self.own_ports = dict(self.ports)
        places = {node: proxies.before(("127.0.0.1", port)) for node, port in self.ports.items()}
        self.ports = {node: place[1] for node, place in places.items()}

    def config(self, node: int, **changes: str) -> NodeConfig:
        config = super().config(node, **changes)
        config.advertise = config.listen
        config.listen = type(config.listen)("127.0.0.1", self.own_ports[node])
        return config


def carrier_of(node: object) -> UdpCarrier:
    carrier = node._running().links.carrier  # type: ignore[attr-defined]
    assert isinstance(carrier, UdpCarrier)
    return carrier


def test_messages_of_every_length_come_in_causal_order(tmp_path: Path) -> None:
    async def story() -> None:
        neighbours = Neighbourhood(tmp_path, 3, transport="udp")
        bodies = [bytes([n % 251]) * size for n, size in enumerate([0, 1, 1000, 20_000, 300_000])]
        async with neighbours.running() as nodes:
            groups = [node.group("all") for node in nodes]
            for group in groups:
                await group.__aenter__()
            for group in groups:
                for body in bodies:
                    await group.publish(body)
            for group in groups:
                assert sorted(await take(group, 3 * len(bodies))) == sorted(3 * bodies)
        assert disorder(gather([tmp_path], tmp_path / "run")) == []

    asyncio.run(story())


def test_identities_and_tls_inside(tmp_path: Path) -> None:
    """TLS runs over the stream as over TCP: nodes know one another by their certificates."""

    async def story() -> None:
        neighbours = Neighbourhood(tmp_path, 2, transport="udp", tls=True)
        async with neighbours.running() as (one, two):
            async with one.group("all") as here, two.group("all") as there:
                await here.publish(b"small")
                await there.publish(b"large" * 100_000)
                for group in (here, there):
                    assert sorted(map(len, await take(group, 2))) == [5, 500_000]
            (link,) = one._running().links._current.values()
            assert link.passport is not None
        assert disorder(gather([tmp_path], tmp_path / "run")) == []

    asyncio.run(story())


def test_loss_a_cut_and_a_change_of_address_lose_nothing(tmp_path: Path) -> None:
    """A fifth of all datagrams is lost; then all are, until both ends have given up; then addresses
    change in the middle of a conversation."""
    proxies = LossyProxies(0.2)

    async def story() -> None:
        neighbours = Proxied(tmp_path, 2, proxies)
        async with neighbours.running() as (one, two):
            here, there = one.group("all"), two.group("all")
            async with here, there:
                for number in range(50):
                    await here.publish(b"lossy %d" % number)
                await take(there, 50)
                proxies.cut = True
                await here.publish(b"into the cut")
                await until(lambda: not links(one) and not links(two))
                proxies.cut = False
                assert await take(there, 1) == [b"into the cut"]
                await until(lambda: bool(links(one)) and bool(links(two)))
                proxies.loss = 0.0
                proxies.move()
                # Who was called cannot know where the other end is now; the caller's next datagram
                # shows it.
                await there.publish(b"from a new address")
                await here.publish(b"and from the other end")
                heard = await take(here, 53)
                assert set(heard[-2:]) == {b"from a new address", b"and from the other end"}
                await take(there, 2)
                moved = sum(carrier_of(node).counts["address_changed"] for node in (one, two))
                assert moved > 0
                failed = sum(carrier_of(node).counts["peers_failed"] for node in (one, two))
                assert failed == 2
        assert disorder(gather([tmp_path], tmp_path / "run")) == []

    with proxies.running():
        asyncio.run(story())
    assert proxies.fired["lost"] and proxies.fired["cut"] and proxies.fired["moved"]


def test_hostile_datagrams_change_nothing(tmp_path: Path) -> None:
    """Noise, cuts, bit flips and replays of real traffic, calls of strangers, spoofed members."""
    proxies = LossyProxies(0.0)

    async def story() -> None:
        neighbours = Proxied(tmp_path, 2, proxies)
        async with (
            neighbours.running() as (one, two),
            one.group("all") as here,
            two.group("all") as there,
        ):
            for number in range(20):
                await here.publish(b"before %d" % number)
            await take(there, 20)
            recorded = list(proxies.recorded)
            assert len(recorded) > 20
            for number, (out, data, place) in enumerate(recorded):
                out.sendto(data, place)  # a replay, from the right address
                out.sendto(data[: number % len(data)], place)
                # What it is, whose it is, which one it is, what it says, its seal, and anywhere.
                middle, last, anywhere = len(data) // 2, len(data) - 1, number * 7 % len(data)
                for spot in (0, 2, min(9, last), middle, last, anywhere):
                    flipped = bytes([data[spot] ^ 1 << number % 8])
                    out.sendto(data[:spot] + flipped + data[spot + 1 :], place)
                out.sendto(os.urandom(number % 300), place)
            counts = carrier_of(one).counts, carrier_of(two).counts
            for kind in ("a_replay", "a_forged_datagram", OTHERS, "no_datagram_of_ours"):
                await until(lambda kind=kind: sum(count[kind] for count in counts) >= 3)  # type: ignore[misc]
            for number in range(20):
                await here.publish(b"after %d" % number)
            assert await take(there, 20) == [b"after %d" % n for n in range(20)]
            assert links(one) == [2] and links(two) == [1]
        assert disorder(gather([tmp_path], tmp_path / "run")) == []

    with proxies.running():
        asyncio.run(story())


OTHERS = "session_of_another_node"


def test_no_other_member_confirms_that_a_session_is_over(tmp_path: Path) -> None:
    """An observer shows a datagram of nodes 1 and 2 to node 3, and what that says to both."""
    proxies = LossyProxies(0.0)

    async def story() -> None:
        neighbours = Proxied(tmp_path, 2, proxies)
        elsewhere = Neighbourhood(tmp_path / "3", 3, transport="udp")  # same cluster, same key
        async with neighbours.running() as (one, two), elsewhere.node(3) as three:
            async with one.group("all") as here, two.group("all") as there:
                await here.publish(b"before")
                assert await take(there, 1) == [b"before"]
            seen = [data for _, data, _ in proxies.recorded if data[0] == wire.SEALED]
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as observer:
                observer.setblocking(False)
                for data in seen:
                    observer.sendto(data, ("127.0.0.1", elsewhere.ports[3]))
                await until(lambda: carrier_of(three).counts[OTHERS] == len(seen))
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(loop.sock_recv(observer, 2000), 0.2)
            assert links(one) == [2] and links(two) == [1]

    with proxies.running():
        asyncio.run(story())


def test_a_node_confirms_its_own_sessions_after_a_restart() -> None:
    key = ClusterKey(b"key" * 11)
    before, after = SessionNumbers(key, "10.0.0.1:7400"), SessionNumbers(key, "10.0.0.1:7400")
    other = SessionNumbers(key, "10.0.0.2:7400")
    for _ in range(100):
        number = before.draw()
        assert after.are_ours(number) and not other.are_ours(number)


def a_call(key: bytes, cookie: bytes = wire.NO_COOKIE, session: int = 7) -> bytes:
    public = Exchange().public
    statement = wire.CALL_FORM.pack(wire.CALL, session, public, cookie, bytes(32))[:-32]
    return statement + ClusterKey(key).prove(statement)


def test_strangers_get_no_answer_and_members_no_longer_one_than_they_sent(tmp_path: Path) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        neighbours = Neighbourhood(tmp_path, 1, overlay='kind = "full_mesh"', transport="udp")
        async with neighbours.running() as (node,):
            place = ("127.0.0.1", neighbours.ports[1])
            counts = carrier_of(node).counts
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
                caller.setblocking(False)
                caller.sendto(a_call(b"another cluster"), place)
                await until(lambda: counts["a_call_of_a_stranger"] == 1)
                with pytest.raises(BlockingIOError):
                    caller.recv(1 << 16)
                call = a_call(b"test")
                caller.sendto(call, place)
                retry = await loop.sock_recv(caller, 1 << 16)
                assert retry[0] == wire.RETRY and len(retry) < len(call)
                _, session, cookie = struct.unpack("!BQ16s", retry)
                assert session == 7
                statement = call[:41] + cookie
                again = statement + ClusterKey(b"test").prove(statement)
                caller.sendto(again, place)
                reply = await loop.sock_recv(caller, 1 << 16)
                assert reply[0] == wire.REPLY and len(reply) < len(call)
                # The same call again gets the same reply, and no second session.
                caller.sendto(again, place)
                assert await loop.sock_recv(caller, 1 << 16) == reply
                assert len(carrier_of(node)._sessions) == 1
            # Somebody else's cookie is not accepted.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.setblocking(False)
                other.sendto(again, place)
                assert (await loop.sock_recv(other, 1 << 16))[0] == wire.RETRY

    asyncio.run(story())


def test_sessions_that_never_speak_are_few(tmp_path: Path) -> None:
    async def story() -> None:
        neighbours = Neighbourhood(tmp_path, 1, overlay='kind = "full_mesh"', transport="udp")
        async with neighbours.running() as (node,):
            carrier = carrier_of(node)
            for session in range(3 * MOST_UNPROVEN.value):
                carrier._answer(session, Exchange().public, ("127.0.0.1", 9))
            assert len(carrier._sessions) <= MOST_UNPROVEN.value
            assert carrier.counts["too_many_calls"] == 2 * MOST_UNPROVEN.value

    asyncio.run(story())


def test_a_newcomer_asks_as_often_as_it_likes(tmp_path: Path) -> None:
    """It has nothing but an address and the name of the cluster; another name gets no answer."""

    async def story() -> None:
        neighbours = Neighbourhood(tmp_path, 1, overlay='kind = "full_mesh"', transport="udp")
        stranger = first_greeting("", 0, 0, "", "", {})
        async with neighbours.running():
            contact = Address("127.0.0.1", neighbours.ports[1])
            async with WayIn(contact, "udp", "test").carrier() as carrier:
                for _ in range(2):
                    theirs = await greeting_at(carrier, contact, stranger, 5, None)
                    assert theirs.node == 1 and theirs.cluster == "test"
                    await asyncio.sleep(0.05)  # the first conversation is over
            async with WayIn(contact, "udp", "another").carrier() as carrier:
                with pytest.raises(TimeoutError):
                    await greeting_at(carrier, contact, stranger, 0.2, None)

    asyncio.run(story())


def test_clusters_with_different_keys_do_not_speak(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(os.urandom(32))

    async def story() -> None:
        neighbours = Neighbourhood(tmp_path, 2, transport="udp")
        configs = [neighbours.config(node) for node in (1, 2)]
        for config, name in zip(configs, ("one", "two"), strict=True):
            config.cluster_key = (tmp_path / name).read_bytes()
        nodes = [type(neighbours.node(1))(config) for config in configs]
        for node in nodes:
            await node.start()
        try:
            await until(lambda: carrier_of(nodes[0]).counts["a_call_of_a_stranger"] > 0)
            assert links(nodes[0]) == [] and links(nodes[1]) == []
        finally:
            for node in nodes:
                await node.stop()

    asyncio.run(story())
