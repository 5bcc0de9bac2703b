"""What must hold of a node after every step, and when everybody has everything."""

from causalcast.core.automaton import Multicast
from causalcast.core.ids import NodeId
from causalcast.protocols.locamu.protocol import Locamu


def numbers_count_on(multicast: Multicast) -> bool:
    """What I numbered for a node has the numbers 1 to my count, each once."""
    assert isinstance(multicast, Locamu)
    last: dict[NodeId, int] = {}
    for record in multicast.log.records:
        for node, number in record.targets.items():
            if node in record.handed_on:
                continue  # numbered later than what came after it
            if number <= last.get(node, 0):
                return False
            last[node] = number
    counts = multicast.past.numbers
    return all(number <= counts[multicast.me, node] for node, number in last.items())


def dependencies_are_frozen(multicast: Multicast) -> bool:
    """A message depends on what I numbered before it, and on nothing that came later."""
    assert isinstance(multicast, Locamu)
    me = multicast.me
    return all(
        record.needs.get((me, node), 0) == number - 1
        for record in multicast.log.records
        for node, number in record.targets.items()
        if node not in record.handed_on
    )


def kept_has_arrived(multicast: Multicast) -> bool:
    """Every number that a kept message has for me counts as arrived."""
    assert isinstance(multicast, Locamu)
    return all(
        multicast.past.has_arrived(issuer, number)
        for record in multicast.log.records
        for issuer, number in record.numbers_for(multicast.me).items()
    )


def sent_was_safe(multicast: Multicast) -> bool:
    """No copy left without its publisher's numbers or those of f+1 nodes, or beyond reach."""
    assert isinstance(multicast, Locamu)
    return all(
        node in multicast.peers.reachable
        and (
            record.origin in before
            or sum(1 for issuer in before if record.numbers[issuer]) > multicast.peers.f
            or multicast.paths.is_all(record, before, node)
        )
        for record in multicast.log.records
        for node, before in record.sent.items()
    )


def all_is_near(multicast: Multicast) -> bool:
    """Nothing is known of nodes beyond the horizon or the window."""
    assert isinstance(multicast, Locamu)
    around, window = multicast.peers.around, 2 * multicast.peers.f + 1
    pairs = around.pairs_within(window, multicast.peers.reach)
    near = dict.fromkeys([*around.within(window), multicast.me])
    return all(pair in pairs for pair in multicast.past.numbers) and all(
        issuer in near for record in multicast.log.records for issuer in record.numbers
    )


def nothing_is_left(multicast: Multicast) -> bool:
    """Nothing is kept, indexed, held or missing once everybody has everything."""
    assert isinstance(multicast, Locamu)
    return multicast.is_idle()


def nobody_waits_to_be_admitted(multicast: Multicast) -> bool:
    """Who asked to join a group is in it once everybody is back."""
    return not multicast.asked_for()
