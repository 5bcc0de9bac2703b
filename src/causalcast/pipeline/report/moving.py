"""Runs that can be seen moving from a report: links to them, and the room in which they move.

It is the view of the lab, with the events of the runs inside the file.
"""

import itertools
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from causalcast.pipeline.report.run_picture import MOST_ROWS, picture_of
from causalcast.pipeline.verdicts.verdict import Verdict
from causalcast.runview import page_files

ROWS_IN_ALL = 3 * MOST_ROWS  # of all runs in a report together


class MovingRun:
    """One run of a report, and how it is drawn if it moves."""

    def __init__(self, number: int, verdict: Verdict) -> None:
        self.number = number
        self.verdict = verdict
        self.drawn: dict[str, Any] | None = None
        self.why_not = ""

    def draw(self, room: int) -> int:
        """Draw it if it has at most so many rows; how many it has."""
        self.drawn, self.why_not = picture_of(self.verdict, room)
        return 0 if self.drawn is None else len(self.drawn["events"]) + len(self.drawn["frames"])

    @property
    def unit(self) -> str:
        """What its time is counted in; none if it is not drawn."""
        return "" if self.drawn is None else str(self.drawn["unit"])

    def link(self, text: str, place: str = "") -> str:
        """A link that opens the picture, at a counter-example if it is named."""
        if self.drawn is None:
            return ""
        return f'<a class="see" href="#see-{self.number}{place}">{text}</a>'


def side_by_side(runs: Sequence[MovingRun]) -> str:
    """Two runs in one picture, with one time."""
    for one, other in itertools.combinations(runs, 2):
        if one.unit and one.unit == other.unit:
            link = one.link("See two of them move side by side", f"+{other.number}")
            return f"<p>{link}</p>"
    return ""


def room_for(runs: Sequence[MovingRun]) -> str:
    """The room in which runs are seen moving: style, script and the runs themselves."""
    drawn = [run for run in runs if run.drawn is not None]
    if not drawn:
        return ""
    here = files("causalcast.pipeline.report")
    parts = [f"<style>{page_files.style()}</style>"]
    parts.append(here.joinpath("moving.html").read_text(encoding="utf-8"))
    for run in drawn:
        # No text of a run may end the element that holds it.
        data = json.dumps(run.drawn, separators=(",", ":")).replace("<", "\\u003c")
        title = escape(run.verdict.place.name, quote=True)
        about = f'data-run="{run.number}" data-title="{title}" data-unit="{run.unit}"'
        parts.append(f'<script type="application/json" {about}>{data}</script>')
    script = page_files.one_script(here.joinpath("moving.js").read_text(encoding="utf-8"))
    parts.append(f'<script type="module">\n{script}</script>')
    return "\n".join(parts)


def moving_runs(verdicts: Sequence[Verdict]) -> list[MovingRun]:
    """Runs of a report, drawn as long as there is room."""
    runs = [MovingRun(number, verdict) for number, verdict in enumerate(verdicts)]
    room = ROWS_IN_ALL
    for run in runs:
        room -= run.draw(min(room, MOST_ROWS))
    return runs
