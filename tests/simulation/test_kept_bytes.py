"""What nodes keep for those who lack it is counted as it comes and goes, never by a walk."""

import pytest

from causalcast.core import GroupId, Message, MessageId, Multicast, Publication
from causalcast.core.message import publications_in
from causalcast.parts.addressed.reliable_links import ReliableLinks
from causalcast.parts.broadcast.stamped_broadcast import broadcast_of
from causalcast.parts.kept_weight import KEPT_OVERHEAD, SharedWeight
from causalcast.parts.safe_keeping import SafeKeeping
from causalcast.protocols.causal_barriers import CausalBarriers
from causalcast.protocols.causal_separators.protocol import CausalSeparators
from causalcast.protocols.cbcast.protocol import Cbcast
from causalcast.protocols.delta_neighbourhood import DeltaNeighbourhood
from causalcast.protocols.locamu.message_log import STANDBY_BYTES, MessageLog
from causalcast.protocols.locamu.messages import Copy
from causalcast.protocols.locamu.names import NAME_BYTES
from causalcast.protocols.locamu.protocol import Locamu
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast
from causalcast.registry import find_protocol
from causalcast.swarm.campaign import Plan, try_seed

SEEDS = range(2)  # one by random faults, one by the adversary
PROTOCOLS = [
    ("locamu", {}),
    ("locamu", {"f": "2"}),
    ("cbcast", {}),
    ("causal_barriers", {}),
    ("causal_separators", {}),
    ("delta_neighbourhood", {}),
    ("vector_clock_broadcast", {"spread": "direct"}),
]


def weigh(messages: list[Message]) -> int:
    """What they take, looked at one by one; each once."""
    different = {id(message): message for message in messages}
    bodies = [len(p.body) for message in different.values() for p in publications_in(message)]
    return KEPT_OVERHEAD * len(different) + sum(bodies)


def in_links(links: ReliableLinks) -> int:
    return weigh([message for peer in links.peers.values() for message in peer.kept.values()])


def in_safe(safe: SafeKeeping) -> int:
    return sum(weigh([message]) for _, _, message in safe.copies())


def recount(multicast: Multicast) -> int:
    """All that a node keeps."""
    if isinstance(multicast, Locamu):
        names = sum(map(len, multicast.names._keys.values())) + len(multicast.names.mine)
        standbys = sum(record.standby is not None for record in multicast.log.records)
        messages = sum(weigh([record.message]) for record in multicast.log.records)
        return messages + STANDBY_BYTES * standbys + NAME_BYTES * names
    if isinstance(multicast, Cbcast | CausalBarriers):
        return in_links(multicast.sending.links) + in_safe(multicast.sending.safe)
    if isinstance(multicast, DeltaNeighbourhood):
        bodies = [passage.publication.body for passage in multicast.passages.values()]
        bodies += [publication.body for publication in multicast.queue]
        return sum(KEPT_OVERHEAD + len(body) for body in bodies)
    if isinstance(multicast, VectorClockBroadcast):
        sending = broadcast_of(multicast).sending
        safe = [message for _, _, message in sending.safe.copies()]
        return sum(sending._weight(message) for message in [*sending._kept.values(), *safe])
    assert isinstance(multicast, CausalSeparators)
    found = sum(recount(zone.automaton) for zone in multicast.zones.values())
    for crossing in multicast.crossings:
        for kept in crossing.outgoing.kept.values():
            found += KEPT_OVERHEAD + len(kept.unit.publication.body)
    peers = multicast.links.peers.values()
    different = {id(message): message for peer in peers for message in peer.kept.values()}
    for message in different.values():
        found += KEPT_OVERHEAD + len(getattr(message, "unit", b""))
    return found


def count_is_right(multicast: Multicast) -> bool:
    return multicast.kept_bytes() == recount(multicast)


def nothing_is_counted(multicast: Multicast) -> bool:
    return multicast.kept_bytes() == 0


@pytest.mark.parametrize(("protocol", "options"), PROTOCOLS)
def test_the_count_is_right_after_every_step(
    protocol: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_protocol(protocol)
    monkeypatch.setattr(spec, "invariants", [*spec.invariants, count_is_right])
    monkeypatch.setattr(spec, "at_rest", [*spec.at_rest, nothing_is_counted])
    for seed in SEEDS:
        overlay = "mesh" if "spread" in options else ""
        plan = Plan(protocol, dict(options), overlay=overlay)
        assert try_seed(plan, seed).problems == []


@pytest.mark.parametrize(
    ("protocol", "where", "name"),
    [
        ("locamu", MessageLog, "remove"),
        ("cbcast", SharedWeight, "drop"),
        ("causal_barriers", SafeKeeping, "_forget_up_to"),
    ],
)
def test_a_count_that_is_forgotten_would_be_noticed(
    protocol: str, where: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = getattr(where, name)
    attribute = "bytes" if where is SharedWeight else "kept_bytes"

    def without_counting(self: object, *arguments: object) -> object:
        before = getattr(self, attribute)
        result = counted(self, *arguments)
        setattr(self, attribute, before)
        return result

    spec = find_protocol(protocol)
    monkeypatch.setattr(where, name, without_counting)
    monkeypatch.setattr(spec, "invariants", [count_is_right])
    broken = [try_seed(Plan(protocol), seed).broken() for seed in range(3)]
    assert any("invariant" in some for some in broken)


def test_what_is_kept_for_several_weighs_once() -> None:
    weight = SharedWeight(lambda message: len(publications_in(message)[0].body))
    copy = Copy(Publication(MessageId(1), GroupId(0), b"four"), b"")
    weight.keep(copy)
    weight.keep(copy)
    assert weight.bytes == KEPT_OVERHEAD + 4
    weight.drop(copy)
    assert weight.bytes == KEPT_OVERHEAD + 4
    weight.drop(copy)
    assert weight.bytes == 0
