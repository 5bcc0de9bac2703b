"""What the documentation shows of results: the size at which a claim counts as decided."""

from pathlib import Path

from causalcast.reproduce.documented import document
from causalcast.reproduce.figure import Figure, read_figure
from causalcast.reproduce.shown import (
    Decided,
    decided,
    drawn_size,
    is_complete,
    missing_points,
    read_rows,
    write_rows,
)
from causalcast.reproduce.store import Row
from causalcast.reproduce.verdicts import CONFIRMED, REFUTED, UNDECIDED, ListedClaim

TEXT = """
source = "S000"
figure = "Fig. 0"
title = "a small one"
setting = "none"
family = "size"
[fixed]
quantity = "clock"
seed = 1
[quick]
nodes = [10, 20]
bits = [8, 32]
[full]
nodes = [10, 20, 200]
bits = [8, 32]
[[series]]
name = "clock"
[[series]]
name = "other"
[[plot]]
x = "nodes"
y = "bytes"
x_label = "nodes"
y_label = "bytes"
[[claim]]
id = "K1"
check = "rises"
series = "clock"
x = "nodes"
y = "bytes"
bits = 32
"""
CLAIMS = [
    ListedClaim("K1", "S000", "§1", "it grows | always"),
    ListedClaim("K2", "S000", "§2", "a test says so", tests=("tests/a.py::test_a",)),
    ListedClaim("K3", "S000", "§3", "nobody can tell", unmeasurable="it is gone"),
]


def figure_in(folder: Path, text: str = TEXT) -> Figure:
    path = folder / "small.toml"
    path.write_text(text)
    return read_figure(path)


def rows_of(figure: Figure, size: str, falling: bool = False) -> list[Row]:
    """All points of a size, as if they had been measured."""
    return [
        {
            "size": size,
            **point.label(),
            "bytes": point.values["nodes"] * (-1 if falling else 1) + 1000,
            "code": "abc",
            "verdict": "ok",
            "causal": True,
            "deliveries": 5,
        }
        for point in figure.points(size)
    ]


def on(figure: Figure, rows: list[Row]) -> Decided:
    return decided([figure], CLAIMS, {figure.name: rows}, {"tests/a.py::test_a": True})[0]


def test_the_largest_size_of_which_all_points_are_there_decides(tmp_path: Path) -> None:
    figure = figure_in(tmp_path)
    quick, full = rows_of(figure, "quick"), rows_of(figure, "full", falling=True)
    found = on(figure, quick)
    assert (found.size, found.verdict.verdict) == ("quick", CONFIRMED)
    found = on(figure, quick + full)
    assert (found.size, found.verdict.verdict, found.further) == ("full", REFUTED, "")
    assert on(figure, []).verdict.verdict == UNDECIDED


def test_some_points_of_a_larger_size_are_told_and_decide_nothing(tmp_path: Path) -> None:
    figure = figure_in(tmp_path)
    some = [row for row in rows_of(figure, "full", falling=True) if row["nodes"] < 200]
    found = on(figure, rows_of(figure, "quick") + some)
    assert (found.size, found.verdict.verdict) == ("quick", CONFIRMED)
    assert found.further.startswith("refuted by some points of full: ")


def test_what_a_check_does_not_look_at_may_be_missing(tmp_path: Path) -> None:
    figure = figure_in(tmp_path)
    (claim,) = figure.claims
    rows = rows_of(figure, "full")
    for series, bits, complete in (("other", 32, True), ("clock", 8, True), ("clock", 32, False)):
        left = [row for row in rows if (row["series"], row["bits"]) != (series, bits)]
        missing = missing_points(figure, left, "full")
        assert len(missing) == 3 and is_complete(claim, figure, missing, "full") == complete
    failed = [{**row, "error": "by hand"} for row in rows]
    assert len(missing_points(figure, failed, "full")) == 12
    everything = figure_in(tmp_path, TEXT.replace('series = "clock"', 'series = "*"'))
    left = [row for row in rows if row["series"] == "clock"]
    (of_all,) = everything.claims
    assert not is_complete(of_all, everything, missing_points(everything, left, "full"), "full")


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = rows_of(figure_in(tmp_path), "quick")
    rows[0] |= {"share": 0.1 + 0.2, "derived": False, "violated": None}
    write_rows(tmp_path / "rows.csv", rows)
    read = read_rows(tmp_path / "rows.csv")
    assert read[0] == {key: value for key, value in rows[0].items() if value is not None}
    assert read[1:] == rows[1:]


def test_the_page_has_numbers_of_every_size(tmp_path: Path) -> None:
    figure = figure_in(tmp_path)
    rows = rows_of(figure, "quick") + rows_of(figure, "full")[:4]
    tables = {figure.name: rows}
    found = decided([figure], CLAIMS, tables, {"tests/a.py::test_a": True})
    page = document([figure], CLAIMS, tables, found)
    assert drawn_size(figure, rows) == "quick"
    assert "| at small sizes only | 1 | 1 | 0 |" in page
    assert "| by tests, which have no size | 1 | 1 | 0 |" in page
    assert "Of 3 claims 2 can be measured here. 1 of those, 50%," in page
    assert "small 4 of 12" in page
    assert "causalcast reproduce --quick --figure small" in page and "Seed 1." in page
    assert "it grows \\| always | confirmed | quick | 1,010 at 10, 1,020 at 20" in page
    assert "nobody can tell | not measurable here | it is gone |" in page
    assert max(len(line) for line in page.splitlines() if line[:1] not in "|#!") <= 100
