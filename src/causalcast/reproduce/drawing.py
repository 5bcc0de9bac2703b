"""Figures as SVG and PNG: axes with units, a colour and a mark per series, large letters."""

import io
import itertools
from collections.abc import Sequence
from typing import Any

from causalcast.errors import ConfigError, MissingDependency
from causalcast.reproduce.checks import Row, curve
from causalcast.reproduce.figure import Figure, Plot

COLOURS = ("#3b82c4", "#d9822b", "#3f9b6c", "#c94f4f", "#8b6cc4", "#7a7a7a", "#b0a020", "#30a0a8",
    "#1b1f24", "#d070b0")  # fmt: skip
MARKS = "osD^vPX*h<"
WIDTH, HEIGHT = 4.6, 3.3  # inches of one chart
WIDE = 100  # from the least to the most on a logarithmic axis: powers of ten are labels enough
DOTS = 130  # per inch of the PNG
LETTERS = {1: 11, 2: 13}  # points, by charts side by side: a page shows both as wide
FEW = 6  # different x that all get a tick
APART = 0.1  # of the axis, at least, between ticks of which each has a label
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (7, 1.5, 1.5, 1.5)))  # of curves that coincide


def draw(figure: Figure, rows: Sequence[Row]) -> tuple[str, bytes] | None:
    """All charts of a figure side by side, as SVG and as PNG; none if no row can be drawn."""
    usable = [row for row in rows if not row.get("error")]
    charts = [
        (plot, title, chosen)
        for plot in figure.plots
        for title, chosen in _panels(plot, _drawn(plot, usable))
        if any(row.get(plot.x) is not None and row.get(plot.y) is not None for row in chosen)
    ]
    if not charts:
        return None
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency(
            "matplotlib is not installed: pip install 'causalcast[tools]'"
        ) from None
    from matplotlib.figure import Figure as Canvas

    columns = min(len(charts), 2)
    style = {
        "svg.hashsalt": "causalcast",
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": LETTERS[columns],
    }
    lines = -(-len(charts) // columns)
    with matplotlib.rc_context(style):
        names = list(figure.series)
        beside = _names_beside(names, columns)
        above = -(-len(names) // beside) * LETTERS[columns] / 45  # inches that names take
        size = (WIDTH * columns, (HEIGHT + 0.4 * (columns - 1)) * lines + above)
        canvas = Canvas(figsize=size, layout="constrained")
        for number, (plot, title, chosen) in enumerate(charts, 1):
            axes = canvas.add_subplot(lines, columns, number)
            (_bars if plot.kind == "bars" else _lines)(axes, plot, chosen, names)
            axes.set_xlabel(plot.x_label)
            axes.set_ylabel(plot.y_label)
            if title:
                axes.set_title(title, fontsize=LETTERS[columns])
            axes.grid(alpha=0.25, linewidth=0.8)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        found = {
            label: handle
            for axes in canvas.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        labels = [name for name in names if name in found]
        canvas.legend(
            [found[label] for label in labels],
            labels,
            loc="outside upper center",
            ncols=min(len(labels), beside),
            frameon=False,
        )
        svg, png = io.StringIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=DOTS)
    text = svg.getvalue()
    return text[text.index("<svg") :], png.getvalue()


def _drawn(plot: Plot, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not plot.series or row.get("series") in plot.series]


def _names_beside(names: Sequence[str], columns: int) -> int:
    """How many names of series fit beside one another above the charts."""
    return max(1, (46 if columns == 1 else 76) // (max(map(len, names)) + 7))


def _panels(plot: Plot, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    if not plot.panel:
        return [("", list(rows))]
    values = sorted({row[plot.panel] for row in rows if plot.panel in row})
    label = plot.panel_label or "{}"
    return [
        (label.format(value), [row for row in rows if row.get(plot.panel) == value])
        for value in values
    ]


def _curve(plot: Plot, rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    try:
        return curve(rows, name, plot.x, plot.y)
    except ConfigError:
        return []  # this chart has no such series


def _lines(axes: Any, plot: Plot, rows: Sequence[Row], names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        points = _curve(plot, rows, name)
        if plot.y_scale == "log":
            points = [(x, y) for x, y in points if y > 0]
        if not points:
            continue
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=COLOURS[place % len(COLOURS)],
            marker=MARKS[place % len(MARKS)],
            markersize=5.5,
            linewidth=1.7,
            linestyle=DASHES[place % len(DASHES)],
            label=name,
        )
    axes.set_xscale(plot.x_scale)
    axes.set_yscale(plot.y_scale)
    if plot.y_scale == "linear":
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_plainly)
    for scale, axis in ((plot.x_scale, axes.xaxis), (plot.y_scale, axes.yaxis)):
        if scale == "log":
            axis.set_major_formatter(_plainly)
            low, high = axis.get_view_interval()
            axis.set_minor_formatter(_some_plainly if high < WIDE * low else _nothing)
    xs = sorted({x for name in names for x, _ in _curve(plot, rows, name)})
    if plot.x_scale == "linear" and len(xs) <= FEW and _are_apart(xs):
        axes.set_xticks(xs, [_plainly(x) for x in xs])
    if plot.x_scale == "log" and len(xs) <= 8:
        axes.set_xticks(xs, [_plainly(x) for x in xs], rotation=35 if len(xs) > 5 else 0)
        axes.set_xticks([], minor=True)


def _are_apart(xs: Sequence[float]) -> bool:
    gaps = [after - before for before, after in itertools.pairwise(xs)]
    return not gaps or min(gaps) >= APART * (xs[-1] - xs[0])


def _bars(axes: Any, plot: Plot, rows: Sequence[Row], names: Sequence[str]) -> None:
    curves = {name: dict(_curve(plot, rows, name)) for name in names}
    xs = sorted({x for found in curves.values() for x in found})
    width = 0.8 / len(names)
    for place, (name, found) in enumerate(curves.items()):
        axes.bar(
            [at + (place - (len(names) - 1) / 2) * width for at in range(len(xs))],
            [found.get(x, 0.0) for x in xs],
            width * 0.92,
            color=COLOURS[place % len(COLOURS)],
            label=name,
        )
    axes.set_xticks(range(len(xs)), [_plainly(x) for x in xs])
    axes.set_yscale(plot.y_scale)
    axes.yaxis.set_major_formatter(_plainly)


def _plainly(value: float, _: int = 0) -> str:
    """1,000 as 1k: ticks of sizes must not run into one another."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def _some_plainly(value: float, _: int = 0) -> str:
    """Between powers of ten: 2 and 5 alone, for all of them would not fit."""
    return _plainly(value) if f"{value:e}"[0] in "25" else ""


def _nothing(_value: float, _place: int = 0) -> str:
    return ""
