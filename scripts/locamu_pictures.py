"""Draws the smallest runs in which LoCaMu as printed lets somebody wait for ever.

The schedules are those of `tests/papers/test_locamu_goes_on.py`. Each is played with what the
papers have, without replay and names; who lacks something in the end is drawn in red. `--check`
says whether the pictures of the docs are those that this would draw.
"""

import argparse
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "papers"))

from test_locamu_goes_on import SCHEDULES, ended, lacking  # noqa: E402

from causalcast.core import NodeId  # noqa: E402
from causalcast.parts.tree.neighbourhood import Neighbourhood  # noqa: E402
from causalcast.protocols.locamu.peers import Peers  # noqa: E402
from causalcast.simulator.directed_run import DirectedRun  # noqa: E402
from causalcast.swarm.mutant import Mutant, Patch  # noqa: E402

PICTURES = ROOT / "docs" / "images"
COLUMN, ROW, LEFT, TOP = 160, 48, 60, 56  # pixels
STEP_US = 1000  # of a directed run
INK, RED, SOFT = "#40506a", "#c03a3a", "#8a94a6"
_init = Peers.__init__


def as_printed(self: Peers, around: Neighbourhood, f: int) -> None:
    """What the papers have: nobody is stood in for, and no number is named."""
    _init(self, around, f)
    self.goes_on = False


