"""A campaign on Spark finds what a campaign on this machine finds."""

from typing import Any

import pytest

from causalcast.swarm.campaign import Plan, run_campaign
from causalcast.swarm.on_spark import run_on_spark

pytestmark = pytest.mark.spark


def test_spark_finds_the_same_failures(spark: Any) -> None:
    plan = Plan("naive_flood", check=("causal_order",))
    told: list[float] = []
    there = run_on_spark(spark, plan, range(10, 110), told.append)
    here = run_campaign(plan, range(10, 110))
    assert there.failures == here.failures and here.failures
    assert (there.seeds, there.fired, there.logical_us) == (100, here.fired, here.logical_us)
    assert told[-1] == 1.0


def test_a_mutant_is_planted_in_every_task(spark: Any) -> None:
    from pathlib import Path

    mutants = str(Path(__file__).parent.parent / "mutants" / "vector_clock_broadcast.py")
    plan = Plan("vector_clock_broadcast", mutants=mutants, mutant="never_forgotten")
    assert len(run_on_spark(spark, plan, range(50)).failures) > 40
    healthy = Plan("vector_clock_broadcast")
    assert run_on_spark(spark, healthy, range(50)).failures == []
