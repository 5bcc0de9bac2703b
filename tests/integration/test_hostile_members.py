"""A node of the cluster that lies: what it sends is refused and counted, and its link is closed."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from loopback_nodes import Neighbourhood, links, take, until

from causalcast import Node
from causalcast.core.ids import GroupId, MessageId, NodeId, message_id
from causalcast.core.message import Message, Publication
from causalcast.detectors.heartbeat import Beat
from causalcast.errors import ConfigError, NodeError
from causalcast.parts.addressed.addressed_messages import Entrusted, Published
from causalcast.parts.addressed.member_lists import Joined
from causalcast.parts.broadcast.reliable_sending import Have
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.protocols.cbcast.timestamped import Timestamped
from causalcast.protocols.locamu.messages import Admission, Gone, Subscription
from causalcast.protocols.naive_flood import Copy
from causalcast.runtime.links.greeting import read_greeting
from causalcast.runtime.security.admission import Admission as AdmissionCheck
from causalcast.runtime.security.signatures import SIGNATURE_BYTES, Signatures
from causalcast.runtime.security.tls import Tls, context
from causalcast.runtime.security.waiting import BYTES_PER_ORIGIN
from causalcast.wire.framing import frame

OURS = GroupId(0)
THEIRS = GroupId(1)
RIGHTS = """
[rights.theirs]
publish = [1]
subscribe = [1, 2]
"""
GROUPS = "ours = [1, 2, 3]\ntheirs = [1, 2]"


def publication(origin: int, number: int, group: int = OURS, body: bytes = b"x") -> Publication:
    return Publication(message_id(NodeId(origin), number), GroupId(group), body)


class Liar:
    """Has a good certificate of node 3, greets in good order, and then says what it likes."""

    def __init__(self, town: Neighbourhood, node: Node, wanted: int = 1) -> None:
        self._town = town
        self._wanted = wanted
        self._links = node._running().links
        self._codec = node._running().wire.codec

    async def __aenter__(self) -> "Liar":
        self.reader, self._writer = await asyncio.open_connection(
            "127.0.0.1",
            self._town.ports[self._wanted],
            ssl=context(self._town.identity(3), ssl.PROTOCOL_TLS_CLIENT),
        )
        hello = msgspec.structs.replace(
            self._links.greeting, node=3, start=1, link=3 << 32 | self._wanted, wanted=self._wanted
        )
        self._writer.write(frame(hello.encode()))
        length = int.from_bytes(await self.reader.readexactly(4))
        assert read_greeting(await self.reader.readexactly(length)).refusal == ""
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def say(self, message: Message) -> None:
        self._writer.write(frame(self._codec.encode(message)))


@asynccontextmanager
async def one_and_two(town: Neighbourhood) -> AsyncIterator[tuple[Node, Node]]:
    """Nodes 1 and 2, linked; node 3 is for somebody else to play."""
    async with town.node(1) as one, town.node(2) as two:
        await until(lambda: links(one) == [2])
        yield one, two


LIES: list[tuple[str, Callable[[], list[Publication]]]] = [
    ("rejected_as_myself", lambda: [publication(1, 7)]),
    ("rejected_unknown_origin", lambda: [publication(9, 1)]),
    ("rejected_unknown_group", lambda: [publication(3, 1, 2)]),
    ("rejected_without_right", lambda: [publication(3, 1, THEIRS)]),
]


@pytest.mark.parametrize(("counted", "lie"), LIES)
def test_a_publication_that_cannot_be_true_closes_the_link(
    tmp_path: Path, counted: str, lie: Callable[[], list[Publication]]
) -> None:
    town = Neighbourhood(tmp_path, 3, "naive_flood", groups=GROUPS, more=RIGHTS, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two):
            async with Liar(town, one) as liar:
                await until(lambda: 3 in links(one))
                liar.say(Copy(publication(3, 1, body=b"so far so good")))
                assert await take(two.group("ours"), 1) == [b"so far so good"]
                for untrue in lie():
                    liar.say(Copy(untrue))
                await until(lambda: one.status()["trouble"].get(counted, 0) == 1)
                await until(lambda: links(one) == [2])
            await one.group("theirs").publish(b"the rest goes on")
            assert await take(two.group("theirs"), 1) == [b"the rest goes on"]
            assert one.status()["delivered"] == {"ours": 1, "theirs": 1}
            assert f'kind="{counted}"}} 1' in one.metrics()

    asyncio.run(story())


def test_nobody_uses_up_the_numbers_of_an_origin(tmp_path: Path) -> None:
    """Where every node gets every publication, a number far ahead cannot be true."""
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            liar.say(Stamped(publication(3, 1, body=b"so far so good"), {}))
            assert await take(two.group("ours"), 1) == [b"so far so good"]
            liar.say(Stamped(publication(3, 1 << 30), {}))
            await until(lambda: one.status()["trouble"].get("rejected_number_ahead", 0) == 1)
            await until(lambda: links(one) == [2])

    asyncio.run(story())


PUBLISHED = Published(publication(3, 1), [], [], [])
STRANGERS: list[tuple[str, str, Message]] = [
    ("vector_clock_broadcast", "node", Stamped(publication(3, 1), {NodeId(77): 1})),
    ("vector_clock_broadcast", "node", Have({NodeId(77): 1}, [], True, False)),
    ("vector_clock_broadcast", "node", Have({}, [message_id(NodeId(77), 1)], True, False)),
    (
        "cbcast",
        "node",
        Timestamped(OURS, 1, 0, {OURS: {NodeId(77): 1}}, PUBLISHED),
    ),
    (
        "cbcast",
        "group",
        Timestamped(OURS, 1, 0, {GroupId(77): {NodeId(2): 1}}, PUBLISHED),
    ),
    ("causal_barriers", "group", Entrusted(NodeId(3), Joined(GroupId(77), 1))),
]


@pytest.mark.parametrize(("protocol", "kind", "message"), STRANGERS)
def test_nobody_speaks_of_nodes_and_groups_that_there_are_not(
    tmp_path: Path, protocol: str, kind: str, message: Message
) -> None:
    """Each of them would take memory at every node, for ever."""
    town = Neighbourhood(tmp_path, 3, protocol, groups="ours = [1, 2, 3]", tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            liar.say(message)
            await until(lambda: one.status()["trouble"].get(f"rejected_unknown_{kind}", 0) == 1)
            await until(lambda: links(one) == [2])
            await one.group("ours").publish(b"the rest goes on")
            assert await take(two.group("ours"), 1) == [b"the rest goes on"]

    asyncio.run(story())


def test_what_waits_for_a_cause_that_never_comes_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BYTES_PER_ORIGIN, "value", 100_000)
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            for number in range(1, 300):
                liar.say(Stamped(publication(3, number, body=b"x" * 1000), {NodeId(2): 1000}))
                await asyncio.sleep(0)
            await until(lambda: one.status()["trouble"].get("rejected_too_much_waits", 0) == 1)
            await until(lambda: links(one) == [2])
            for node in (one, two):
                held = node._running().parts.effects.waiting.by_message
                assert 50 <= len(held) < 120, "as much as one read brings may be beyond the limit"
            await one.group("ours").publish(b"the rest goes on")
            assert await take(two.group("ours"), 1) == [b"the rest goes on"]

    asyncio.run(story())


def test_what_is_released_waits_no_longer(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            waiting = one._running().parts.effects.waiting
            for number in (1, 2, 3):
                liar.say(Stamped(publication(3, number), {NodeId(2): 1}))
            await until(lambda: len(waiting.by_message) == 3)
            await two.group("ours").publish(b"the cause")
            assert len(await take(one.group("ours"), 4)) == 4
            assert not waiting.by_message and not waiting._by_origin

    asyncio.run(story())


def test_what_was_taken_in_before_is_purged_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, tls=True)
    journal = tmp_path / "node-1/data/journal"

    async def poisoned() -> None:
        async with one_and_two(town) as (one, _), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            liar.say(Stamped(publication(3, 1, body=b"poison"), {NodeId(77): 1}))
            await until(lambda: b"poison" in journal.read_bytes())

    async def mended() -> None:
        async with one_and_two(town) as (one, two):
            assert one.status()["trouble"]["purged_records"] == 1
            await one.group("ours").publish(b"the rest goes on")
            assert await take(two.group("ours"), 1) == [b"the rest goes on"]
            await until(lambda: b"poison" not in journal.read_bytes())

    with monkeypatch.context() as before:
        before.setattr(AdmissionCheck, "check_spoken_of", lambda *_: None)
        asyncio.run(poisoned())
    asyncio.run(mended())


@pytest.mark.parametrize(
    "protocol", ["cbcast", "causal_barriers", "locamu", "delta_neighbourhood", "naive_flood"]
)
def test_numbers_that_went_to_other_groups_cut_no_link(tmp_path: Path, protocol: str) -> None:
    """A node does not see what is published to groups it is not in, and numbers go over all."""
    town = Neighbourhood(tmp_path, 3, protocol, 'kind = "line"', groups="ours = [1, 2, 3]")
    if protocol in ("cbcast", "causal_barriers"):
        town = Neighbourhood(tmp_path, 3, protocol, groups="ours = [1, 2, 3]")

    async def story() -> None:
        async with town.node(1) as one, town.node(2) as two, town.node(3) as three:
            await until(lambda: 2 in links(one) and {1, 3} <= {*links(two)})
            await one.group("ours").publish(b"first")
            # As many as to groups that the others are not in.
            one._running().parts.publishing.published += 1 << 20
            await one.group("ours").publish(b"second")
            assert await take(two.group("ours"), 2) == [b"first", b"second"]
            assert await take(three.group("ours"), 2) == [b"first", b"second"]
            trouble = [node.status()["trouble"] for node in (one, two, three)]
            assert not any("rejected_number_ahead" in counts for counts in trouble)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("protocol", "claim"),
    [
        ("causal_barriers", Joined(THEIRS, 1)),
        ("cbcast", Entrusted(NodeId(3), Joined(THEIRS, 1))),
        ("locamu", Subscription(THEIRS, NodeId(3), b"")),
        ("locamu", Admission(THEIRS, NodeId(3), 1, b"")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_member_without_the_right_is_not_taken_in(
    tmp_path: Path, protocol: str, claim: Message
) -> None:
    """Messages declare whom they make a member, whatever the protocol; who may not is refused."""
    overlay = 'kind = "star"' if protocol == "locamu" else 'kind = "full_mesh"'
    town = Neighbourhood(tmp_path, 3, protocol, overlay, groups=GROUPS, more=RIGHTS, tls=True)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        try:
            async with Liar(town, one) as liar:
                await until(lambda: 3 in links(one))
                liar.say(claim)
                await until(lambda: one.status()["trouble"].get("rejected_without_right", 0) == 1)
                assert links(one) == []
        finally:
            await one.stop()

    asyncio.run(story())


def test_who_has_no_right_is_told_at_once(tmp_path: Path) -> None:
    town = Neighbourhood(tmp_path, 3, "naive_flood", groups=GROUPS, more=RIGHTS)

    async def story() -> None:
        three = town.node(3)
        await three.start()
        try:
            with pytest.raises(NodeError, match=r"no right to publish to 'theirs'; list node 3 "):
                await three.group("theirs").publish(b"x")
            with pytest.raises(NodeError, match=r"no right to be a member of 'theirs'; list"):
                async with three.group("theirs"):
                    pass
            assert three.status()["published"] == {}
        finally:
            await three.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ("[rights.thiers]\npublish = [1]", "unknown key 'rights.thiers'; did you mean 'theirs'?"),
        ("[rights.theirs]\npublish = 1", "rights.theirs.publish = 1: expected '*' or a list"),
        ("[rights.theirs]\nread = [1]", "unknown key 'rights.theirs.read'"),
        ("[rights.ours]\nsubscribe = [1, 2]", "groups.ours has node 3, and rights.ours.subscribe"),
    ],
)
def test_wrong_rights_are_named(tmp_path: Path, rights: str, expected: str) -> None:
    town = Neighbourhood(tmp_path, 3, groups=GROUPS, more=rights)
    with pytest.raises(ConfigError) as caught:
        town.config(1)
    assert expected in str(caught.value)


# Signed publications

SIGN = "\nsign = true\n"


def test_what_origins_sign_passes_relays_and_restarts(tmp_path: Path) -> None:
    """On a line 1-2-3 node 3 gets what node 1 signed through node 2; payloads are as published."""
    town = Neighbourhood(tmp_path, 3, overlay='kind = "line"', more=SIGN, tls=True)

    async def story() -> None:
        async with town.running() as (one, _, three):
            await one.group("all").publish(b"signed")
            assert await take(three.group("all"), 1, ack=False) == [b"signed"]
            assert await take(one.group("all"), 1, ack=False) == [b"signed"]
        for number in (3, 1):  # what was not acknowledged comes again, from the journal
            again = town.node(number)
            await again.start()
            assert await take(again.group("all"), 1) == [b"signed"]
            await again.stop()

    asyncio.run(story())


def changed_body(signed: bytes, _: Callable[[MessageId, bytes], bytes]) -> bytes:
    return signed[:-1] + b"!"


def changed_signature(signed: bytes, _: Callable[[MessageId, bytes], bytes]) -> bytes:
    return bytes([signed[0] ^ 1]) + signed[1:]


def no_signature(_: bytes, __: Callable[[MessageId, bytes], bytes]) -> bytes:
    return b"nobody signed this"


def no_certificate(signed: bytes, _: Callable[[MessageId, bytes], bytes]) -> bytes:
    return signed[:SIGNATURE_BYTES] + b"\x00\x04oops" + b"body"


def own_signature(_: bytes, sign: Callable[[MessageId, bytes], bytes]) -> bytes:
    """The relay signs with its own key what it says is the origin's."""
    return sign(message_id(NodeId(2), 1), b"body")


