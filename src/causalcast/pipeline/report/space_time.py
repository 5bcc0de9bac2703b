"""A counter-example as a space–time diagram in SVG: a line per node, time downwards, an arrow per
message. Ink takes the colour of the page; what breaks the order is red.
"""

import math
from collections.abc import Sequence
from html import escape

from causalcast.pipeline.verdicts.counter_example import Step, label_of
from causalcast.pipeline.verdicts.names import Names

TOP, LEFT = 46, 24
ROW, LETTER = 38, 7.2  # pixels between events, and for a letter
RED = "#c94f4f"
CLEAR = 9  # pixels between an arrow and a dot that is none of its ends

Point = tuple[float, float]


def diagram(steps: list[Step], names: Names) -> str:
    """The steps of one counter-example, drawn."""
    nodes = list(dict.fromkeys(step.node for step in steps))
    labels = [label_of(step, names) for step in steps]
    longest = max(len(text) for text in (*labels, *(names.node(node) for node in nodes)))
    column = max(120, int(longest * LETTER) + 40)
    x = {node: LEFT + place * column for place, node in enumerate(nodes)}
    y = [TOP + place * ROW for place in range(len(steps))]
    width, height = LEFT + len(nodes) * column, TOP + len(steps) * ROW
    parts = [_line(names.node(node), x[node], height) for node in nodes]
    parts += _arrows(steps, x, y)
    parts += [
        _event(step, text, x[step.node], at)
        for step, text, at in zip(steps, labels, y, strict=True)
    ]
    return (
        f'<svg class="space-time" viewBox="0 0 {width} {height}" style="max-width:{width}px"'
        f' role="img" aria-label="space-time diagram">{"".join(parts)}</svg>'
    )


def _line(name: str, x: int, height: int) -> str:
    return (
        f'<text x="{x - 8}" y="20" font-weight="600">{escape(name)}</text>'
        f'<line x1="{x}" y1="30" x2="{x}" y2="{height - 8}" stroke="currentColor" opacity=".3"/>'
    )


def way(start: Point, end: Point, dots: Sequence[Point]) -> str:
    """A line from one event to another; a bow, if the line would run through the dot of a third,
    from which the arrow would then seem to come."""
    (x1, y1), (x2, y2) = start, end
    for bow in (0, 0.5, -0.5, 1.0):
        middle = ((x1 + x2) / 2, (y1 + y2) / 2 + bow * ROW * 2)
        if all(_distance(start, middle, end, dot) > CLEAR for dot in dots):
            break
    if bow == 0:
        return f"M{x1} {y1} L{x2} {y2}"
    return f"M{x1} {y1} Q{middle[0]:g} {middle[1]:g} {x2} {y2}"


def _distance(start: Point, middle: Point, end: Point, dot: Point) -> float:
    """How near a bow comes to a dot."""
    nearest = float("inf")
    for step in range(51):
        t = step / 50
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        x = a * start[0] + b * middle[0] + c * end[0]
        y = a * start[1] + b * middle[1] + c * end[1]
        nearest = min(nearest, math.hypot(x - dot[0], y - dot[1]))
    return nearest


def _arrows(steps: list[Step], x: dict[int, int], y: list[int]) -> list[str]:
    """From each publication to its deliveries at other nodes."""
    published = {s.message: place for place, s in enumerate(steps) if s.kind == "publish"}
    arrows = []
    for place, step in enumerate(steps):
        start = published.get(step.message)
        if step.kind != "deliver" or start is None or step.remark == "never":
            continue
        from_x, to_x = x[steps[start].node], x[step.node]
        if from_x == to_x:
            continue
        colour = RED if step.remark else "currentColor"
        back = 7 if to_x > from_x else -7
        others = [(x[s.node], at) for n, (s, at) in enumerate(zip(steps, y, strict=True))
                  if n not in (start, place)]  # fmt: skip
        path = way((from_x, y[start]), (to_x - back, y[place]), others)
        arrows.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.4" opacity=".75"/>'
            f'<path d="M{to_x - back} {y[place]} l{-back} -4 l0 8 z" fill="{colour}"/>'
        )
    return arrows


def _event(step: Step, text: str, x: int, y: int) -> str:
    colour = RED if step.remark else "currentColor"
    if step.remark == "never":
        mark = f'<path d="M{x - 5} {y - 5} l10 10 m0 -10 l-10 10" stroke="{RED}" stroke-width="2"/>'
    else:
        fill = colour if step.kind == "publish" else "var(--paper, #fff)"
        mark = f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    shown = f'<text x="{x + 11}" y="{y - 8}" fill="{colour}">{escape(text)}</text>'
    return mark + shown
