"""docs/reproduced.md and claims.csv say what the tables beside them say."""

import csv
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "reproduced"


def script() -> ModuleType:
    path = ROOT / "scripts" / "reproduced_page.py"
    spec = importlib.util.spec_from_file_location("reproduced_page", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_its_tables() -> None:
    """After a change of a figure's file or of a claim: `python scripts/reproduced_page.py`."""
    made = script().page_of(FOLDER)
    assert made == (ROOT / "docs" / "reproduced.md").read_text()


def test_the_list_of_verdicts_is_that_of_the_tables() -> None:
    made = script()
    lines = [made.line_of(one) for one in made.decided_by(FOLDER, made.tables_in(FOLDER))]
    with (FOLDER / "claims.csv").open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert [{key: str(value) for key, value in line.items()} for line in lines] == kept
    assert len(kept) == 231


def test_every_figure_that_is_drawn_is_there() -> None:
    drawn = {path.stem for path in FOLDER.glob("*.svg")}
    page = (ROOT / "docs" / "reproduced.md").read_text()
    assert drawn and all(f"(reproduced/{name}.svg)" in page for name in drawn)
    assert page.count(".svg)") == len(drawn)
