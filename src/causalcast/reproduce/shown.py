"""The results that are shown in the documentation: of several sizes, with what each size decides.

A claim counts as decided at a size where all points are there that its checks speak of: of some of
the points it might come out differently.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causalcast.reproduce.figure import SIZES, Claim, Figure, FigurePoint
from causalcast.reproduce.store import Row, Store
from causalcast.reproduce.verdicts import (
    UNDECIDED,
    ListedClaim,
    Verdict,
    all_verdicts,
    explanation_by,
    verdict_on,
)

SIZE = "size"
BY_TEST = "by tests"
ALL_SERIES = "*"
LARGEST_FIRST = tuple(reversed(SIZES))
RIVALS = "highest"
"""A check that looks at all series."""

Tables = Mapping[str, Sequence[Row]]
"""Rows of all sizes, by figure."""


@dataclass(frozen=True)
class Decided:
    """What came of a claim, and at which size."""

    verdict: Verdict
    size: str
    """A size, `BY_TEST`, or nothing."""
    further: str = ""
    """What some of the points of a larger size say."""


def kept_rows(figure: Figure, folder: Path) -> list[Row]:
    """All rows of a figure that a campaign has kept, of whichever code, each with its size."""
    rows = []
    for size in SIZES:
        store = Store(folder / size, folder / "points", any_code=True)
        found = [(point, store.row(point)) for point in figure.points(size)]
        if size == "large" and figure.points("large") == figure.points("full"):
            continue
        rows += [{SIZE: size, **row} for _, row in found if row is not None]
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """As CSV; what a column says nothing of is empty."""
    titles = list(dict.fromkeys(title for row in rows for title in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, titles, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[Row]:
    """What `write_rows` wrote: numbers are numbers again."""
    with path.open(newline="") as file:
        return [
            {title: _value(text) for title, text in row.items() if text != ""}
            for row in csv.DictReader(file)
        ]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rows_at(rows: Sequence[Row], size: str) -> list[Row]:
    """Those of one size."""
    return [row for row in rows if row.get(SIZE) == size]


def missing_points(figure: Figure, rows: Sequence[Row], size: str) -> list[FigurePoint]:
    """Those of a size that were not measured, or failed."""
    there = [row for row in rows_at(rows, size) if not row.get("error")]
    known: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
    missing = []
    for point in figure.points(size):
        label = {key: _value(str(value)) for key, value in point.label().items()}
        keys = tuple(label)
        if keys not in known:
            known[keys] = {tuple(row.get(key) for key in keys) for row in there}
        if tuple(label.values()) not in known[keys]:
            missing.append(point)
    return missing


def is_complete(claim: Claim, figure: Figure, missing: Sequence[FigurePoint], size: str) -> bool:
    """Whether nothing is missing that the check looks at."""
    settings = claim.settings_at(size)
    named = {settings[key] for key in ("series", "to", "over") if key in settings}
    everything = ALL_SERIES in named or claim.check == RIVALS
    for point in missing:
        looked_at = everything or point.series in named
        elsewhere = any(
            key in settings and settings[key] != value for key, value in point.values.items()
        )
        if looked_at and not elsewhere:
            return False
    return True


def decided(
    figures: Sequence[Figure],
    claims: Sequence[ListedClaim],
    tables: Tables,
    passed: Mapping[str, bool],
) -> list[Decided]:
    """Each claim at the largest size at which all of its points are there."""
    whole, part = {}, {}
    for size in SIZES:
        complete, some = _verdicts_at(size, figures, tables)
        explained = _explanations(size, figures, tables)
        whole[size] = {v.claim: v for v in all_verdicts(claims, complete, passed, explained)}
        part[size] = {v.claim: v for v in all_verdicts(claims, some, passed)}
    with_figure = {claim.id for figure in figures for claim in figure.claims}
    return [
        _decided(claim, whole, part)
        if claim.id in with_figure
        else Decided(whole["quick"][claim.id], BY_TEST if claim.tests else "")
        for claim in claims
    ]


def _decided(
    claim: ListedClaim,
    whole: Mapping[str, Mapping[str, Verdict]],
    part: Mapping[str, Mapping[str, Verdict]],
) -> Decided:
    further = ""
    for size in LARGEST_FIRST:
        if whole[size][claim.id].verdict != UNDECIDED:
            return Decided(whole[size][claim.id], size, further)
        some = part[size][claim.id]
        if some.verdict != UNDECIDED and not further:
            further = f"{some.verdict} by some points of {size}: {some.numbers}"
    return Decided(whole["quick"][claim.id], "", further)


def _verdicts_at(
    size: str, figures: Sequence[Figure], tables: Tables
) -> tuple[list[Verdict], list[Verdict]]:
    """By checks of which every point is there; and by all checks."""
    complete, some = [], []
    for figure in figures:
        rows = rows_at(tables.get(figure.name, ()), _size_of(figure, size))
        missing = missing_points(figure, tables.get(figure.name, ()), _size_of(figure, size))
        for claim in figure.claims:
            verdict = verdict_on(claim, figure, rows, size)
            some.append(verdict)
            if not is_complete(claim, figure, missing, _size_of(figure, size)):
                verdict = Verdict(claim.id, UNDECIDED, "points are missing", verdict.decided_by)
            complete.append(verdict)
    return complete, some


def _size_of(figure: Figure, size: str) -> str:
    """A large run is a full one where the figure has none of its own."""
    same = figure.points("large") == figure.points("full")
    return "full" if size == "large" and same else size


def _explanations(size: str, figures: Sequence[Figure], tables: Tables) -> dict[str, list[str]]:
    """Of the same size, or of the largest at which an experiment was made."""
    found: dict[str, list[str]] = {}
    for figure in figures:
        for claim in figure.explanations:
            for tried in dict.fromkeys((size, *LARGEST_FIRST)):
                rows = rows_at(tables.get(figure.name, ()), _size_of(figure, tried))
                told = explanation_by(claim, figure, rows, tried)
                if told:
                    found.setdefault(claim.id, []).append(told)
                    break
    return found


def drawn_size(figure: Figure, rows: Sequence[Row]) -> str:
    """The largest size of which all points are there, else that with most of its points."""
    shares = []
    for size in LARGEST_FIRST:
        points = figure.points(size)
        missing = missing_points(figure, rows, size)
        if not missing:
            return _size_of(figure, size)
        shares.append((1 - len(missing) / len(points), _size_of(figure, size)))
    return max(shares)[1]
