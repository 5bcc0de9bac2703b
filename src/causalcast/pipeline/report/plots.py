"""The plots of a report, as inline SVG whose ink takes the colour of the page, light or dark."""

import io
import itertools
from collections.abc import Callable
from typing import Any

from causalcast.errors import MissingDependency
from causalcast.pipeline.report.report_figures import BUCKETS_PER_OCTAVE, TIME_BUCKETS, Figures
from causalcast.pipeline.verdicts.verdict import Names

INK = "#010203"  # replaced by `currentColor`: text and axes follow the page
BLUE, ORANGE, GREEN, RED = "#3b82c4", "#d9822b", "#3f9b6c", "#c94f4f"  # legible on both
LONGEST_NAME = 40
NODES_AS_BARS = 40  # more are drawn as a line, sorted


def latency_plot(figures: Figures) -> str | None:
    """How many deliveries took how long, and the share that took at most that."""
    if not figures.latency:
        return None
    starts = [2 ** (bucket / BUCKETS_PER_OCTAVE) / 1000 for bucket, _ in figures.latency]
    ends = [start * 2 ** (1 / BUCKETS_PER_OCTAVE) for start in starts]
    counts = [count for _, count in figures.latency]
    share = [100 * done / sum(counts) for done in itertools.accumulate(counts)]

    def draw(axes: Any) -> None:
        widths = [end - start for start, end in zip(starts, ends, strict=True)]
        axes.bar(starts, counts, widths, align="edge", color=BLUE, alpha=0.75)
        axes.set_xscale("log")
        axes.set_xlabel("latency, ms")
        axes.set_ylabel("deliveries")
        right = axes.twinx()
        right.plot(ends, share, color=ORANGE, linewidth=1.8)
        right.set_ylim(0, 103)
        right.set_ylabel("% at most", color=ORANGE)
        _bare(right, keep="right")
        axes.xaxis.set_major_formatter(_plainly)
        if ends[-1] < 10 * starts[0]:
            axes.xaxis.set_minor_formatter(_plainly)

    return _svg(draw)


def comparison_plot(runs: list[tuple[str, dict[str, Any]]]) -> str | None:
    """Latency percentiles of several runs side by side."""
    names = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms")
    measured = [(run, values) for run, values in runs if values.get(names[0]) is not None]
    if not measured:
        return None

    def draw(axes: Any) -> None:
        labels = [
            run if len(run) <= LONGEST_NAME else f"…{run[-LONGEST_NAME:]}" for run, _ in measured
        ]
        for shift, (name, label, colour) in enumerate(
            zip(names, ("median", "95 %", "99 %"), (BLUE, ORANGE, GREEN), strict=True)
        ):
            places = [place + (shift - 1) * 0.26 for place in range(len(measured))]
            values = [of_run[name] for _, of_run in measured]
            axes.barh(places, values, 0.24, color=colour, label=label)
        axes.set_yticks(range(len(measured)), labels)
        axes.set_ylim(len(measured) - 0.4, -0.6)
        axes.set_xlabel("latency, ms")
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=INK, alpha=0.12, linewidth=0.8)
        _legend(axes)

    return _svg(draw, height=1.2 + 0.5 * len(measured))


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME:]}"


def over_time_plot(figures: Figures) -> str | None:
    """Publications and deliveries per second, over the run."""
    if not figures.over_time:
        return None
    length = max(figures.last_us - figures.first_us, 1) / 1e6
    width = length / TIME_BUCKETS
    by_bucket = {bucket: (p, d) for bucket, p, d in figures.over_time}
    edges = [width * bucket for bucket in range(TIME_BUCKETS + 1)]
    rates = [by_bucket.get(bucket, (0, 0)) for bucket in range(TIME_BUCKETS)]

    def draw(axes: Any) -> None:
        delivered = [d / width for _, d in rates]
        published = [p / width for p, _ in rates]
        axes.stairs(delivered, edges, fill=True, color=BLUE, alpha=0.6, label="deliveries")
        axes.stairs(published, edges, color=ORANGE, linewidth=1.6, label="publications")
        axes.set_xlabel("time, s")
        axes.set_ylabel("per second")
        axes.set_ylim(bottom=0)
        _legend(axes)

    return _svg(draw)


