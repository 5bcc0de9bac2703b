"""Makes docs/reproduced.md, its figures and claims.csv of the tables in docs/reproduced.

    python scripts/reproduced_page.py                    # of the tables that are there
    python scripts/reproduced_page.py --from reproduced  # of what `causalcast reproduce` has kept

With `--from` the tables are made anew from that folder, of whichever code and all sizes; and the
tests that decide claims are run, unless `--tests` names a file that says what they came to.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from causalcast.reproduce.documented import FOLDER, document
from causalcast.reproduce.drawing import draw
from causalcast.reproduce.figure import all_figures
from causalcast.reproduce.properties import run_tests
from causalcast.reproduce.shown import (
    Decided,
    Tables,
    decided,
    drawn_size,
    kept_rows,
    read_rows,
    rows_at,
    write_rows,
)
from causalcast.reproduce.verdicts import listed_claims

DOCS = Path(__file__).parent.parent / "docs"
TESTS = "tests.json"


def main() -> int:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="kept", type=Path, help="folder of a campaign")
    parser.add_argument("--tests", type=Path, help="what tests came to, as JSON")
    parser.add_argument("--docs", type=Path, default=DOCS)
    options = parser.parse_args()
    folder = options.docs / FOLDER
    folder.mkdir(exist_ok=True)
    if options.kept is not None:
        take(options.kept, folder, options.tests)
    tables = tables_in(folder)
    for figure in all_figures():
        rows = tables.get(figure.name, [])
        drawn = draw(figure, rows_at(rows, drawn_size(figure, rows))) if rows else None
        if drawn is not None:
            (folder / f"{figure.name}.svg").write_text(drawn[0])
    found = decided_by(folder, tables)
    write_rows(folder / "claims.csv", [line_of(one) for one in found])
    (options.docs / f"{FOLDER}.md").write_text(page_of(folder))
    print(f"{options.docs / FOLDER}.md: {len(tables)} figures")
    return 0


def take(kept: Path, folder: Path, tests: Path | None) -> None:
    """The tables of a campaign, and what tests came to."""
    for figure in all_figures():
        rows = kept_rows(figure, kept)
        if rows:
            write_rows(folder / f"{figure.name}.csv", rows)
    named = [test for claim in listed_claims() for test in claim.tests]
    passed = json.loads(tests.read_text())["passed"] if tests is not None else run_tests(named)
    told = {test: passed[test] for test in sorted(set(named)) if test in passed}
    (folder / TESTS).write_text(json.dumps(told, indent=1) + "\n")


def tables_in(folder: Path) -> dict[str, list[dict[str, object]]]:
    """By figure."""
    return {
        figure.name: read_rows(folder / f"{figure.name}.csv")
        for figure in all_figures()
        if (folder / f"{figure.name}.csv").exists()
    }


def decided_by(folder: Path, tables: Tables) -> list[Decided]:
    """What the tables and the tests say of each claim."""
    passed = json.loads((folder / TESTS).read_text())
    return decided(all_figures(), listed_claims(), tables, passed)


def line_of(one: Decided) -> dict[str, object]:
    """A line of claims.csv."""
    return {**asdict(one.verdict), "size": one.size, "further": one.further}


def page_of(folder: Path) -> str:
    """The page, from the tables in a folder."""
    tables = tables_in(folder)
    return document(all_figures(), listed_claims(), tables, decided_by(folder, tables))


if __name__ == "__main__":
    sys.exit(main())
