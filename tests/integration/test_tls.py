"""Nodes over TLS: they know one another, strangers get nothing, and the revoked are cut off."""

import asyncio
import logging
import socket
import ssl
import time
from datetime import timedelta
from pathlib import Path

import pytest
from loopback_nodes import Neighbourhood, links, take, until

from causalcast import Node
from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.limits import set_to
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import TcpCarrier
from causalcast.runtime.links.enrolment import ask, client_context, enrol
from causalcast.runtime.links.greeting import Greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.identity import REVOKED, Identity
from causalcast.runtime.security.join_token import make_token
from causalcast.runtime.security.tls import context


def trouble(node: Node) -> dict[str, int]:
    found: dict[str, int] = node.status()["trouble"]
    return found


async def silence_of(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other end hangs up."""
    async with asyncio.timeout(10):
        try:
            return await reader.read()
        except OSError:
            return b""


def test_nodes_speak_over_tls_13_and_what_they_say_is_not_readable(tmp_path: Path) -> None:
    """A pipe between two nodes sees their bytes, and never the payload."""
    town = Neighbourhood(tmp_path, 2, tls=True)
    seen = bytearray()

    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner = await asyncio.open_connection("127.0.0.1", behind)

            async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(4096):
                    seen.extend(data)
                    sink.write(data)
                sink.close()

            await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer))

        # Node 2, which dials, knows a proxy as node 1's address.
        behind = town.ports[1]
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
            one = town.node(1)
            two = town.node(2)
            await one.start()
            port = proxy.sockets[0].getsockname()[1]
            two.config.peers[one.id] = Address("127.0.0.1", port)
            await two.start()
            try:
                await until(lambda: links(one) == [2])
                await one.group("all").publish(b"a secret that nobody overhears")
                assert await take(two.group("all"), 1) == [b"a secret that nobody overhears"]
                (link,) = two._running().links._connections
                assert link._transport is not None
                assert link._transport.get_extra_info("ssl_object").version() == "TLSv1.3"
                assert two.status()["certificate_expires"] > time.time() + 300 * 86_400
                assert "causalcast_certificate_expires_seconds" in two.metrics()
            finally:
                await one.stop()
                await two.stop()
        assert len(seen) > 1000 and b"secret" not in seen and b"CAUSALC1" not in seen

    asyncio.run(story())


@pytest.mark.parametrize("who", ["plaintext", "no certificate", "own authority", "tls 1.2"])
def test_a_peer_without_a_certificate_of_the_cluster_gets_nothing(tmp_path: Path, who: str) -> None:
    town = Neighbourhood(tmp_path, 2, tls=True)
    other = Authority.found(tmp_path / "other", "test")
    other.make_identity(tmp_path / "stranger", 3)

    def stranger_context() -> ssl.SSLContext | None:
        if who == "plaintext":
            return None
        if who == "own authority":
            made = context(tmp_path / "stranger", ssl.PROTOCOL_TLS_CLIENT)
            made.load_verify_locations(town.identity(1) / "authority.pem")
            return made
        if who == "tls 1.2":
            made = context(town.identity(2), ssl.PROTOCOL_TLS_CLIENT)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            made.maximum_version = ssl.TLSVersion.TLSv1_2
            return made
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname = False
        made.load_verify_locations(town.identity(1) / "authority.pem")
        return made

    async def story() -> None:
        async with town.running() as (one, two):
            greeting = one._running().links.greeting
            came = b""
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", town.ports[1], ssl=stranger_context()
                )
                hello = greeting.encode()
                writer.write(len(hello).to_bytes(4) + hello)
                came = await silence_of(reader)
                writer.close()
            except OSError:
                pass  # refused in the handshake
            # A TLS server answers nonsense with an alert of its own, of 7 bytes.
            assert came == b"" or (who == "plaintext" and len(came) == 7)
            await until(lambda: trouble(one).get("failed_handshakes", 0) == 1)
            await two.group("all").publish(b"still here")
            assert await take(one.group("all"), 1) == [b"still here"]

    asyncio.run(story())


def test_a_node_cannot_greet_as_another(tmp_path: Path) -> None:
    """Node 2's certificate is good, and yet it is not node 1; whether it dials or is dialled."""
    town = Neighbourhood(tmp_path, 3, tls=True)

    async def story() -> None:
        three = town.node(3)
        await three.start()
        try:
            mine = three._running().links.greeting
            lie = Greeting(
                *(mine.wire_version, mine.cluster, 1, 1, mine.address, mine.digest, mine.facts),
                *(1 << 32 | 1, 3),
            )
            hello = len(lie.encode()).to_bytes(4) + lie.encode()
            reader, writer = await asyncio.open_connection(
                "127.0.0.1",
                town.ports[3],
                ssl=context(town.identity(2), ssl.PROTOCOL_TLS_CLIENT),
            )
            writer.write(hello)
            assert await silence_of(reader) == b""
            writer.close()
            assert trouble(three)["impostors"] == 1 and links(three) == []
            # And the other way: node 2 listens where node 3 dials node 1.
            liar = await asyncio.start_server(
                lambda r, w: w.write(hello),
                "127.0.0.1",
                town.ports[1],
                ssl=context(town.identity(2), ssl.PROTOCOL_TLS_SERVER),
            )
            async with liar:
                await until(lambda: trouble(three)["impostors"] >= 2)
            assert links(three) == []
        finally:
            await three.stop()

    asyncio.run(story())


def test_a_revoked_node_is_cut_off_and_the_list_travels(tmp_path: Path) -> None:
    """On a line 1-2-3-4 node 4 is revoked at node 1's authority: node 3, which never saw the file,
    hears of it and hangs up; nobody lets node 4 in again; the others go on."""
    town = Neighbourhood(tmp_path, 4, overlay='kind = "line"', tls=True)

    async def story() -> None:
        async with town.running() as (one, two, three, four):
            assert town.authority is not None
            await one.group("all").publish(b"before")
            for node in (two, three, four):
                assert await take(node.group("all"), 1) == [b"before"]
            town.authority.revoke(node=4)
            await until(lambda: links(three) == [2])
            assert trouble(three)["revoked_links"] == 1
            assert (town.identity(3) / REVOKED).exists()
            await one.group("all").publish(b"after")
            assert await take(three.group("all"), 1) == [b"after"]
            before = trouble(three).get("bad_greetings", 0)
            await until(lambda: trouble(three).get("bad_greetings", 0) > before)
            assert links(four) == [] and four.status()["delivered"] == {"all": 1}

    asyncio.run(story())


def test_a_new_key_is_used_without_a_restart(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, tls=True)

    async def story() -> None:
        async with town.running() as (one, two):
            assert town.authority is not None
            old = Identity.read(town.identity(2)).passport.serial
            new = town.authority.make_identity(town.identity(2), 2).passport.serial
            await until(lambda: _serial(two) == new)
            town.authority.revoke(serial=old)
            await until(lambda: trouble(one).get("revoked_links", 0) == 1)
            await until(lambda: links(one) == [2] and links(two) == [1])
            await two.group("all").publish(b"with the new key")
            assert await take(one.group("all"), 1) == [b"with the new key"]

    def _serial(node: Node) -> int:
        tls = node._running().links.tls
        assert tls is not None
        return tls.identity.passport.serial

    asyncio.run(story())


def test_a_token_gives_one_identity_and_no_more(tmp_path: Path) -> None:
    """Used twice, lapsed, for another id, at a node without authority, as a node: all refused."""
    town = Neighbourhood(tmp_path, 2, tls=True)

    def home(node: int) -> Path:
        return tmp_path / f"new-{node}"

    def again(_: int) -> Path:
        return tmp_path / "again"

    async def story() -> None:
        async with town.running() as (one, _):
            authority = town.authority
            assert authority is not None
            contact = Address("127.0.0.1", town.ports[1])
            token = make_token(authority, 7, 9, timedelta(minutes=1))
            with pytest.raises(NodeError, match="no authority to give identities"):
                await enrol(TcpCarrier(), Address("127.0.0.1", town.ports[2]), token, home, 5)
            assert (await ask(TcpCarrier(), contact, token, 5)).cluster == "test"
            node = await enrol(TcpCarrier(), contact, token, home, 5)
            identity = Identity.read(home(node))
            assert 7 <= node <= 9
            assert identity.passport.allows(node) and not identity.passport.allows(10)
            with pytest.raises(NodeError, match="this token was used before"):
                await enrol(TcpCarrier(), contact, token, again, 5)
            assert not again(0).exists()
            assert trouble(one)["enrolled"] == 1 and trouble(one)["refused_tokens"] == 1
            lapsed = make_token(authority, 7, 9, timedelta(seconds=-1))
            with pytest.raises(ConfigError, match="this token lapsed"):
                await enrol(TcpCarrier(), contact, lapsed, again, 5)
            certificate, key = authority.make_ticket(7, 7, timedelta(seconds=-1))
            ticket = Identity(
                *(tmp_path, certificate, key, authority.certificates, identity.passport)
            )
            with pytest.raises(OSError):  # nor is one that does not say so
                await greeting_at(
                    TcpCarrier(), contact, one.host().links.greeting, 5, client_context(ticket)
                )
            assert not again(0).exists()
            certificate, key = authority.make_ticket(7, 7, timedelta(minutes=1))
            ticket = Identity(
                *(tmp_path, certificate, key, authority.certificates, identity.passport)
            )
            # A token is no certificate of a node: whoever greets with it gets no link.
            mine = one._running().links.greeting
            theirs = await greeting_at(TcpCarrier(), contact, mine, 5, client_context(ticket))
            assert theirs.refusal and theirs.certificate == b"" and len(links(one)) == 1

    asyncio.run(story())


def test_a_node_without_its_identity_does_not_start(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 2, tls=True)
    (town.identity(1) / "key.pem").chmod(0o644)

    async def start(node: int) -> None:
        await town.node(node).start()

    with pytest.raises(ConfigError, match="others can read this key"):
        asyncio.run(start(1))
    (town.identity(2) / "certificate.pem").write_bytes(
        (town.identity(1) / "certificate.pem").read_bytes()
    )
    with pytest.raises(ConfigError, match=r"key\.pem is not the key of certificate\.pem"):
        asyncio.run(start(2))
    (town.identity(2) / "key.pem").unlink()
    with pytest.raises(CausalcastError, match="`causalcast keys` makes identities"):
        asyncio.run(start(2))


@pytest.mark.parametrize("tls", [True, False])
def test_a_peer_that_accepts_and_stays_silent_is_told_in_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    town = Neighbourhood(tmp_path, 2, tls=tls)
    caplog.set_level(logging.INFO)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", town.ports[1])):
            async with town.node(2) as node:
                await until(lambda: node.status()["trouble"].get("dials_failed", 0) >= 2)

    quick = {"runtime.links.links.dial_timeout": 1.0, "runtime.links.doorway.handshake_within": 0.5}
    with set_to(quick):
        asyncio.run(story())
    silent = f"dialling node 1 failed: 127.0.0.1:{town.ports[1]} says nothing; is there a node"
    # Without TLS the dial and the greeting on it end at almost the same moment.
    assert silent in caplog.text or (not tls and "no greeting came in time" in caplog.text)
    assert "Traceback" not in caplog.text and "never retrieved" not in caplog.text