class Picture:
    """Time goes down, a column per node, in the order of the tree."""

    def __init__(self, name: str) -> None:
        self.title = name
        self.edges, self.groups, self.steps = SCHEDULES[name]
        with Mutant("printed", "", [], [Patch(Peers, "__init__", as_printed)]).planted():
            self.run: DirectedRun = ended(self.edges, self.groups, self.steps, {}, "messages")
        nodes = _from_one_end(self.edges)
        self.x = {node: LEFT + place * COLUMN for place, node in enumerate(nodes)}
        self.parts: list[str] = []
        self.rows = 0  # that hold something
        self.row_of: dict[int, int] = {}  # by the step

    def draw(self) -> str:
        """The picture as SVG."""
        events = [row for row in self.run.recorder.table().to_pylist() if self._is_shown(row)]
        events.sort(key=lambda row: row["at_us"])
        wrong = [step.split() for step in self.steps[: self._first("crash")]]
        suspicions = {at + 1: step for at, step in enumerate(wrong) if step[0] == "suspect"}
        shown = sorted({row["at_us"] // STEP_US for row in events} | set(suspicions))
        self.row_of = {step: place for place, step in enumerate(shown)}
        fell: dict[int, float] = {}
        for row in events:
            self._event(row, fell)
        for step, (_, who, whom) in suspicions.items():
            self._dot(self.x[int(who)], self._y(step), f"wrongly suspects {whom}", SOFT)
        height = self._end()
        lines = [self._line(node, fell.get(node), height) for node in self.x]
        width = LEFT + len(self.x) * COLUMN + 30
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" font-family="sans-serif" font-size="13" role="img" '
            f'aria-label="{escape(self.title)}">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#f6f8fb"/>\n'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>'
            "</defs>\n" + "\n".join([*lines, *self.parts]) + "\n</svg>\n"
        )

    def _is_shown(self, row: dict[str, object]) -> bool:
        is_step = int(str(row["at_us"])) <= len(self.steps) * STEP_US
        is_copy = row["kind"] == "receive" and row["note"] == "locamu.copy"
        return is_step and (is_copy or row["kind"] in ("publish", "crash"))

    def _first(self, word: str) -> int:
        return next((at for at, step in enumerate(self.steps) if step.startswith(word)), 0)

    def _group(self, step: int) -> str:
        return self.steps[step - 1].split()[2]

    def _y(self, step: int) -> int:
        return TOP + self.row_of[step] * ROW

    def _event(self, row: dict[str, object], fell: dict[int, float]) -> None:
        node, step = int(str(row["node"])), int(str(row["at_us"])) // STEP_US
        x, y = self.x[node], self._y(step)
        if row["kind"] == "publish":
            to = f" to {self._group(step)}" if len(self.groups) > 1 else ""
            self._dot(x, y, f"publishes {_name(row['message'])}{to}", INK)
        elif row["kind"] == "crash":
            fell[node] = y
            self._cross(x, y)
        else:
            start = self.x[int(str(row["peer"]))]
            aside = 7 if start < x else -7
            self.parts.append(
                f'<line x1="{start}" y1="{y - ROW / 2}" x2="{x - aside}" y2="{y}" stroke="{INK}" '
                'stroke-width="1.6" marker-end="url(#tip)"/>'
            )
            self._dot(x, y, f"gets {_name(row['message'])}", INK)

    def _dot(self, x: int, y: float, text: str, colour: str) -> None:
        self.parts.append(f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"/>')
        self.parts.append(f'<text x="{x + 9}" y="{y + 14}" fill="{colour}">{escape(text)}</text>')

    def _cross(self, x: int, y: float) -> None:
        self.parts.append(
            f'<path d="M{x - 6} {y - 6}l12 12m0 -12l-12 12" stroke="{RED}" stroke-width="2.4"/>'
            f'<text x="{x + 11}" y="{y + 5}" fill="{RED}">falls for good</text>'
        )

    def _end(self) -> int:
        """Who lacks what in the end, in red; the height of it all."""
        lacks: dict[int, list[str]] = {}
        for node, message in lacking(self.run):
            lacks.setdefault(node, []).append(message)
        y = TOP + len(self.row_of) * ROW + 6
        for node, messages in lacks.items():
            x = self.x[NodeId(node)]
            text = "never gets " + " and ".join(messages)
            self.parts.append(
                f'<circle cx="{x}" cy="{y}" r="5.5" fill="#fff" stroke="{RED}" stroke-width="2"/>'
                f'<text x="{x + 10}" y="{y + 20}" fill="{RED}" font-weight="600">{text}</text>'
            )
        return y + 36

    def _line(self, node: NodeId, fell: float | None, height: int) -> str:
        x, end = self.x[node], height - 30
        member = [group for group, members in self.groups.items() if node in members]
        told = f"node {node}"
        if not member:
            told += ", no member"
        elif len(self.groups) > 1:
            told += f", in {' and '.join(member)}"
        alive = end if fell is None else fell
        parts = [f'<text x="{x - 22}" y="24" font-weight="600" fill="{INK}">{told}</text>']
        parts.append(f'<line x1="{x}" y1="34" x2="{x}" y2="{alive}" stroke="{SOFT}"/>')
        if fell is not None:
            parts.append(
                f'<line x1="{x}" y1="{fell}" x2="{x}" y2="{end}" stroke="{SOFT}" '
                'stroke-dasharray="3 5"/>'
            )
        return "\n".join(parts)


def _name(message: object) -> str:
    number = int(str(message))
    return f"{number >> 32}.{number & 0xFFFFFFFF}"


def _from_one_end(edges: list[list[int]]) -> list[NodeId]:
    """The nodes so that neighbours stand beside each other as far as a tree allows."""
    near: dict[int, list[int]] = {}
    for one, other in edges:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    todo, found = [next(node for node in near if len(near[node]) == 1)], []
    while todo:
        node = todo.pop()
        found.append(NodeId(node))
        todo += [other for other in near[node] if other not in found]
    return found


def pictures() -> dict[str, str]:
    """File names, and what is in them: C1 to C6, without their variants."""
    names = [name for name in SCHEDULES if name[0] == "C" and name[2] == ":"]
    return {f"locamu_{name[:2].lower()}.svg": Picture(name).draw() for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = [
        name
        for name, text in pictures().items()
        if not (PICTURES / name).exists() or (PICTURES / name).read_text() != text
    ]
    if check:
        print("\n".join(f"{name}: run scripts/locamu_pictures.py" for name in stale))
        return 1 if stale else 0
    for name, text in pictures().items():
        (PICTURES / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
