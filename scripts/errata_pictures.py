"""Draws the smallest runs that show errors of the sources, as space-time diagrams.

Each run is one that a test plays, with the error put back; what goes wrong is drawn in red.
`--check` says whether the pictures of the docs are those that this would draw.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("papers", "unit/pipeline")]

from test_algorithm_16 import published_but_not_delivered, through_another_group  # noqa: E402
from test_locamu_errata import SCHEDULES, mutant_of  # noqa: E402

from causalcast.simulator.directed_run import DirectedRun  # noqa: E402
from causalcast.testing.draft_run import DraftRun  # noqa: E402

PICTURES = ROOT / "docs" / "images"
COLUMN, ROW, LEFT, TOP = 150, 34, 60, 56  # pixels
INK, RED, SOFT = "#40506a", "#c03a3a", "#8a94a6"


@dataclass
class Diagram:
    """Time goes down, a column per node; each event has a line of its own."""

    title: str
    nodes: list[int]
    lines: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    wrong: tuple[int, int] | None = None
    """How much of both there is when the last thing that went wrong has happened."""

    def x(self, node: int) -> int:
        return LEFT + self.nodes.index(node) * COLUMN

    def next_y(self) -> int:
        return TOP + len(self.lines) * ROW

    def event(self, node: int, text: str, wrong: bool = False, start: int | None = None) -> None:
        """Something happens at a node, perhaps because something came from another."""
        x, y = self.x(node), self.next_y()
        if start is not None:
            begin = self.x(start)
            aside = 7 if begin < x else -7
            self.parts.append(
                f'<line x1="{begin}" y1="{y - ROW * 0.42:.0f}" x2="{x - aside}" y2="{y}" '
                f'stroke="{INK}" stroke-width="1.6" marker-end="url(#tip)"/>'
            )
        colour = RED if wrong else INK
        self.parts.append(f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"/>')
        self._text(x, y, text, colour)
        self.lines.append(text)
        if wrong:
            self.wrong = len(self.lines), len(self.parts)

    def end_with_what_is_wrong(self) -> None:
        """Leave out what comes later."""
        if self.wrong is not None:
            del self.lines[self.wrong[0] :], self.parts[self.wrong[1] :]

    def never(self, node: int, text: str) -> None:
        """What should have happened in the end."""
        x, y = self.x(node), self.next_y()
        self.parts.append(
            f'<circle cx="{x}" cy="{y}" r="5.5" fill="#fff" stroke="{RED}" stroke-width="2"/>'
        )
        self._text(x, y, text, RED)
        self.lines.append(text)

    def _text(self, x: int, y: int, text: str, colour: str) -> None:
        self.parts.append(f'<text x="{x + 10}" y="{y + 15}" fill="{colour}">{escape(text)}</text>')

    def svg(self) -> str:
        width, height = LEFT + len(self.nodes) * COLUMN + 40, self.next_y() + 10
        columns = [
            f'<text x="{self.x(node) - 22}" y="24" font-weight="600" fill="{INK}">node {node}'
            f'</text>\n<line x1="{self.x(node)}" y1="34" x2="{self.x(node)}" y2="{height - 14}" '
            f'stroke="{SOFT}"/>'
            for node in self.nodes
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" font-family="sans-serif" font-size="13" role="img" '
            f'aria-label="{escape(self.title)}">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#f6f8fb"/>\n'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>'
            "</defs>\n" + "\n".join([*columns, *self.parts]) + "\n</svg>\n"
        )


def locamu(prefix: str) -> str:
    """A schedule of LoCaMu with its error put back, until the end of all that follows from it."""
    schedule = next(one for one in SCHEDULES if one.name.startswith(f"{prefix}:"))
    with mutant_of(schedule).planted():
        run = DirectedRun(schedule.scenario(), "full")
        run.run()
    ways: list[int] = []
    for edge in schedule.edges:
        ways += [node for node in edge if node not in ways]
    diagram = Diagram(schedule.name, ways)
    rows = run.recorder.table().to_pylist()
    members = {node for group in schedule.groups.values() for node in group}
    delivered: list[tuple[int, str]] = []
    published: list[str] = []
    seen: set[tuple[int, int, str]] = set()
    for row in sorted(rows, key=lambda row: (row["at_us"], row["node"], row["pos"])):
        node, kind = row["node"], row["kind"]
        if kind == "publish":
            published.append(_name(row["message"]))
            diagram.event(node, f"publishes {published[-1]}")
        elif kind == "receive" and row["note"] == "locamu.copy":
            copy = (row["peer"], node, _name(row["message"]))
            if copy not in seen:  # repetitions add nothing
                seen.add(copy)
                diagram.event(node, f"gets {copy[2]}", start=row["peer"])
        elif kind == "deliver":
            key = (node, _name(row["message"]))
            again = key in delivered
            early = schedule.breaks == "causal_order" and _is_early(key, delivered, published)
            delivered.append(key)
            told = f"delivers {key[1]}" + (" again" if again else " too early" if early else "")
            diagram.event(node, told, wrong=again or early)
        elif kind == "suspect":
            diagram.event(node, f"suspects {row['peer']}")
        elif kind == "crash":
            diagram.event(node, "crashes")
        elif kind == "recover":
            diagram.event(node, "is back")
    diagram.end_with_what_is_wrong()
    for node in sorted(members):
        for message in published:
            if (node, message) not in delivered:
                diagram.never(node, f"never delivers {message}")
    return diagram.svg()


def _is_early(key: tuple[int, str], delivered: list[tuple[int, str]], published: list[str]) -> bool:
    """In these runs what is published later follows from what was published before."""
    before = published[: published.index(key[1])]
    return any((key[0], message) not in delivered for message in before)


def algorithm_16(draft: DraftRun, title: str, verdict: str) -> str:
    """A trace that the printed check judges wrongly."""
    run = draft.run()
    diagram = Diagram(title, [0, 1])
    done: dict[int, list[str]] = {0: [], 1: []}
    for row in sorted(run.events.to_pylist(), key=lambda row: (row["node"], row["pos"])):
        node = row["node"]
        message = _name(row["message"]) if row["message"] is not None else ""
        if row["kind"] == "crash":
            diagram.event(node, "crashes")
            continue
        group = "xy"[row["group"]] if row["group"] is not None else ""
        told = f"{'publishes' if row['kind'] == 'publish' else 'delivers'} {message} in {group}"
        late = node == 1 and any(other > message for other in done[1])
        diagram.event(node, told + (", its cause" if late else ""), wrong=late)
        done[node].append(message)
    diagram.never(1, verdict)
    return diagram.svg()


def _name(message: int) -> str:
    return f"{message >> 32}.{message & 0xFFFFFFFF}"


PICTURE: dict[str, Callable[[], str]] = {
    "errata_locamu_e1.svg": lambda: locamu("E1"),
    "errata_locamu_e2.svg": lambda: locamu("E2"),
    "errata_locamu_e5.svg": lambda: locamu("E5"),
    "errata_locamu_e9.svg": lambda: locamu("E9"),
    "errata_locamu_e19.svg": lambda: locamu("E19"),
    "errata_cptcast_check_1.svg": lambda: algorithm_16(
        published_but_not_delivered(), "what was published, not delivered", "printed: in order"
    ),
    "errata_cptcast_check_2.svg": lambda: algorithm_16(
        through_another_group(3, 1), "cut at another group", "adapted to groups: in order"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    drawn = {name: draw() for name, draw in PICTURE.items()}
    stale = [
        name
        for name, text in drawn.items()
        if not (PICTURES / name).exists() or (PICTURES / name).read_text() != text
    ]
    if check:
        print("\n".join(f"{name}: run scripts/errata_pictures.py" for name in stale))
        return 1 if stale else 0
    for name, text in drawn.items():
        (PICTURES / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