Forgery = Callable[[bytes, Callable[[MessageId, bytes], bytes]], bytes]


@pytest.mark.parametrize(
    "forge", [changed_body, changed_signature, no_signature, no_certificate, own_signature]
)
def test_a_relay_cannot_change_or_make_up_what_is_signed(tmp_path: Path, forge: Forgery) -> None:
    """Node 3 hands on what is said to be node 2's; only what node 2 signed is taken."""
    town = Neighbourhood(tmp_path, 3, "naive_flood", more=SIGN, tls=True)

    async def story() -> None:
        one = town.node(1)
        await one.start()
        try:
            first = message_id(NodeId(2), 1)
            origin = Signatures(Tls(town.identity(2), "test"))
            relay = Signatures(Tls(town.identity(3), "test"))
            signed = origin.sign(first, OURS, b"body")
            forged = forge(signed, lambda message, body: relay.sign(message, OURS, body))
            async with Liar(town, one) as liar:
                await until(lambda: 3 in links(one))
                liar.say(Copy(Publication(first, OURS, forged)))
                await until(lambda: one.status()["trouble"].get("rejected_bad_signature", 0) == 1)
                assert links(one) == [] and one.status()["delivered"] == {}
            async with Liar(town, one) as liar:  # the true one is not lost by the forged one
                liar.say(Copy(Publication(first, OURS, signed)))
                assert await take(one.group("all"), 1) == [b"body"]
        finally:
            await one.stop()

    asyncio.run(story())


