"""What the trials showed, for people: a table in Markdown, plots and diagrams in SVG."""

from collections.abc import Sequence
from pathlib import Path

from causalcast.buses.conditions import CONDITIONS
from causalcast.buses.registry import SYSTEMS
from causalcast.buses.trial import Outcome
from causalcast.pipeline.report.space_time import diagram
from causalcast.pipeline.verdicts.counter_example import sentence, steps_of
from causalcast.pipeline.verify import verify


def order_table(outcomes: Sequence[Outcome]) -> str:
    """Causal violations (and those of one sender's order) per set-up and condition."""
    names = [c.name for c in CONDITIONS if any(o.condition == c.name for o in outcomes)]
    lines = ["| bus and set-up | " + " | ".join(names) + " |"]
    lines.append("| --- |" + " --- |" * len(names))
    for system, setup in _rows(outcomes):
        cells = [_order_cell(outcomes, system, setup, name) for name in names]
        lines.append(f"| {system}: {setup} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def speed_table(outcomes: Sequence[Outcome]) -> str:
    """Latency at a moderate rate, and what got through at a high one."""
    heads = ("bus and set-up", "median ms", "99 % ms", "deliveries/s at the high rate", "lacking")
    lines = ["| " + " | ".join(heads) + " |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for system, setup in _rows(outcomes):
        calm = _find(outcomes, system, setup, "moderate")
        fast = _find(outcomes, system, setup, "high rate")
        lost = sum(o.missing for o in outcomes if (o.system, o.setup) == (system, setup))
        cells = [
            f"{calm.latency_p50_ms:.1f}" if calm else "–",
            f"{calm.latency_p99_ms:.1f}" if calm else "–",
            f"{fast.deliveries_per_second:,.0f}" if fast else "–",
            f"{lost:,}",
        ]
        lines.append(f"| {system}: {setup} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def systems_table(outcomes: Sequence[Outcome]) -> str:
    """What was compared: versions, settings, what its documentation says about order."""
    lines = [
        "| bus | version | settings | order, by its documentation |",
        "| --- | --- | --- | --- |",
    ]
    used = {outcome.system for outcome in outcomes}
    for system in SYSTEMS:
        if system.name in used:
            version = "–" if system.lacking() else system.version()
            told = (system.name, version, system.settings, system.order)
            lines.append("| " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def order_plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """Causal violations per 1,000 deliveries, by set-up and condition."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    rows = _rows(outcomes)
    names = [c.name for c in CONDITIONS if any(o.condition == c.name for o in outcomes)]
    figure, axes = plt.subplots(figsize=(9, 0.48 * len(rows) + 1.2))
    colours = ("#3b82c4", "#3f9b6c", "#c94f4f", "#d9822b", "#7d6bb0")
    for shift, name in enumerate(names):
        values = []
        for system, setup in rows:
            found = _find(outcomes, system, setup, name)
            values.append(
                1000 * found.causal / found.deliveries if found and found.deliveries else 0
            )
        places = [row + (shift - (len(names) - 1) / 2) * 0.16 for row in range(len(rows))]
        axes.barh(places, [max(v, 0.012) for v in values], 0.15, color=colours[shift], label=name)
    axes.set_yticks(range(len(rows)), [f"{system}: {setup}" for system, setup in rows])
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, 1000)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1,000"])
    axes.set_xlabel("deliveries before one of their causes, of 1,000")
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def counter_example(run: Path, path: Path) -> str | None:
    """The first counter-example of a run as a diagram; the sentence about it."""
    verdict = verify(run)
    wanted = ("reply_order", "causal_order")
    examples = [f for result in verdict.results if result.name in wanted for f in result.examples]
    # Between processes first, then the shortest: that is what people follow.
    across = sorted(examples, key=lambda f: (len({m >> 32 for m in f.chain}) < 2, len(f.chain)))
    for finding in across:
        steps = steps_of(finding, run)
        if steps:
            path.write_text(_alone(diagram(steps, verdict.names)))
            return sentence(finding, verdict.names)
    return None


def _alone(svg: str) -> str:
    """A diagram of a report, as a file of its own that is legible on light and dark pages."""
    return svg.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" color="#6b7280" fill="#6b7280"'
        ' font-family="sans-serif" font-size="13" ', 1,
    )  # fmt: skip


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((outcome.system, outcome.setup) for outcome in outcomes))


def _find(outcomes: Sequence[Outcome], system: str, setup: str, condition: str) -> Outcome | None:
    for outcome in outcomes:
        if (outcome.system, outcome.setup, outcome.condition) == (system, setup, condition):
            return None if outcome.skipped else outcome
    return None


def _order_cell(outcomes: Sequence[Outcome], system: str, setup: str, condition: str) -> str:
    found = _find(outcomes, system, setup, condition)
    if found is None:
        return "–"
    if not found.causal:
        return f"0 of {found.deliveries:,}"
    fifo = f", {found.fifo:,} of one sender" if found.fifo else ""
    return f"**{found.causal:,}** of {found.deliveries:,}{fifo}"
