"""Claims as functions of a result table: each says whether it holds, and with which numbers.

A table is a list of rows, one per measurement; rows with equal `x` (other seeds) are averaged. A
table that lacks what a claim speaks of decides nothing: that is an error, not a verdict.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from causalcast.errors import ConfigError

Row = dict[str, Any]
Curve = list[tuple[float, float]]


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds in a table, and the numbers that say so."""

    holds: bool
    numbers: str


def curve(rows: Sequence[Row], series: str, x: str, y: str, where: Row | None = None) -> Curve:
    """The mean of `y` at each `x` of one series, by rising `x`."""
    found: dict[float, list[float]] = {}
    for row in rows:
        fits = all(row.get(key) == value for key, value in (where or {}).items())
        there = row.get(x) is not None and row.get(y) is not None
        if fits and there and row.get("series") == series:
            found.setdefault(float(row[x]), []).append(float(row[y]))
    if not found:
        raise ConfigError(f"no row of series {series!r} has {y!r} where {where or 'anything'}")
    return [(at, sum(values) / len(values)) for at, values in sorted(found.items())]


def _several(points: Curve) -> Curve:
    if len(points) < 2:
        raise ConfigError("a shape needs two points or more")
    return points


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _ends(points: Curve) -> str:
    first, last = points[0], points[-1]
    return f"{_number(first[1])} at {_number(first[0])}, {_number(last[1])} at {_number(last[0])}"


def flat(
    rows: Sequence[Row],
    series: str,
    x: str,
    y: str,
    within: float,
    since: float = -math.inf,
    **where: Any,
) -> Finding:
    """From `since` on, the largest value is at most `within` (a share) above the smallest."""
    every = curve(rows, series, x, y, where)
    points = _several([(at, value) for at, value in every if at >= since])
    values = [value for _, value in points]
    spread = max(values) / min(values) - 1 if min(values) > 0 else math.inf
    spread = 0.0 if max(values) == min(values) else spread
    return Finding(spread <= within, f"{_ends(points)}; varies by {spread:.1%}")


def rises(
    rows: Sequence[Row], series: str, x: str, y: str, by: float = 1.0, **where: Any
) -> Finding:
    """The last value is more than `by` times the first, and no step falls by more than 2 %."""
    points = _several(curve(rows, series, x, y, where))
    steps = all(b[1] >= 0.98 * a[1] for a, b in itertools.pairwise(points))
    return Finding(steps and points[-1][1] > by * points[0][1], _ends(points))


def falls(
    rows: Sequence[Row], series: str, x: str, y: str, by: float = 1.0, **where: Any
) -> Finding:
    """The first value is more than `by` times the last, and no step rises by more than 2 %."""
    points = _several(curve(rows, series, x, y, where))
    steps = all(b[1] <= 1.02 * a[1] for a, b in itertools.pairwise(points))
    return Finding(steps and points[0][1] > by * points[-1][1], _ends(points))


def peak_inside(rows: Sequence[Row], series: str, x: str, y: str, **where: Any) -> Finding:
    """The largest value is at neither end: it rises, then falls by more than 2 %."""
    points = _several(curve(rows, series, x, y, where))
    at, top = max(points, key=lambda point: point[1])
    inside = points[0][1] < 0.98 * top and points[-1][1] < 0.98 * top
    return Finding(inside, f"{_ends(points)}; most {_number(top)} at {_number(at)}")


def begins_near_the_top(
    rows: Sequence[Row], series: str, x: str, y: str, least: float, **where: Any
) -> Finding:
    """The first value is at least such a share of the largest."""
    points = _several(curve(rows, series, x, y, where))
    top = max(value for _, value in points)
    share = points[0][1] / top if top else 0.0
    return Finding(share >= least, f"{_ends(points)}; the first is {share:.1%} of the most")


def ratio(
    rows: Sequence[Row],
    series: str,
    to: str,
    x: str,
    y: str,
    least: float = 0.0,
    most: float = math.inf,
    at: str = "all",
    **where: Any,
) -> Finding:
    """`series` over `to` lies between two bounds: at all `x`, at the `first` or at the `last`."""
    below = dict(curve(rows, to, x, y, where))
    above = curve(rows, series, x, y, where)
    common = [(x_value, value) for x_value, value in above if x_value in below]
    if not common:
        raise ConfigError(f"{series!r} and {to!r} have no {x!r} in common")
    chosen = {"all": common, "first": common[:1], "last": common[-1:]}[at]
    shares = [
        (x_value, value / below[x_value] if below[x_value] else math.inf)
        for x_value, value in chosen
    ]
    low, high = min(shares, key=lambda s: s[1]), max(shares, key=lambda s: s[1])
    told = f"{series} / {to}: {_number(low[1])} at {_number(low[0])}"
    if len(shares) > 1:
        told += f" to {_number(high[1])} at {_number(high[0])}"
    return Finding(least <= low[1] and high[1] <= most, told)


