"""Whatever the order of arrival, publications come out causes first, each once, none forgotten."""

import random

from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import GroupId, NodeId, Publication, message_id, number_of, origin_of
from causalcast.parts.causal_delivery import NOTHING, CausalDelivery
from causalcast.parts.vector_clock import VectorClock

Stamped = tuple[Publication, VectorClock]


def history(seed: int, nodes: int, length: int) -> list[Stamped]:
    """Publications of nodes that have each seen some of what came before."""
    rng = random.Random(seed)
    seen: list[VectorClock] = [{} for _ in range(nodes)]
    published: list[Stamped] = []
    for _ in range(length):
        node = NodeId(rng.randrange(nodes))
        for publication, needs in published:
            if rng.random() < 0.4 and all(seen[node].get(n, 0) >= c for n, c in needs.items()):
                origin, number = origin_of(publication.id), number_of(publication.id)
                if seen[node].get(origin, 0) == number - 1:
                    seen[node][origin] = number
        needs = {n: c for n, c in seen[node].items() if n != node}
        number = seen[node].get(node, 0) + 1
        seen[node][node] = number
        published.append((Publication(message_id(node, number), GroupId(0), b""), needs))
    return published


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_causes_come_first_and_everything_comes_once(seed: int, rng: random.Random) -> None:
    published = history(seed, nodes=4, length=20)
    rng.shuffle(published)
    needs = {publication.id: deps for publication, deps in published}
    delivery, delivered = CausalDelivery(), dict[NodeId, int]()
    for publication, deps in published:
        for ready in (held.publication for held in delivery.arrive(publication, deps)):
            origin, number = origin_of(ready.id), number_of(ready.id)
            assert delivered.get(origin, 0) == number - 1
            assert all(delivered.get(n, 0) >= c for n, c in needs[ready.id].items())
            delivered[origin] = number
    assert sum(delivered.values()) == len(published)
    assert delivery.held() == []
    assert delivery.delivered == delivered


def test_what_is_held_waits_for_a_message_that_is_missing() -> None:
    cause = Publication(message_id(NodeId(1), 1), GroupId(0), b"cause")
    effect = Publication(message_id(NodeId(2), 1), GroupId(0), b"effect")
    delivery = CausalDelivery()
    assert delivery.arrive(effect, {NodeId(1): 1}) == []
    assert delivery.waits_for(effect.id) == cause.id
    assert [held.publication for held in delivery.arrive(cause, {})] == [cause, effect]
    assert delivery.waits_for(effect.id) == NOTHING
