"""Checks of claims, on tables made by hand: each is true of one and false of another."""

from typing import Any

import pytest

from causalcast.errors import ConfigError
from causalcast.reproduce.checks import CHECKS

XY = {"series": "A", "x": "n", "y": "v"}


def table(**curves: list[float]) -> list[dict[str, Any]]:
    """One row per value; `n` is 1, 2, 4, 8, …"""
    return [
        {"series": name, "n": 2**place, "v": value, "w": 2.0}
        for name, values in curves.items()
        for place, value in enumerate(values)
    ]


CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = [
    ("flat", {**XY, "within": 0.1}, table(A=[10, 10.5, 10]), table(A=[10, 12, 10])),
    ("flat", {**XY, "within": 0, "since": 2}, table(A=[9, 1, 1]), table(A=[1, 1, 2])),
    ("rises", {**XY, "by": 2}, table(A=[1, 2, 3]), table(A=[1, 2, 1.5])),
    ("rises", XY, table(A=[1, 2, 3]), table(A=[1, 5, 3])),
    ("falls", {**XY, "by": 2}, table(A=[3, 2, 1]), table(A=[3, 2, 2])),
    ("falls", XY, table(A=[3, 2, 1]), table(A=[3, 4, 1])),
    ("begins_near_the_top", {**XY, "least": 0.9}, table(A=[9, 10]), table(A=[8, 10])),
    ("peak_inside", XY, table(A=[1, 3, 2]), table(A=[1, 2, 3])),
    ("ratio", {**XY, "to": "B", "least": 2}, table(A=[4, 6], B=[2, 2]), table(A=[4, 3], B=[2, 2])),
    ("ratio", {**XY, "to": "B", "most": 1}, table(A=[1, 1], B=[2, 2]), table(A=[1, 3], B=[2, 2])),
    (
        "ratio",
        {**XY, "to": "B", "least": 2, "at": "last"},
        table(A=[1, 4], B=[2, 2]),
        table(A=[4, 1], B=[2, 2]),
    ),
    ("highest", XY, table(A=[3, 3], B=[2, 2]), table(A=[3, 1], B=[2, 2])),
    ("exponent", {**XY, "low": 1.9, "high": 2.1}, table(A=[1, 4, 16]), table(A=[1, 2, 4])),
    ("linear", XY, table(A=[1, 2, 4]), table(A=[1, 9, 4])),
    ("linear", XY, table(A=[1, 2, 4]), table(A=[4, 3, 1])),
    ("crosses", {**XY, "over": "B"}, table(A=[1, 3], B=[2, 2]), table(A=[1, 1], B=[2, 2])),
    ("crosses", {**XY, "over": "B"}, table(A=[1, 3], B=[2, 2]), table(A=[3, 3], B=[2, 2])),
    ("between", {"series": "A", "y": "v", "most": 2}, table(A=[1, 2]), table(A=[1, 2.1])),
    ("between", {"series": "*", "y": "v", "least": 1}, table(A=[1], B=[1]), table(A=[1], B=[0])),
    ("reaches", {"series": "A", "y": "v", "least": 2}, table(A=[0, 2]), table(A=[0, 1])),
    (
        "product",
        {"series": "A", "y": "v", "times": "w", "near": 4, "within": 0.01},
        table(A=[2, 2]),
        table(A=[2, 2.1]),
    ),
]


@pytest.mark.parametrize(("check", "settings", "good", "bad"), CASES)
def test_a_check_tells_a_true_table_from_a_false_one(
    check: str, settings: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    assert CHECKS[check](good, **settings).holds
    assert not CHECKS[check](bad, **settings).holds


def test_every_check_is_tried() -> None:
    assert {case[0] for case in CASES} == set(CHECKS)


@pytest.mark.parametrize(("check", "settings"), [(case[0], case[1]) for case in CASES])
def test_a_table_without_what_is_claimed_decides_nothing(
    check: str, settings: dict[str, Any]
) -> None:
    for rows in ([], [{"series": "A", "n": 1, "w": 1.0}]):
        with pytest.raises(ConfigError):
            CHECKS[check](rows, **settings)


def test_other_seeds_are_averaged_and_other_columns_chosen() -> None:
    rows = [
        {"series": "A", "n": 1, "v": 1.0, "size": 1},
        {"series": "A", "n": 1, "v": 3.0, "size": 1},
        {"series": "A", "n": 2, "v": 2.0, "size": 1},
        {"series": "A", "n": 2, "v": 9.0, "size": 2},
    ]
    assert CHECKS["flat"](rows, **XY, within=0.0, size=1).holds
    assert not CHECKS["flat"](rows, **XY, within=0.0).holds
