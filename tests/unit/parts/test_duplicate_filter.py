"""The compact filter answers as a plain set of ids would."""

from hypothesis import given
from hypothesis import strategies as st

from causalcast.core import NodeId, message_id
from causalcast.parts.duplicate_filter import DuplicateFilter

IDS = st.builds(
    lambda origin, number: message_id(NodeId(origin), number), st.integers(0, 3), st.integers(1, 12)
)


@given(st.lists(IDS, max_size=60))
def test_it_answers_as_a_set(ids: list[int]) -> None:
    filter_, model = DuplicateFilter(), set[int]()
    for identity in ids:
        assert filter_.add(identity) == (identity not in model)  # type: ignore[arg-type]
        model.add(identity)
        for origin in range(4):
            for number in range(1, 13):
                one = message_id(NodeId(origin), number)
                assert filter_.has(one) == (one in model)


@given(st.permutations(range(1, 20)))
def test_a_run_without_gaps_is_one_number(numbers: list[int]) -> None:
    filter_ = DuplicateFilter()
    for number in numbers:
        filter_.add(message_id(NodeId(1), number))
    assert filter_.counts == {NodeId(1): 19} and filter_.size() == 1


@given(st.lists(IDS, max_size=30), st.integers(0, 12))
def test_skipping_is_adding_all_before(ids: list[int], count: int) -> None:
    skipped, added = DuplicateFilter(), DuplicateFilter()
    for filter_ in (skipped, added):
        for identity in ids:
            filter_.add(identity)  # type: ignore[arg-type]
    skipped.skip_to(NodeId(0), count)
    for number in range(1, count + 1):
        added.add(message_id(NodeId(0), number))
    for number in range(1, 14):
        one = message_id(NodeId(0), number)
        assert skipped.has(one) == added.has(one)
    assert skipped.size() == added.size()
