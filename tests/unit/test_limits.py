"""Limits by name: set for a while, never to what is not legal, and put back."""

import pytest

from causalcast.limits import ONLY_DRAWN, Limit, Span, limits_of, set_to
from causalcast.runtime.links.links import DIAL_TIMEOUT
from causalcast.wire.framing import MOST_TOGETHER

FRAME, DIAL = MOST_TOGETHER.name, DIAL_TIMEOUT.name


def test_they_are_set_for_a_while_and_put_back_whatever_happens() -> None:
    before = MOST_TOGETHER.value
    with set_to({FRAME: 100, DIAL: 2.5}):
        assert (MOST_TOGETHER.value, DIAL_TIMEOUT.value) == (100, 2.5)
        assert isinstance(MOST_TOGETHER.value, int)
        with set_to({FRAME: 50}):
            assert MOST_TOGETHER.value == 50
        assert MOST_TOGETHER.value == 100
    with pytest.raises(KeyError), set_to({FRAME: 100}):
        raise KeyError
    assert (MOST_TOGETHER.value, DIAL_TIMEOUT.value) == (before, 5.0)


@pytest.mark.parametrize(
    "values", [{FRAME: 1}, {FRAME: 1 << 40}, {FRAME: 20.5}, {DIAL: 0.0}, {"wire.no_such": 1}]
)
def test_what_is_not_legal_is_refused_and_nothing_is_set(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"wire|runtime"), set_to({DIAL: 2.0, **values}):
        pass
    assert DIAL_TIMEOUT.value == 5.0


def test_a_name_stands_for_one_limit_whose_default_is_legal() -> None:
    with pytest.raises(ValueError, match="only one"):
        Limit(FRAME, 5, least=1, most=9, unit="bytes", about="a second one")
    with pytest.raises(ValueError, match=r"5\.0"):
        Span("test.too_long", 5.0, least=1.0, most=2.0, about="longer than the longest")


def test_rooms_list_what_is_in_them() -> None:
    wire = limits_of("wire")
    assert FRAME in wire and all(name.startswith("wire.") for name in wire)
    assert list(wire) == sorted(wire)
    every = limits_of("core", "wire", "trace", "runtime")
    assert DIAL in every
    assert every["runtime.node_config.inbox_bytes"].setting == "[limits] inbox_bytes"
    assert every[DIAL].setting == ONLY_DRAWN
