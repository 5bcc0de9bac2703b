"""A set of numbers that come almost in order behaves like a set."""

import random

import pytest

from causalcast.protocols.locamu.local_past import NumberSet


@pytest.mark.parametrize("seed", range(20))
def test_it_behaves_like_a_set(seed: int) -> None:
    rng = random.Random(seed)
    numbers, model = NumberSet(), set[int]()
    for _ in range(200):
        number = rng.randint(1, 40)
        assert numbers.add(number) == (number not in model)
        model.add(number)
        to, own = rng.randint(0, 45), rng.randint(0, 45)
        missing = [n for n in range(1, to + 1) if n not in model and n != own]
        assert numbers.missing(to, own) == missing
        assert numbers.first_missing(to, own) == (missing[0] if missing else 0)
        assert numbers.last_missing(to, own) == (missing[-1] if missing else 0)
        assert all(numbers.has(n) == (n in model) for n in range(1, 46))


def test_a_run_without_gaps_is_one_number() -> None:
    numbers = NumberSet()
    for number in [3, 1, 5, 2, 4]:
        numbers.add(number)
    assert numbers.count == 5
    assert not numbers.extras
