"""The page of the documentation about results: each figure, its claims, and where numbers are from.

It is made of the tables in its folder alone, so that it can be made again, and compared, anywhere.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from causalcast.reproduce.figure import Figure
from causalcast.reproduce.page import judged_line
from causalcast.reproduce.shown import (
    BY_TEST,
    LARGEST_FIRST,
    SIZE,
    Decided,
    Tables,
    drawn_size,
    missing_points,
    rows_at,
)
from causalcast.reproduce.store import CODE, Row
from causalcast.reproduce.verdicts import NOT_MEASURABLE, UNDECIDED, ListedClaim

FOLDER = "reproduced"
WIDTH = 100
SIZE_WORDS = {
    "full": "at the sources' sizes",
    "large": "at 1,000 nodes, where the source has 10,000",
    "quick": "at small sizes only",
    BY_TEST: "by tests, which have no size",
}
INTRO = """
What `causalcast reproduce` came to, and where each number is from. The page is made by
`python scripts/reproduced_page.py` of the tables beside it, which have a row for each measurement:
all its values, the seed among them, and in `code` the hash of the code that made it. The same
command with the same seed gives the same numbers, except CPU time and what real processes do.
[The sources, measured again](reproduce.md) says how claims are decided.

A claim counts as decided at a size if all points are there that its check looks at. Where some of
the points of a larger size are there, the table says what they show.
"""


def document(
    figures: Sequence[Figure],
    claims: Sequence[ListedClaim],
    tables: Tables,
    found: Sequence[Decided],
) -> str:
    """The whole page, in Markdown."""
    listed = {claim.id: claim for claim in claims}
    by_id = {one.verdict.claim: one for one in found}
    every = [row for rows in tables.values() for row in rows]
    distinct = {str(sorted((k, str(v)) for k, v in _values(row).items())): row for row in every}
    parts = [
        "# What the sources' figures became",
        INTRO.strip(),
        counts(found),
        _wrapped(judged_line(list(distinct.values())) + " Points that figures share count once."),
        missing(figures, tables),
    ]
    for figure in figures:
        if tables.get(figure.name):
            parts.append(_figure(figure, tables[figure.name], by_id, listed))
    parts.append(_by_tests(found, listed))
    parts.append(_rest(found, listed))
    return "\n\n".join(parts) + "\n"


def counts(found: Sequence[Decided]) -> str:
    """How many claims were decided at which size, and what came of them."""
    lines = ["| decided | claims | confirmed | refuted |", "| --- | --- | --- | --- |"]
    for size in (BY_TEST, *LARGEST_FIRST):
        chosen = [one.verdict.verdict for one in found if one.size == size and _is_decided(one)]
        of = Counter(chosen)
        lines.append(
            f"| {SIZE_WORDS[size]} | {len(chosen)} | {of['confirmed']} | {of['refuted']} |"
        )
    others = Counter(one.verdict.verdict for one in found if not _is_decided(one))
    lines += [f"| {name} | {count} | | |" for name, count in sorted(others.items())]
    measurable = len(found) - others[NOT_MEASURABLE]
    there = sum(one.size in (BY_TEST, "full") and _is_decided(one) for one in found)
    lines += [
        "",
        _wrapped(
            f"Of {len(found)} claims {measurable} can be measured here. {there} of those, "
            f"{there / measurable:.0%}, were decided at the sources' sizes or by tests."
        ),
    ]
    return "\n".join(lines)


def missing(figures: Sequence[Figure], tables: Tables) -> str:
    """Of which figures not every point of the full size is there."""
    lines = []
    for figure in figures:
        points = figure.points("full")
        lacking = len(missing_points(figure, tables.get(figure.name, ()), "full"))
        if lacking:
            lines.append(f"{figure.name} {len(points) - lacking} of {len(points)}")
    if not lines:
        return "All points of the full size are there."
    return _wrapped(f"Points of the full size that are there: {', '.join(lines)}; all of others.")


def _is_decided(one: Decided) -> bool:
    return one.verdict.verdict not in (UNDECIDED, NOT_MEASURABLE)


def _figure(
    figure: Figure,
    rows: Sequence[Row],
    by_id: Mapping[str, Decided],
    listed: Mapping[str, ListedClaim],
) -> str:
    size = drawn_size(figure, rows)
    drawn = rows_at(rows, size)
    parts = [f"## {figure.source} {figure.number}", _wrapped(f"**{figure.title}**")]
    if figure.plots:
        parts.append(f"![{figure.name}, {size}]({FOLDER}/{figure.name}.svg)")
    parts.append(_wrapped(" ".join(figure.setting.split())))
    points = figure.points(size)
    there = len(points) - len(missing_points(figure, rows, size))
    seeds = sorted({row["seed"] for row in rows if "seed" in row})
    told = (
        f"Shown: size {size}, {there} of {len(points)} points. {judged_line(drawn)} "
        f"{_seeds(seeds)}Code: {', '.join(_codes(rows))}. [Table]({FOLDER}/{figure.name}.csv)."
    )
    parts.append(_wrapped(told))
    parts.append(f"```sh\ncausalcast reproduce --{size} --figure {figure.name}\n```")
    ids = list(dict.fromkeys(claim.id for claim in figure.claims))
    if ids:
        parts.append(_table([by_id[claim] for claim in ids], listed))
    return "\n\n".join(parts)


def _seeds(seeds: Sequence[Any]) -> str:
    if not seeds:
        return "No seed: nothing is drawn by chance, or seeds are counted from 0. "
    return f"Seed {', '.join(map(str, seeds))}. "


def _codes(rows: Iterable[Row]) -> list[str]:
    return sorted({str(row[CODE]) for row in rows})


def _table(found: Sequence[Decided], listed: Mapping[str, ListedClaim]) -> str:
    lines = ["| claim | verdict | size | measured |", "| --- | --- | --- | --- |"]
    for one in found:
        claim, verdict = listed[one.verdict.claim], one.verdict
        told = "; ".join(filter(None, [verdict.numbers, verdict.because, one.further]))
        words = f"**{claim.id}** {claim.section}: {claim.words}"
        lines.append(
            f"| {_cell(words)} | {verdict.verdict} | {one.size or 'none'} | {_cell(told)} |"
        )
    return "\n".join(lines)


def _by_tests(found: Sequence[Decided], listed: Mapping[str, ListedClaim]) -> str:
    lines = ["| claim | verdict | decided by |", "| --- | --- | --- |"]
    for one in found:
        if one.size != BY_TEST:
            continue
        claim, verdict = listed[one.verdict.claim], one.verdict
        tests = [f"`{test.removeprefix('tests/')}`" for test in claim.tests]
        told = ", ".join(tests) + (f"; {verdict.because}" if verdict.because else "")
        words = f"**{claim.id}** {claim.source} {claim.section}: {claim.words}"
        lines.append(f"| {_cell(words)} | {verdict.verdict} | {_cell(told)} |")
    return "\n\n".join(["## Claims that tests decide", "\n".join(lines)])


def _rest(found: Sequence[Decided], listed: Mapping[str, ListedClaim]) -> str:
    lines = ["| claim | verdict | why |", "| --- | --- | --- |"]
    for one in found:
        if one.verdict.verdict in (NOT_MEASURABLE, UNDECIDED) and one.size in ("", BY_TEST):
            claim, verdict = listed[one.verdict.claim], one.verdict
            words = f"**{claim.id}** {claim.source} {claim.section}: {claim.words}"
            told = verdict.because or verdict.numbers
            lines.append(f"| {_cell(words)} | {verdict.verdict} | {_cell(told)} |")
    return "\n\n".join(["## Claims that are not decided here", "\n".join(lines)])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _values(row: Row) -> Row:
    """What a measurement was of: the same in whichever figure, and at whichever size."""
    return {key: value for key, value in row.items() if key not in (SIZE, "figure", "series")}


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