def test_who_signs_two_bodies_under_one_number_is_blamed_and_nobody_else(tmp_path: Path) -> None:
    """Node 3 says one thing to node 1 and another to node 2; each gets the other's copy."""
    town = Neighbourhood(tmp_path, 3, more=SIGN, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two):
            liar = Signatures(Tls(town.identity(3), "test"))
            first = message_id(NodeId(3), 1)
            told = [Publication(first, OURS, liar.sign(first, OURS, body)) for body in (b"a", b"b")]
            async with Liar(town, one, 1) as to_one, Liar(town, two, 2) as to_two:
                to_one.say(Stamped(told[0], {}))
                to_two.say(Stamped(told[1], {}))
                for node in (one, two):
                    await until(lambda node=node: "two_bodies" in node.status()["trouble"])
                    kept = node.config.storage / "evidence" / "3.1.json"
                    assert len(json.loads(kept.read_text())["publications"]) == 2
                assert 2 in links(one) and 1 in links(two), "honest nodes blame nobody but the liar"
                second = message_id(NodeId(3), 2)
                more = Publication(second, OURS, liar.sign(second, OURS, b"trust me"))
                to_one.say(Stamped(more, {}))
                await until(lambda: one.status()["trouble"].get("rejected_two_bodies", 0) == 1)
                await until(lambda: links(one) == [2])
            assert one.status()["delivered"] == two.status()["delivered"] == {"all": 1}
            await one.group("all").publish(b"the rest goes on")
            assert (await take(two.group("all"), 2))[1] == b"the rest goes on"

    asyncio.run(story())


