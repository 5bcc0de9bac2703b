"""Messages that travelled as one are taken in as if they had come one by one."""

from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import Deliver, Groups, NodeId, Outbox, Publication, Send, Setup, message_id
from causalcast.core.effects import Duplicate, Effect, Hold, Note, Release, StartTimer
from causalcast.core.ids import GroupId, number_of
from causalcast.core.topology import Surroundings, Topology
from causalcast.parts.broadcast.reliable_sending import ACKNOWLEDGE, OPTIONS, Have
from causalcast.parts.broadcast.stamped_broadcast import Stamped
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.protocols.vector_clock_broadcast import VectorClockBroadcast

ME = NodeId(1)
OTHERS = [NodeId(2), NodeId(3), NodeId(4)]


def receiver(out: Outbox, spread: str = "direct", hand_over: bool = True) -> VectorClockBroadcast:
    """One of four who are all linked, and have nothing yet."""
    everybody = [ME, *OTHERS]
    groups = Groups({"all": everybody})
    graph = Topology({node: [peer for peer in everybody if peer != node] for node in everybody})
    options = {option.name: option.default for option in OPTIONS} | {
        "spread": spread,
        "hand_over": hand_over,
    }

    def no_inner(*_: object) -> None:
        raise AssertionError

    around = Surroundings(ME, graph, groups)
    setup = Setup(ME, "seed", options, groups, around, no_inner)  # type: ignore[arg-type]
    multicast = VectorClockBroadcast(setup)
    out.world.keeps_records = False
    for peer in OTHERS:
        multicast.broadcast.sending.on_neighbour_up(peer, out)
        multicast.broadcast.sending.on_message(peer, Have({}, [], True, False), out)
    out.effects.clear()
    return multicast


def a_run(origin: NodeId, first: int, count: int, needs: dict[NodeId, int]) -> list[Stamped]:
    return [
        Stamped(Publication(message_id(origin, number), GroupId(0), b""), needs)
        for number in range(first, first + count)
    ]


def told(effects: list[Effect]) -> list[tuple[object, ...]]:
    """What the world sees of a step."""
    seen: list[tuple[object, ...]] = []
    for effect in effects:
        if isinstance(effect, Deliver):
            seen.append(("deliver", effect.publication.id))
        elif isinstance(effect, Hold):
            seen.append(("hold", effect.message, effect.waits_for))
        elif isinstance(effect, Release | Duplicate):
            seen.append((type(effect).__name__, effect.message))
        elif isinstance(effect, Send):
            seen.append(("send", effect.to, repr(effect.message)))
        elif isinstance(effect, Note):
            seen.append(("note", effect.name, effect.subject))
        else:
            assert isinstance(effect, StartTimer)
            seen.append(("timer", effect.name, effect.subject))
    return seen


COUNTS = st.dictionaries(st.sampled_from(OTHERS), st.integers(1, 12), max_size=3)
RUNS = st.tuples(
    st.sampled_from(OTHERS), st.sampled_from(OTHERS), st.integers(1, 10), st.integers(2, 6), COUNTS
)


@given(st.lists(RUNS, max_size=12), st.sampled_from(["direct", "overlay"]))
def test_runs_are_taken_in_as_if_one_by_one(
    runs: list[tuple[NodeId, NodeId, int, int, dict[NodeId, int]]], spread: str
) -> None:
    together, apart = Outbox(), Outbox()
    taker, other = receiver(together, spread), receiver(apart, spread)
    for sender, origin, first, count, drawn in runs:
        needs = {node: number for node, number in drawn.items() if node != origin}
        messages = a_run(origin, first, count, needs)
        publications = tuple(message.publication for message in messages)
        taker.on_run(sender, messages[0], publications, together)
        for message in messages:
            other.on_message(sender, message, apart)
        assert told(together.effects) == told(apart.effects)
        assert taker.broadcast.delivery.delivered == other.broadcast.delivery.delivered
        assert taker.broadcast.sending.seen.counts == other.broadcast.sending.seen.counts
        for peer in OTHERS:
            known, expected = (one.broadcast.sending.neighbours[peer].has for one in (taker, other))
            assert (known.counts, known.beyond()) == (expected.counts, expected.beyond())
    for peer in OTHERS:
        together.effects.clear()
        apart.effects.clear()
        taker.on_timer(ACKNOWLEDGE, peer, together)
        other.on_timer(ACKNOWLEDGE, peer, apart)
        assert told(together.effects) == told(apart.effects)


def test_what_is_next_is_counted_at_once_and_acknowledged_in_time() -> None:
    out = Outbox()
    taker = receiver(out)
    first = 1
    acknowledged = []
    while not acknowledged:
        messages = a_run(OTHERS[0], first, 50, {})
        taker.on_run(OTHERS[0], messages[0], tuple(m.publication for m in messages), out)
        first += 50
        acknowledged = [e.message for e in out.effects if isinstance(e, Send)]
        delivered = [number_of(e.publication.id) for e in out.effects if isinstance(e, Deliver)]
        assert delivered == list(range(1, first))
    assert repr(acknowledged) == repr([Have({OTHERS[0]: 250}, [], False, False)])


def test_nothing_is_kept_for_a_dead_origin_where_nobody_wants_it() -> None:
    messages = a_run(OTHERS[0], 1, 5, {})
    for hand_over in (True, False):
        out = Outbox()
        taker = receiver(out, hand_over=hand_over)
        taker.on_run(OTHERS[0], messages[0], tuple(m.publication for m in messages), out)
        taker.on_message(OTHERS[0], a_run(OTHERS[0], 6, 1, {})[0], out)
        assert (taker.broadcast.sending.kept() > 0) == hand_over


def test_a_run_that_is_kept_weighs_what_its_bodies_weigh() -> None:
    out = Outbox()
    taker = receiver(out)
    publications = tuple(
        Publication(message_id(OTHERS[0], number), GroupId(0), b"x" * 100) for number in (1, 2, 3)
    )
    taker.on_run(OTHERS[0], Stamped(publications[0], {}), publications, out)
    assert taker.broadcast.sending.safe.kept_bytes == KEPT_OVERHEAD + 300
