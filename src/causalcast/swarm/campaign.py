"""A campaign: many seeds, each a random scenario or a run of the adversary, each judged.

Seeds are independent, so they run on all cores, or as tasks of Spark. What fired is counted over
the whole campaign: a kind of fault or a rare branch of the protocol that could have happened and
never did makes the campaign fail, for then the evidence is worth less than it looks.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from causalcast.core.spec import ProtocolSpec
from causalcast.errors import CausalcastError
from causalcast.limits import set_to
from causalcast.registry import find_protocol
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.adversary import draw_stage, prepare_adversary, with_steps
from causalcast.swarm.generate import expected_kinds, random_scenario, toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.real_worlds import DRAWN, PLAIN, drawn_facts, expected_facts
from causalcast.swarm.small_limits import small_limits, with_limits
from causalcast.swarm.stories import try_story
from causalcast.swarm.trial import (
    SAFETY,
    Problem,
    Trial,
    fell_at_the_start,
    promised,
    try_run,
    try_scenario,
)
from causalcast.swarm.worse import expected_worse, worse_scenario

FEEDBACK = "feedback"
WORSE = "worse"
HOURS = 3_600_000_000  # microseconds
CHUNK = 25  # seeds per task
# Rare things need some seeds to happen: below this many nothing is blamed for never happening.
ENOUGH_SEEDS = 500
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What every seed of a campaign has in common."""

    protocol: str
    options: dict[str, Any] = field(default_factory=dict)
    overlay: str = ""  # narrows the graphs: tree or mesh
    by: str = "both"  # random, worse, adversary, stories, or both: odd seeds are the adversary's
    beyond: bool = False  # also faults that the protocol does not promise to survive
    check: tuple[str, ...] = ()  # instead of what is promised
    mutants: str = ""  # the file that has the mutant
    mutant: str = ""
    gives_up: bool = False  # some of those that fall are declared gone for good
    for_good: bool = False  # some die as they publish, and never come back
    small_limits: bool = False  # of the protocol and its parts, drawn for each seed
    search: str = "anew"  # or feedback: see there
    facts: str = DRAWN  # what protocols are told of their world; or plain: nothing

    def spec(self) -> ProtocolSpec:
        """What the protocol says about itself."""
        return find_protocol(self.protocol)

    def is_adversary(self, seed: int) -> bool:
        """Whether this seed is the adversary's."""
        return self.by == "adversary" or self.gives_up or (self.by == "both" and seed % 2 == 1)

    def facts_of(self, seed: int) -> dict[str, Any]:
        """What protocols are told of the world of this seed. Who gives nodes up needs crashes, and
        so may a schedule that is put together from others; those need a disk."""
        may_forget = not self.gives_up and self.search != FEEDBACK
        return drawn_facts(self.spec(), seed, may_forget) if self.facts == DRAWN else {}

    def properties(self) -> tuple[str, ...]:
        """What is judged instead of the promises; nothing if the promises are."""
        if self.check or not self.beyond:
            return self.check
        return tuple(name for name in promised(self.spec()) if name in SAFETY)

    def limits(self, seed: int) -> dict[str, float]:
        """Limits that are others in the world of this seed than in the shipped code."""
        return small_limits(self.spec(), self.options, seed) if self.small_limits else {}

    def world_of(self, seed: int) -> AbstractContextManager[None]:
        """While this lasts, limits are those of the seed."""
        return set_to(self.limits(seed))

    def repeat(self, seed: int, first: int = -1) -> str:
        """The command that runs this seed again, and all from `first` on that led to it."""
        words = [
            "causalcast",
            "swarm",
            "--protocol",
            self.protocol,
            "--seeds",
            f"{first if first >= 0 else seed}..{seed + 1}",
        ]
        words += ["--search", self.search] if self.search != "anew" else []
        for name, value in self.options.items():
            words += ["--set", f"{name}={value}"]
        words += ["--by", self.by] if self.by != "both" else []
        words += ["--overlay", self.overlay] if self.overlay else []
        words += ["--beyond"] if self.beyond else []
        words += ["--gone"] if self.gives_up else []
        words += ["--for-good"] if self.for_good else []
        words += ["--small-limits"] if self.small_limits else []
        words += ["--facts", self.facts] if self.facts != DRAWN else []
        for name in self.check:
            words += ["--check", name]
        words += ["--mutant", self.mutant] if self.mutant else []
        return shlex.join(words)


@dataclass
class SeedResult:
    """What came of one seed."""

    seed: int
    problems: list[Problem]
    fired: dict[str, int]
    logical_us: int
    text: str = ""  # the scenario, where its seed alone does not repeat it
    first: int = -1  # where the search began that it belongs to


@dataclass
class Failure:
    """A seed that failed, and the command that repeats it."""

    seed: int
    property: str
    detail: str
    repeat: str
    text: str = ""


