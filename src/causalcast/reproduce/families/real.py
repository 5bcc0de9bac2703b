"""Real nodes, each a process, beside the simulator: the same protocol, places and publications."""

import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from causalcast.experiments.experiment import Experiment
from causalcast.experiments.plan import spread
from causalcast.experiments.site import LOCAL
from causalcast.pipeline.report.small_run import SmallRun, measure, small_run
from causalcast.reproduce.families.judged_run import copies, judged, judged_run, options_of
from causalcast.runtime.operating.local_cluster import ClusterPlan
from causalcast.trace.gather import gather

PATIENCE = 120.0  # seconds without any progress, on a machine that is busy with other things
EVERY = 5  # nodes, of which one publishes


def real(values: dict[str, Any]) -> dict[str, Any]:
    """One run over a tree: every fifth node publishes, all of them at the same moments.

    With `processes` each node is one, speaks over TCP on loopback, and logs what it does; their
    logs are a run like any other. Nothing here depends on how fast the machine is but latency.
    """
    if values["processes"]:
        rows, facts = _of_processes(values)
    else:
        made = judged_run(scenario_of(values))
        rows, facts = made.rows, made.facts
    measured = measure(rows)
    return {
        **facts,
        "metadata_mean": measured["metadata_mean_bytes"],
        "metadata_max": measured["metadata_max_bytes"],
        "copies_per_delivery": len(copies(rows)) / max(1, len(rows.elsewhere())),
        "latency_ms": measured["latency_mean_ms"],
        "reliability": measured["reliability"],
    }


def _of_processes(values: dict[str, Any]) -> tuple[SmallRun, dict[str, Any]]:
    before = _cpu_of_children()
    with TemporaryDirectory(prefix="causalcast-real-") as temporary:
        folder = Path(temporary) / "nodes"
        plan = ClusterPlan(
            protocol=values["protocol"], overlay="tree", trace_level="messages", tls=False
        )
        broadcasters = len(publishers(values))
        experiment = Experiment.prepare(folder, LOCAL, values["nodes"], broadcasters, plan)
        running = experiment.start()
        try:
            running.wait_ready(_nobody)
            experiment.trigger(values["broadcasts"], values["payload_bytes"], values["interval_ms"])
            experiment.wait_until_over(PATIENCE, _nobody)
            experiment.stop()
        finally:
            running.close()
        run = gather([folder], Path(temporary) / "run")
    return small_run(run), judged(run, _cpu_of_children() - before)


def publishers(values: dict[str, Any]) -> list[int]:
    """Nodes at even distances, counted from 1 as real ones are."""
    nodes = list(range(1, values["nodes"] + 1))
    return spread(nodes, max(1, len(nodes) // EVERY))


def scenario_of(values: dict[str, Any]) -> str:
    """The text of what is simulated."""
    senders = [node - 1 for node in publishers(values)]
    interval, count = values["interval_ms"], values["broadcasts"]
    return f"""
protocol = "{values["protocol"]}"
until_ms = {interval * count + 200}
seed = {values.get("seed", 1)}
{options_of(values)}
[overlay]
kind = "tree"
nodes = {values["nodes"]}
[network]
latency_ms = 0.2
[[publish]]
at_ms = 100
node = 0
count = 1
payload_bytes = {values["payload_bytes"]}
[[publish]]
at_ms = 200
node = {senders}
count = {count}
interval_ms = {interval}
payload_bytes = {values["payload_bytes"]}
[calm]
ms = 5000
"""


def _nobody(_words: str) -> None:
    """Nobody is told how far it is."""


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
