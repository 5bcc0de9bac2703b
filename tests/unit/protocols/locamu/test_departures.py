"""What was held when a node was given up does not come too late, in a later life either."""

from causalcast.core import NodeId
from causalcast.core.topology import Topology
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu.departures import Departures


def departures() -> Departures:
    line = {NodeId(n): [NodeId(m) for m in (n - 1, n + 1) if 0 <= m < 5] for n in range(5)}
    return Departures(Neighbourhood(NodeId(0), Topology(line)), 3, 5)


def test_numbers_of_held_copies_are_expected() -> None:
    found = departures()
    found.declare(NodeId(1))
    found.give_up(NodeId(1), [[2, 7, 1, 4], [3, 1]])
    assert list(found.given_up) == [1]
    assert found.expects(NodeId(2), 7) and found.expects(NodeId(1), 4)
    assert found.expects(NodeId(3), 1)
    assert not found.expects(NodeId(1), 7) and not found.expects(NodeId(2), 4)


def test_a_copy_that_its_sender_cannot_send_again_is_not_expected_for_ever() -> None:
    found = departures()
    found.declare(NodeId(1))
    found.give_up(NodeId(1), [[2, 7, 1, 4], [3, 1, 1, 5]])
    found.declare(NodeId(2))
    found.give_up(NodeId(2), [])
    assert not found.expects(NodeId(1), 4)
    assert found.expects(NodeId(1), 5)
