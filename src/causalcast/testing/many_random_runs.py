"""Thousands of random runs: written, judged and compared, a range of seeds at a time.

A run is made again from its seed wherever it is needed, so that the steps can be Spark tasks.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from causalcast.judge import judge
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.testing.algorithm_16 import (
    deliveries_of,
    says_in_order,
    says_in_order_for_members,
)
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.run_folder import Run, write_run


def run_of_seed(seed: int) -> Run:
    """A random run; three of four are damaged."""
    random = Random(seed)
    draft = good_run(random)
    if seed % 4:
        damage(draft, random)
    return draft.run()


def write_runs(folder: Path, seeds: Iterable[int]) -> None:
    """Write the runs of some seeds, each into a folder of its own."""
    for seed in seeds:
        write_run(folder / str(seed), run_of_seed(seed))


def compare(
    seeds: Sequence[int], findings: Sequence[list[Finding]]
) -> tuple[list[str], Counter[str]]:
    """Compares the judge with what was found: every difference, and how much there was to judge."""
    said: list[str] = []
    seen: Counter[str] = Counter()
    for seed, found in zip(seeds, findings, strict=True):
        run = run_of_seed(seed)
        judgement = judge(run)
        said += [f"seed {seed}: {text}" for text in differences(run, judgement, found)]
        seen.update(judgement.all_broken())
        seen["violating"] += bool(judgement.all_broken())
        seen.update({row["kind"] for row in run.events.select(["kind"]).to_pylist()})
        seen["overlapping groups"] += len(run.groups) > 1
        if judgement.violations["causal_order"]:
            logs = deliveries_of(run)
            seen["missed by algorithm 16"] += says_in_order(logs)
            seen["missed by its adapted form"] += says_in_order_for_members(logs, run)
        elif not says_in_order(deliveries_of(run)):
            seen["false alarms of algorithm 16"] += 1
    return said, seen
