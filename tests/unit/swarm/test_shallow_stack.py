"""In a trial functions call one another only so deep, and afterwards as deep as before."""

import sys

import pytest

from causalcast.swarm.trial import DEEPEST, shallow_stack


def nest(times: int) -> int:
    return 0 if times == 0 else 1 + nest(times - 1)


def test_what_nests_too_deep_is_noticed() -> None:
    before = sys.getrecursionlimit()
    with shallow_stack():
        assert nest(DEEPEST // 2) == DEEPEST // 2
        with pytest.raises(RecursionError):
            nest(DEEPEST + 10)
    assert sys.getrecursionlimit() == before
    assert nest(DEEPEST + 10) == DEEPEST + 10
