"""Runs whose rows do not say when they happened: what is left of their metrics and figures.

A log of another system may give nothing but the order of each node's events. Then `at_us` is that
order, and a difference of two such numbers is no time.
"""

from typing import Any

from causalcast.pipeline.report.report_figures import Figures

ENDINGS = ("_ms", "_per_second")


def without_durations(values: dict[str, Any]) -> dict[str, Any]:
    """The metrics, with nothing where a time would have to be known."""
    return {name: None if name.endswith(ENDINGS) else value for name, value in values.items()}


def without_times(figures: Figures) -> Figures:
    """What can be drawn without a clock: who did how much, and who was waited for."""
    figures.latency = []
    figures.over_time = []
    figures.changes = []
    for node in figures.nodes:
        node.latency_p50_ms = None
    return figures