@dataclass
class Campaign:
    """What came of all seeds."""

    plan: Plan
    seeds: int = 0
    failures: list[Failure] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)
    logical_us: int = 0
    seconds: float = 0.0
    drawn_anew: float = 1.0  # the share of seeds that are; the others vary them

    def add(self, result: SeedResult) -> None:
        """Count one seed."""
        self.seeds += 1
        self.logical_us += result.logical_us
        for kind, times in result.fired.items():
            self.fired[kind] = self.fired.get(kind, 0) + times
        if result.problems:
            first = result.problems[0]
            repeat = self.plan.repeat(result.seed, result.first)
            failure = Failure(result.seed, first.property, first.detail, repeat, result.text)
            self.failures.append(failure)

    def never_fired(self) -> list[str]:
        """What could have happened and never did; empty for a campaign too small to tell."""
        if self.seeds * self.drawn_anew < ENOUGH_SEEDS:
            return []
        spec = self.plan.spec()
        by = "adversary" if self.plan.gives_up else self.plan.by
        expected = expected_kinds(
            spec, by, self.plan.beyond, self.plan.for_good, self.plan.options, self.plan.facts
        )
        if by == WORSE:
            return [k for k in expected_worse(spec, self.plan.facts) if not self.fired.get(k)]
        expected += [f"note.{name}" for name in spec.rare]
        if self.plan.gives_up:
            never = ("join_group", "leave_group")
            expected = [kind for kind in expected if kind not in never] + ["gone"]
            expected = [kind for kind in expected if kind != "world.no_records"]
        if self.plan.search == FEEDBACK:  # of its scenarios with a clock nothing is told
            facts = expected_facts(spec)
            expected = [kind for kind in expected if kind not in facts]
        return [kind for kind in expected if not self.fired.get(kind)]

    def succeeded(self) -> bool:
        """No seed failed, and everything that could happen did."""
        return not self.failures and not self.never_fired()


def try_seed(plan: Plan, seed: int, level: str = "deliveries") -> Trial:
    """One seed: draw it, run it, judge it. The text of the trial repeats the run by itself."""
    with plan.world_of(seed):
        trial = _try_seed(plan, seed, level)
    trial.text = with_limits(trial.text, plan.limits(seed))
    return trial


def _try_seed(plan: Plan, seed: int, level: str) -> Trial:
    spec = plan.spec()
    where = f"seed {seed}"
    if plan.by == "stories":
        options, check, facts = plan.options, plan.properties(), plan.facts_of(seed)
        return try_story(spec, seed, options, plan.overlay, plan.gives_up, check, level, facts)
    if not plan.is_adversary(seed):
        scenario = Scenario(scenario_of(plan, seed), where, protocol=plan.protocol)
        return try_scenario(scenario, plan.properties(), level)
    head, tables = stage_of(plan, seed)
    scenario = Scenario(toml_text(head, tables), where, protocol=plan.protocol)
    try:
        adversary = prepare_adversary(scenario, level, plan.beyond, plan.gives_up, plan.for_good)
    except CausalcastError:
        raise
    except Exception as error:
        return fell_at_the_start(scenario.text, error, plan.properties())
    trial = try_run(adversary.run, adversary.play, plan.properties())
    trial.text = with_steps(head, tables, adversary.steps)
    return trial


def scenario_of(plan: Plan, seed: int) -> str:
    """The text of a random scenario."""
    # Variations put pieces of several scenarios together, which need not fit into one world.
    facts = PLAIN if plan.search == FEEDBACK else plan.facts
    if plan.by == WORSE:
        return worse_scenario(plan.spec(), seed, plan.options, plan.overlay, plan.for_good, facts)
    return random_scenario(
        plan.spec(), seed, plan.options, plan.overlay, plan.beyond, plan.for_good, facts
    )


def stage_of(plan: Plan, seed: int) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Where the adversary plays."""
    facts = plan.facts_of(seed)
    return draw_stage(plan.spec(), seed, plan.options, plan.overlay, plan.for_good, facts)


def run_campaign(
    plan: Plan,
    seeds: Sequence[int],
    processes: int = 1,
    stop_at_first: bool = False,
    progress: Progress | None = None,
) -> Campaign:
    """Try all seeds, on so many processes; or stop at the first that fails."""
    campaign = Campaign(plan)
    started = time.perf_counter()
    chunks = [list(seeds[start : start + CHUNK]) for start in range(0, len(seeds), CHUNK)]
    results = _here(plan, chunks) if processes == 1 else _on_processes(plan, chunks, processes)
    for result in results:
        campaign.add(result)
        if progress is not None:
            progress(campaign.seeds / max(1, len(seeds)))
        if stop_at_first and campaign.failures:
            break
    campaign.failures.sort(key=lambda failure: failure.seed)
    campaign.seconds = time.perf_counter() - started
    return campaign


def run_chunk(plan: Plan, seeds: list[int]) -> list[SeedResult]:
    """Try some seeds one after the other, with the plan's mutant planted if it has one."""
    return list(_here(plan, [seeds]))


def _here(plan: Plan, chunks: list[list[int]]) -> Iterator[SeedResult]:
    with ExitStack() as stack:
        if plan.mutant:
            stack.enter_context(find_mutant(Path(plan.mutants), plan.mutant).planted())
        for seed in (seed for chunk in chunks for seed in chunk):
            trial = try_seed(plan, seed)
            yield SeedResult(seed, trial.problems, trial.fired, trial.logical_us)


def _on_processes(plan: Plan, chunks: list[list[int]], processes: int) -> Iterator[SeedResult]:
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        tasks = [pool.submit(run_chunk, plan, chunk) for chunk in chunks]
        try:
            for task in tasks:  # in the order of seeds, so that the first failure is the first
                yield from task.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