def nodes_plot(figures: Figures, names: Names) -> str | None:
    """Per node: how many deliveries were held back, and how many copies came for nothing."""
    nodes = [node for node in figures.nodes if node.delivered]
    if not nodes or not any(node.duplicates or node.held for node in nodes):
        return None
    held = [100 * node.held / node.delivered for node in nodes]
    copies = [100 * node.duplicates / node.delivered for node in nodes]

    def bars(axes: Any) -> None:
        places = range(len(nodes))
        axes.bar([p - 0.2 for p in places], held, 0.4, color=BLUE, label="held back")
        axes.bar([p + 0.2 for p in places], copies, 0.4, color=ORANGE, label="superfluous copies")
        labels = [names.node(node.node) for node in nodes]
        turned = len("".join(labels)) > 70
        axes.set_xticks(places, labels, rotation=60 if turned else 0)

    def lines(axes: Any) -> None:
        axes.plot(sorted(held, reverse=True), color=BLUE, label="held back")
        axes.plot(sorted(copies, reverse=True), color=ORANGE, label="superfluous copies")
        axes.set_xlabel("nodes, most affected first")

    def draw(axes: Any) -> None:
        (bars if len(nodes) <= NODES_AS_BARS else lines)(axes)
        axes.set_ylabel("per 100 deliveries")
        axes.set_ylim(0, max(5.0, 1.25 * max(held + copies)))
        _legend(axes)

    return _svg(draw)


def timeline_plot(figures: Figures, names: Names) -> str | None:
    """When which node was down, and who came and went."""
    if not figures.changes:
        return None
    nodes = list(dict.fromkeys(change.node for change in figures.changes))[:NODES_AS_BARS]
    seconds = [(us - figures.first_us) / 1e6 for us in (figures.first_us, figures.last_us)]

    def draw(axes: Any) -> None:
        for place, node in enumerate(nodes):
            axes.hlines(place, *seconds, color=INK, alpha=0.25, linewidth=1)
            down_since: float | None = None
            for change in (c for c in figures.changes if c.node == node):
                at = (change.at_us - figures.first_us) / 1e6
                if change.kind == "crash":
                    down_since = at
                    axes.plot(at, place, "|", color=RED, markersize=10)
                elif change.kind == "recover" and down_since is not None:
                    axes.hlines(place, down_since, at, color=RED, linewidth=7)
                    down_since = None
                elif change.kind in ("join", "leave"):
                    mark, colour = (">", GREEN) if change.kind == "join" else ("<", ORANGE)
                    axes.plot(at, place, mark, color=colour, markersize=7)
            if down_since is not None:
                axes.hlines(place, down_since, seconds[1], color=RED, linewidth=7)
                axes.plot(down_since, place, "x", color=RED, markersize=8, markeredgewidth=2)
        axes.set_yticks(range(len(nodes)), [names.node(node) for node in nodes])
        axes.set_ylim(len(nodes) - 0.4, -0.6)
        margin = 0.01 * (seconds[1] - seconds[0] or 1)
        axes.set_xlim(seconds[0] - margin, seconds[1] + margin)
        axes.set_xlabel("time, s")

    return _svg(draw, height=0.9 + 0.27 * len(nodes))


def _plainly(value: float, _: int) -> str:
    return f"{value:g}"


def _svg(draw: Callable[[Any], None], height: float = 2.7) -> str:
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency(
            "matplotlib is not installed: pip install 'causalcast[tools]'"
        ) from None
    from matplotlib.figure import Figure

    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "causalcast",  # the same run gives the same bytes
        "text.parse_math": False,  # a name with $ in it is a name, not a formula
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(8, height), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        _bare(axes, keep="left")
        axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.8)
        axes.set_axisbelow(True)
        draw(axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def _legend(axes: Any) -> None:
    """Above the plot, where it hides nothing."""
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    axes.legend(frameon=False, labelcolor=INK, ncols=3, **above)


def _bare(axes: Any, keep: str) -> None:
    for side, spine in axes.spines.items():
        spine.set_visible(side in (keep, "bottom"))
        spine.set_alpha(0.4)
