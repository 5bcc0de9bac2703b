"""What a campaign found: tables, pictures, verdicts and the page, made from the stored rows."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from causalcast.reproduce.drawing import draw
from causalcast.reproduce.figure import Figure, all_figures
from causalcast.reproduce.page import Shown, judged_line, page
from causalcast.reproduce.properties import run_tests, tests_at_hand
from causalcast.reproduce.store import Row, Store, hash_of_code
from causalcast.reproduce.verdicts import (
    ListedClaim,
    Verdict,
    all_verdicts,
    counted,
    explanation_by,
    listed_claims,
    verdict_on,
)

TESTS = "tests.json"
PAGE = "index.html"


@dataclass
class Results:
    """Rows by figure, and what they say of the claims."""

    size: str
    store: Store
    figures: list[Figure]
    rows: dict[str, list[Row]]
    chosen: list[str]
    claims: list[ListedClaim]
    passed: dict[str, bool] = field(default_factory=dict)

    @property
    def by_figures(self) -> list[Verdict]:
        """What the chosen figures say."""
        return [
            verdict
            for figure in self.figures
            if figure.name in self.chosen
            for verdict in self._of(figure)
        ]

    @property
    def verdicts(self) -> list[Verdict]:
        """One per claim of the sources, from all figures that have been run."""
        found = [v for figure in self.figures if self.rows[figure.name] for v in self._of(figure)]
        explained: dict[str, list[str]] = {}
        for figure in self.figures:
            for claim in figure.explanations:
                told = explanation_by(claim, figure, self.rows[figure.name], self.size)
                explained.setdefault(claim.id, []).append(told)
        return all_verdicts(self.claims, found, self.passed, explained)

    def _of(self, figure: Figure) -> list[Verdict]:
        return [
            verdict_on(claim, figure, self.rows[figure.name], self.size) for claim in figure.claims
        ]

    def counts(self) -> dict[str, int]:
        """How many claims came to what."""
        return counted(self.verdicts)

    def judged(self) -> str:
        """What the judge saw."""
        return judged_line([row for rows in self.rows.values() for row in rows])

    def all_fine(self) -> bool:
        """Whether every point ran, and every protocol kept what it promises."""
        return all(
            not row.get("error") and row.get("verdict", "ok") == "ok"
            for name in self.chosen
            for row in self.rows[name]
        )

    def decide_by_tests(self, wanted: bool) -> None:
        """Run the tests that decide properties, once for the same code, if they are at hand."""
        names = [test for claim in self.claims for test in claim.tests]
        if wanted and tests_at_hand():
            self.passed.update(run_tests([name for name in names if name not in self.passed]))
            told = {"code": hash_of_code(), "passed": self.passed}
            (self.store.folder / TESTS).write_text(json.dumps(told, indent=1))

    def write(self) -> None:
        """Tables, pictures, verdicts and the page."""
        folder = self.store.folder
        shown = []
        for figure in self.figures:
            rows = self.rows[figure.name]
            if not rows:
                continue
            self.store.write_table(figure.name, rows)
            drawn = draw(figure, rows)
            if drawn is not None:
                (folder / f"{figure.name}.svg").write_text(drawn[0])
                (folder / f"{figure.name}.png").write_bytes(drawn[1])
            svg = drawn[0] if drawn is not None else ""
            shown.append(Shown(figure, rows, svg, self._of(figure)))
        self.store.write_table("claims", [asdict(verdict) for verdict in self.verdicts])
        (folder / PAGE).write_text(page(self.size, shown, self.claims, self.verdicts))


def results_of(chosen: Sequence[Figure], size: str, store: Store) -> Results:
    """All rows that are stored, of the chosen figures and of those that were run before."""
    figures = all_figures()
    rows = {
        figure.name: [row for p in figure.points(size) if (row := store.row(p)) is not None]
        for figure in figures
    }
    names = [figure.name for figure in chosen]
    return Results(size, store, figures, rows, names, listed_claims(), _passed_before(store))


def _passed_before(store: Store) -> dict[str, bool]:
    """What tests came to, if that was with the code of today."""
    try:
        told = json.loads((store.folder / TESTS).read_text())
    except (OSError, ValueError):
        return {}
    is_ours = store.any_code or told.get("code") == hash_of_code()
    passed: dict[str, bool] = told["passed"] if is_ours else {}
    return passed