def highest(rows: Sequence[Row], series: str, x: str, y: str, **where: Any) -> Finding:
    """At every `x` of every combination, no other series is above this one."""
    mine = dict(curve(rows, series, x, y, where))
    rivals = sorted({str(row["series"]) for row in rows} - {series})
    above = []
    for rival in rivals:
        for at, value in curve(rows, rival, x, y, where):
            if at in mine and value > mine[at]:
                above.append(
                    f"{rival} {_number(value)} against {_number(mine[at])} at {_number(at)}"
                )
    return Finding(not above, "; ".join(above[:3]) or f"highest at all {len(mine)} points")


def exponent(
    rows: Sequence[Row], series: str, x: str, y: str, low: float, high: float, **where: Any
) -> Finding:
    """The slope of a straight line through the logarithms of both lies between two bounds."""
    points = _several(curve(rows, series, x, y, where))
    slope, _ = _fit([(math.log(a), math.log(b)) for a, b in points])
    return Finding(low <= slope <= high, f"exponent {slope:.2f}; {_ends(points)}")


def linear(
    rows: Sequence[Row], series: str, x: str, y: str, least: float = 0.98, **where: Any
) -> Finding:
    """A straight line that rises explains at least this share of the variance."""
    points = _several(curve(rows, series, x, y, where))
    slope, explained = _fit(points)
    return Finding(
        slope > 0 and explained >= least, f"R² {explained:.4f}, {_number(slope)} per step"
    )


def crosses(rows: Sequence[Row], series: str, over: str, x: str, y: str, **where: Any) -> Finding:
    """`series` is below `over` at the first common `x` and above it at the last."""
    other = dict(curve(rows, over, x, y, where))
    points = [
        (at, value - other[at]) for at, value in curve(rows, series, x, y, where) if at in other
    ]
    points = _several(points)
    change = next((at for at, gap in points if gap > 0), None)
    told = f"first above at {_number(change)}" if change is not None else "never above"
    holds = points[0][1] < 0 < points[-1][1]
    return Finding(holds, f"{series} against {over}: {told} of {_number(points[-1][0])}")


def between(
    rows: Sequence[Row],
    series: str,
    y: str,
    least: float = -math.inf,
    most: float = math.inf,
    **where: Any,
) -> Finding:
    """Every value of a series lies between two bounds; series `*` are all of them."""
    values = [
        float(row[y])
        for row in rows
        if series in ("*", row.get("series"))
        and row.get(y) is not None
        and all(row.get(key) == value for key, value in where.items())
    ]
    if not values:
        raise ConfigError(f"no row of series {series!r} has {y!r}")
    low, high = min(values), max(values)
    told = _number(low) if low == high else f"{_number(low)} to {_number(high)}"
    return Finding(least <= low and high <= most, f"{told} in {len(values)} measurements")


def reaches(rows: Sequence[Row], series: str, y: str, least: float, **where: Any) -> Finding:
    """At least one value of a series is so large."""
    found = between(rows, series, y, **where)
    return Finding(not between(rows, series, y, most=_below(least), **where).holds, found.numbers)


def _below(value: float) -> float:
    return math.nextafter(value, -math.inf)


def product(
    rows: Sequence[Row], series: str, y: str, times: str, near: float, within: float, **where: Any
) -> Finding:
    """In every row `y` times another column is `near`, within a share of it."""
    products = [
        float(row[y]) * float(row[times])
        for row in rows
        if row.get("series") == series
        and row.get(y) is not None
        and all(row.get(key) == value for key, value in where.items())
    ]
    if not products:
        raise ConfigError(f"no row of series {series!r} has {y!r}")
    worst = max(abs(found / near - 1) for found in products)
    told = f"{_number(min(products))} to {_number(max(products))}, expected {_number(near)}"
    return Finding(worst <= within, told)


def _fit(points: Curve) -> tuple[float, float]:
    """Slope of the line of least squares, and the share of the variance that it explains."""
    mean_x = sum(a for a, _ in points) / len(points)
    mean_y = sum(b for _, b in points) / len(points)
    spread_x = sum((a - mean_x) ** 2 for a, _ in points)
    spread_y = sum((b - mean_y) ** 2 for _, b in points)
    if spread_x == 0:
        raise ConfigError("a line needs two different x")
    slope = sum((a - mean_x) * (b - mean_y) for a, b in points) / spread_x
    return slope, slope**2 * spread_x / spread_y if spread_y else 1.0


CHECKS: dict[str, Callable[..., Finding]] = {
    check.__name__: check
    for check in (
        flat, rises, falls, peak_inside, begins_near_the_top, ratio, highest, exponent, linear,
        crosses, between, reaches, product,
    )
}  # fmt: skip
