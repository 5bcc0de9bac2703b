"""The files of the figures and the list of claims fit one another, and results are kept."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causalcast.errors import ConfigError
from causalcast.reproduce import campaign, results, store
from causalcast.reproduce.campaign import run_points
from causalcast.reproduce.drawing import draw
from causalcast.reproduce.families.judged_run import verdict_within_parts
from causalcast.reproduce.figure import FIGURES, all_figures, chosen_points, read_figure
from causalcast.reproduce.properties import CHECKOUT, outcomes_of
from causalcast.reproduce.results import results_of
from causalcast.reproduce.store import Store, code_of, hash_of_code
from causalcast.reproduce.verdicts import (
    CONFIRMED,
    NOT_MEASURABLE,
    REFUTED,
    UNDECIDED,
    ListedClaim,
    Verdict,
    all_verdicts,
    explanation_by,
    listed_claims,
    verdict_on,
)

SMALL = """
source = "S000"
figure = "Fig. 0"
title = "a small one"
setting = "none"
family = "size"
[fixed]
quantity = "clock"
bits = 32
[quick]
nodes = [10, 200]
[full]
nodes = [10, 200, 1000]
[[series]]
name = "clock"
[[plot]]
x = "nodes"
y = "bytes"
x_label = "nodes"
y_label = "bytes"
[[claim]]
id = "K1-13"
check = "between"
series = "clock"
y = "bytes"
nodes = 200
least = 800
most = 800
"""


def small(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.toml"
    path.write_text(text)
    return path


def test_every_claim_of_a_figure_is_listed_and_every_series_and_column_exists() -> None:
    listed = {claim.id for claim in listed_claims()}
    for figure in all_figures():
        for claim in figure.claims:
            assert claim.id in listed, f"{figure.name}: {claim.id}"
            named = {
                claim.settings[key] for key in ("series", "to", "over") if key in claim.settings
            }
            assert named <= {*figure.series, "*"}, f"{figure.name}: {claim.id}: {named}"


def test_the_list_has_all_231_claims_once() -> None:
    ids = [claim.id for claim in listed_claims()]
    assert len(ids) == len(set(ids)) == 231


def test_tests_that_decide_claims_exist() -> None:
    """One that does not would keep pytest from running any."""
    named = sorted({test for claim in listed_claims() for test in claim.tests})
    for test in named:
        file, _, name = test.partition("[")[0].partition("::")
        assert f"def {name}(" in (CHECKOUT / file).read_text(), test
    chosen = [test for test in named if "[" in test]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    found = subprocess.run([*command, *chosen], cwd=CHECKOUT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-2000:]


def test_a_test_is_told_with_all_its_parameters_and_with_one(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        "<testcase classname='tests.a.test_b' name='test_c[one: 1]'/>"
        "<testcase classname='tests.a.test_b' name='test_c[two]'><failure/></testcase>"
        "<testcase classname='tests.a.test_b' name='test_d'/>"
        "<testcase classname='tests.a.test_b' name='test_e'><skipped/></testcase>"
        "</testsuite></testsuites>"
    )
    assert outcomes_of(report) == {
        "tests/a/test_b.py::test_c": [True, False],
        "tests/a/test_b.py::test_c[one: 1]": [True],
        "tests/a/test_b.py::test_c[two]": [False],
        "tests/a/test_b.py::test_d": [True],
    }


def test_sizes_and_values_make_points(tmp_path: Path) -> None:
    figure = read_figure(small(tmp_path))
    assert [point.values["nodes"] for point in figure.points("full")] == [10, 200, 1000]
    assert len(figure.points("quick")) == 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('family = "size"', 'family = "guess"', "family"),
        ('check = "between"', 'check = "looks right"', "check"),
        ('title = "a small one"', 'title = "a small one"\nspeed = 1', "speed"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_figure(small(tmp_path, SMALL.replace(old, new)))


def test_a_point_runs_once_and_another_value_is_another_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Any] = []

    def family(values: dict[str, Any]) -> dict[str, Any]:
        ran.append(values["nodes"])
        if values["nodes"] == 200 and len(ran) < 3:
            raise KeyboardInterrupt
        return {"bytes": 4 * values["nodes"]}

    monkeypatch.setitem(campaign.FAMILIES, "size", family)
    figure, store = read_figure(small(tmp_path)), Store(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        run_points(figure.points("quick"), store, 1)
    rows = run_points(figure.points("full"), store, 1)
    assert ran == [10, 200, 200, 1000]  # 10 was kept when the run was broken off
    assert [row["bytes"] for row in rows] == [40, 800, 4000]
    assert verdict_on(figure.claims[0], figure, rows).verdict == CONFIRMED


def test_other_code_is_another_result_and_what_only_shows_is_not(tmp_path: Path) -> None:
    for name in ("protocols/one.py", "reproduce/families/two.py", "reproduce/page.py", "cli/x.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")

    def told() -> str:
        hash_of_code.cache_clear()
        return hash_of_code(tmp_path)

    found = told()
    for name, changes in (
        ("reproduce/page.py", False),
        ("cli/x.py", False),
        ("protocols/one.py", True),
        ("reproduce/families/two.py", True),
    ):
        (tmp_path / name).write_text("2")
        assert (told() != found) == changes, name
        found = told()


def test_results_of_real_nodes_depend_on_what_nodes_run_and_others_do_not(tmp_path: Path) -> None:
    path = tmp_path / "runtime" / "node.py"
    path.parent.mkdir()

    def told(also: str) -> str:
        hash_of_code.cache_clear()
        return hash_of_code(tmp_path, also=also)

    found = []
    for text in ("1", "2"):
        path.write_text(text)
        found.append((told(""), told("runtime")))
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1]
    hash_of_code.cache_clear()
    assert code_of("real") != code_of("tree") == hash_of_code()


def test_rows_and_tests_of_other_code_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, out = read_figure(small(tmp_path)), Store(tmp_path / "out")
    (point, _) = figure.points("quick")
    out.keep(point, {"bytes": 40})
    test = next(test for claim in listed_claims() for test in claim.tests)
    monkeypatch.setattr(results, "run_tests", lambda names: dict.fromkeys(names, True))
    results_of([], "quick", out).decide_by_tests(True)
    assert out.row(point) is not None
    assert results_of([], "quick", out).passed[test]
    for module in (store, results):
        monkeypatch.setattr(module, "hash_of_code", lambda **_: "another")
    assert out.row(point) is None
    assert results_of([], "quick", out).passed == {}


def test_a_point_that_fails_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def family(values: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError("by hand")

    monkeypatch.setitem(campaign.FAMILIES, "size", family)
    figure = read_figure(small(tmp_path))
    rows = run_points(figure.points("quick"), Store(tmp_path / "out"), 1)
    assert [row["error"] for row in rows] == ["ZeroDivisionError: by hand"] * 2
    assert verdict_on(figure.claims[0], figure, rows).verdict == UNDECIDED


def listed(**settings: Any) -> ListedClaim:
    return ListedClaim("K", "S000", "§", "words", **settings)


def test_one_check_that_refutes_is_enough() -> None:
    found = [Verdict("K", CONFIRMED, "1"), Verdict("K", REFUTED, "2"), Verdict("other", REFUTED)]
    (verdict,) = all_verdicts([listed()], found, {})
    assert (verdict.verdict, verdict.numbers) == (REFUTED, "2; 1")


@pytest.mark.parametrize(
    ("claim", "passed", "expected"),
    [
        (listed(), {}, UNDECIDED),
        (listed(unmeasurable="why"), {}, NOT_MEASURABLE),
        (listed(tests=("t",)), {}, UNDECIDED),
        (listed(tests=("t",)), {"t": True}, CONFIRMED),
        (listed(tests=("t",)), {"t": False}, REFUTED),
        (listed(tests=("t", "u")), {"t": True}, UNDECIDED),
        (listed(tests=("t",), if_passed=REFUTED), {"t": True}, REFUTED),
        (listed(tests=("t",), if_passed=REFUTED), {"t": False}, UNDECIDED),
    ],
)
def test_what_tests_decide(claim: ListedClaim, passed: dict[str, bool], expected: str) -> None:
    (verdict,) = all_verdicts([claim], [], passed)
    assert verdict.verdict == expected


EXPLAINED = """
[[explanation]]
id = "K1-13"
check = "between"
series = "clock"
y = "bytes"
nodes = 10
most = 40
words = "ten have less"
"""


def test_what_an_experiment_says_stands_beside_a_claim_that_does_not_hold(tmp_path: Path) -> None:
    figure = read_figure(small(tmp_path, SMALL + EXPLAINED))
    (why,) = figure.explanations
    rows = [{"series": "clock", "nodes": nodes, "bytes": 4 * nodes} for nodes in (10, 200)]
    told = explanation_by(why, figure, rows, "quick")
    assert told == "ten have less (40 in 1 measurements; figure small)."
    rows[0]["bytes"] = 41
    assert explanation_by(why, figure, rows, "quick").startswith("Not so: ten have less")
    assert explanation_by(why, figure, [], "quick") == ""
    for found, because in ((REFUTED, "so it is ten have less"), (CONFIRMED, "so it is")):
        judged = [Verdict("K", found, "1", "figure", "so it is")]
        (verdict,) = all_verdicts([listed()], judged, {}, {"K": ["", "ten have less"]})
        assert verdict.because == because


def test_explanations_name_claims_and_series_that_exist_and_say_something() -> None:
    known = {claim.id for claim in listed_claims()}
    for figure in all_figures():
        for why in figure.explanations:
            assert why.id in known and why.words, f"{figure.name}: {why.id}"
            assert why.settings["series"] in {*figure.series, "*"}, f"{figure.name}: {why.id}"


def test_a_series_without_what_a_chart_shows_is_left_out_of_it(tmp_path: Path) -> None:
    text = SMALL.replace("[[plot]]", '[[series]]\nname = "other"\n[[plot]]', 1)
    figure = read_figure(small(tmp_path, text))
    rows = [
        {"series": "clock", "nodes": 10, "bytes": 40},
        {"series": "clock", "nodes": 20, "bytes": 80},
        {"series": "other", "bytes": 80},
    ]
    drawn = draw(figure, rows)
    assert drawn is not None and "<!-- clock -->" in drawn[0]
    assert "<!-- other -->" not in drawn[0]


def test_figures_are_where_the_package_looks() -> None:
    assert sorted(path.stem for path in FIGURES.glob("*.toml")) == [f.name for f in all_figures()]


def test_no_tick_of_a_picture_is_a_formula(tmp_path: Path) -> None:
    """Names are no formulas, so ticks must not be written as such either."""
    logarithmic = SMALL.replace('y_label = "bytes"', 'y_label = "bytes"\ny_scale = "log"')
    figure = read_figure(small(tmp_path, logarithmic))
    rows = [{"series": "clock", "nodes": n, "bytes": n * 4} for n in (10, 200)]
    drawn = draw(figure, rows)
    assert drawn is not None and "mathdefault" not in drawn[0]
    assert drawn[1].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("violated", "promised", "expected"),
    [
        (["agreement"], ["agreement_per_part"], "ok"),
        (["agreement"], ["agreement"], "violated"),
        (["agreement", "causal_order"], ["agreement_per_part"], "violated"),
        (["causal_order"], ["agreement_per_part"], "violated"),
    ],
)
def test_only_agreement_that_was_promised_per_part_is_let_go(
    violated: list[str], promised: list[str], expected: str
) -> None:
    assert verdict_within_parts("violated", violated, promised) == expected


def test_results_of_any_code_are_found_and_say_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, points = read_figure(small(tmp_path)), tmp_path / "points"
    (point, other) = figure.points("quick")
    for code, size in (("a" * 64, 40), ("b" * 64, 44)):
        monkeypatch.setattr(store, "hash_of_code", lambda code=code, **_: code)
        monkeypatch.setattr(store, "datetime", Later(code))
        Store(tmp_path / "quick", points).keep(point, {"bytes": size})
    monkeypatch.setattr(store, "hash_of_code", lambda **_: "c" * 64)
    assert Store(tmp_path / "quick", points).row(point) is None
    # The points are those of all sizes; the latest counts.
    row = Store(tmp_path / "full", points, any_code=True).row(point)
    assert row is not None and (row["bytes"], row["code"]) == (44, "b" * 12)
    assert Store(tmp_path / "full", points, any_code=True).row(other) is None


class Later:
    """A clock that goes by letters."""

    def __init__(self, code: str) -> None:
        self.code = code

    def now(self, _zone: object) -> "Later":
        return self

    def isoformat(self, timespec: str) -> str:
        return f"{timespec} {self.code}"


def test_points_are_chosen_by_their_values(tmp_path: Path) -> None:
    points = read_figure(small(tmp_path)).points("full")
    assert [point.values["nodes"] for point in chosen_points(points, ["nodes=10,1000"])] == [
        10,
        1000,
    ]
    assert len(chosen_points(points, ["series=clock", "nodes=200"])) == 1
    named = read_figure(small(tmp_path, SMALL.replace('"clock"\n[[plot', '"clock, wide"\n[[plot')))
    assert len(chosen_points(named.points("full"), ["series=clock, wide"])) == 3
    for wrong in (["nodes=11"], ["nodes"], ["speed=1"]):
        with pytest.raises(ConfigError, match="--where"):
            chosen_points(points, wrong)


def test_a_large_run_is_a_full_one_unless_the_figure_says_otherwise(tmp_path: Path) -> None:
    assert len(read_figure(small(tmp_path)).points("large")) == 3
    other = SMALL.replace("[full]", "[large]\nnodes = 100\n[full]")
    assert len(read_figure(small(tmp_path, other)).points("large")) == 1
    assert len(read_figure(small(tmp_path, other)).points("full")) == 3