def test_nobody_is_gone_whom_the_authority_has_not_revoked(tmp_path: Path) -> None:
    """On a line 1-2-3-4 node 3 tells that node 4 is gone, which is down for a while."""
    town = Neighbourhood(tmp_path, 4, "locamu", 'kind = "line"', tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, two, 2) as liar:
            await until(lambda: 3 in links(two))
            liar.say(Gone(NodeId(4), True, [], True))
            await until(lambda: two.status()["trouble"].get("unproven_gone", 0) == 1)
            assert two.status()["conditions"]["gone"] == 0 and 3 in links(two)
            with pytest.raises(NodeError, match="the authority has not revoked node 4"):
                two.command("gone 4")
            one.command("gone 4")  # which has the authority: that is the proof
            await until(lambda: two._running().links.tls.revocations.nodes == {4})  # type: ignore[union-attr]
            liar.say(Gone(NodeId(4), True, [], True))
            await until(lambda: two.status()["conditions"]["gone"] == 1)

    asyncio.run(story())


def test_nobody_expels_a_node_that_is_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a line 1-2-3 node 3 tells node 2 that node 1 is gone, which it has a link to."""
    monkeypatch.setattr(AdmissionCheck, "are_proven_gone", lambda *_: True)  # as without TLS
    town = Neighbourhood(tmp_path, 3, "locamu", 'kind = "line"', tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, two, 2) as liar:
            await until(lambda: 3 in links(two))
            liar.say(Gone(NodeId(1), True, [], True))
            await until(lambda: two.status()["conditions"]["gone_refused"] == 1)
            await one.group("all").publish(b"still here")
            assert await take(two.group("all"), 1) == [b"still here"]
            assert two.status()["conditions"]["gone"] == 0

    asyncio.run(story())


# Too much of something


def test_who_floods_with_control_messages_is_read_slowly(tmp_path: Path) -> None:
    """Five thousand beats at once: the link stays, its reading pauses, others are not held up."""
    more = '[limits]\ncontrol_per_second = 100\n[detector]\nkind = "heartbeat"\n'
    town = Neighbourhood(tmp_path, 3, "naive_flood", more=more, tls=True)

    async def story() -> None:
        async with one_and_two(town) as (one, two), Liar(town, one) as liar:
            await until(lambda: 3 in links(one))
            for _ in range(5000):
                liar.say(Beat())
            await until(lambda: one.status()["trouble"].get("slowed_down", 0) == 1)
            await two.group("all").publish(b"meanwhile")
            assert await take(one.group("all"), 1) == [b"meanwhile"]
            liar.say(Copy(publication(3, 1, body=b"too fast")))
            await asyncio.sleep(0.2)
            assert one.status()["delivered"] == {"all": 1} and 3 in links(one)

    asyncio.run(story())
