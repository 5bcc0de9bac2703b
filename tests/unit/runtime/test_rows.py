"""Rows of messages that travel as one: each has its own, and its share of what is beside bodies."""

from causalcast.core.ids import GroupId, NodeId, message_id
from causalcast.core.message import Publication
from causalcast.runtime.host.rows import beside_bodies, run_row
from causalcast.runtime.node_trace import SEND
from causalcast.wire.forms import Description

ONE, TWO = NodeId(1), NodeId(2)


def test_what_is_beside_bodies_is_shared_out_to_the_last_byte() -> None:
    for lengths in ([5], [3, 0, 7], [1] * 64):
        publications = [
            Publication(message_id(ONE, number), GroupId(0), bytes(length))
            for number, length in enumerate(lengths, 1)
        ]
        for beside in range(200):
            total = sum(lengths) + beside
            about = Description("x", publications[0].id, 0, lengths[0], total - lengths[0])
            shares = beside_bodies(about, publications)
            assert sum(shares) == beside and len(shares) == len(lengths)
            assert max(shares) - min(shares) <= 1


def test_each_has_its_own_name_and_size() -> None:
    about = Description("kind", message_id(ONE, 1), 3, 10, 50, 2)
    publication = Publication(message_id(ONE, 2), GroupId(3), b"four")
    row = run_row(17, SEND, TWO, about, publication, 6)
    assert row == (17, SEND, message_id(ONE, 2), 3, 2, 4, 6, 2, "kind")
