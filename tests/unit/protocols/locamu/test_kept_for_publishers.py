"""What is kept for nodes that are away is counted, so that publishers wait for it in the end."""

from line_of_five import N0, N1, N2, N3, copy_from_1, state_of

from causalcast.core import Outbox
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.tree.neighbourhood import NOBODY
from causalcast.protocols.locamu.message_log import STANDBY_BYTES, MessageLog, Record, Standby
from causalcast.protocols.locamu.names import NAME_BYTES, KnownNames


def test_what_it_takes_to_stand_in_counts_once_and_no_longer_than_the_message() -> None:
    log = MessageLog(N2)
    copy = copy_from_1(1, {})
    record = Record(copy.message, N0, 0, N1, copy.numbers, 0)
    log.add(record)
    assert log.kept_bytes == KEPT_OVERHEAD
    for _ in range(2):  # a second copy of the publisher, or a record read twice
        log.stand_by(record, Standby({N2: 1}, {}))
        assert log.kept_bytes == KEPT_OVERHEAD + STANDBY_BYTES
    log.remove(record)
    assert log.kept_bytes == 0
    both = Record(copy.message, N0, 0, NOBODY, copy.numbers, 0)
    both.standby = Standby({N2: 1}, {})
    log.add(both)
    assert log.kept_bytes == KEPT_OVERHEAD + STANDBY_BYTES


def test_names_count_until_they_are_settled() -> None:
    names = KnownNames(state_of(N2))
    names.learn(N1, {(1,): {N0: 1, N3: 1, N2: 1}, (2,): {N0: 2}}, Outbox())
    names.learn(N1, {(1,): {N0: 1}}, Outbox())  # known
    assert names.kept_bytes() == 4 * NAME_BYTES
    assert names.take_mine((1,)) == {N1: 1}
    names.settle(N1, {N0: 1})
    assert (names.size(), names.kept_bytes()) == (2, 2 * NAME_BYTES)
    names.forget_gone(N3)
    assert (names.size(), names.kept_bytes()) == (1, NAME_BYTES)
    names.settle(N1, {N0: 2})
    assert (names.size(), names.kept_bytes()) == (0, 0)
