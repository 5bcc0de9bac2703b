"""A search that learns: schedules that reach something new are kept, and varied.

Drawing anew forgets everything after each seed. Here a schedule is kept if it reached what no
schedule before it had reached (`novelty`). Most trials then start from a kept one: they play it up
to a point, most often to where it reached something new, and let the adversary go on from there
with other choices; or they leave steps out, double, move or exchange them; or they put the end of
another kept schedule behind the beginning of this one; or they change a scenario with a clock in
one place. What was reached seldom is varied most. The rest of the trials are drawn anew.

Every step that is played again is checked: a crash that the protocol does not promise to survive
is left out, so whatever breaks is a bug here too. The trials of a search are numbered like seeds.
The same numbers give the same search; after `LIFE` trials one ends and another begins, from
nothing, so that searches can run side by side and none stays where it is stuck.
"""

import random
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.adversary import Adversary, with_steps
from causalcast.swarm.campaign import (
    FEEDBACK,
    Campaign,
    Plan,
    SeedResult,
    scenario_of,
    stage_of,
)
from causalcast.swarm.generate import toml_text
from causalcast.swarm.mutant import find_mutant
from causalcast.swarm.novelty import Novelty, Thing
from causalcast.swarm.small_limits import with_limits
from causalcast.swarm.smaller import Data, text_of_scenario
from causalcast.swarm.stories import Storyteller, draw_story, judge_story
from causalcast.swarm.trial import Trial, try_run
from causalcast.swarm.variations import varied_scenario, varied_steps

LIFE: Final = 2000  # trials of one search
DRAWN_ANEW: Final = 0.25  # of all trials
FEWEST_MOVES, MOST_MOVES = 3, 40  # that the adversary makes after what it plays again
MOST_STEPS: Final = 250
REWEIGHED_EVERY: Final = 25  # trials
LEVEL: Final = "deliveries"
ADVERSARY, STORY, CLOCK = "adversary", "story", "clock"


@dataclass
class Kept:
    """A schedule that reached something new."""

    kind: str  # ADVERSARY, STORY or CLOCK
    data: Data  # the scenario, without its steps
    steps: list[Step]
    found: dict[Thing, int]  # what it was the first to reach, and at which move
    cost: int  # messages that its nodes handled
    chosen: int = 0
    weight: float = 1.0

    def moves(self) -> list[int]:
        """Where in the schedule something new was reached."""
        return sorted({min(move, len(self.steps)) for move in self.found.values()})


class Search:
    """One search: the schedules it keeps, and how often everything was reached."""

    def __init__(self, plan: Plan, first: int) -> None:
        self.plan = replace(plan, search=FEEDBACK)
        self.spec = plan.spec()
        self.first = first
        self.kept: list[Kept] = []
        self.times: dict[Thing, int] = {}  # how many trials reached it
        self._news: dict[str, int] = {}
        self._until_reweighed = 0

    def trial(self, number: int) -> Trial:
        """Make the next trial, judge it, and keep it if it reached something new."""
        rng = random.Random(f"feedback/{self.spec.name}/{self.first}/{number}")
        if not self.kept or rng.random() < DRAWN_ANEW:
            return self._draw_anew(number)
        parent = self._choose(rng)
        if parent.kind == CLOCK:
            way, data = varied_scenario(parent.data, self._like(parent), rng)
            self._news = {f"search.{way}": 1}
            return self._run_clock({**data, "seed": rng.randrange(1 << 30)}, number)
        way, steps, more = self._schedule(parent, rng)
        self._news = {f"search.{way}": 1}
        return self._direct(parent.kind, parent.data, steps, more, rng, number)

    # How a trial comes about

    def news(self) -> dict[str, int]:
        """How the last trial was made, whether it was kept, and how much of it was new."""
        return self._news

    def _draw_anew(self, number: int) -> Trial:
        self._news = {"search.drawn anew": 1}
        plan = self.plan
        if plan.by == "stories":
            rng = random.Random(f"story/{self.spec.name}/{number}")
            facts = plan.facts_of(number)
            drawn = draw_story(
                self.spec, number, plan.options, plan.overlay, plan.gives_up, rng, facts
            )
            return self._direct(STORY, _data(*drawn), [], -1, rng, number)
        if plan.is_adversary(number):
            drawn = stage_of(plan, number)
            rng = random.Random(f"adversary/{self.spec.name}/{number}")
            return self._direct(ADVERSARY, _data(*drawn), [], -1, rng, number)
        return self._run_clock(tomllib.loads(scenario_of(plan, number)), number)

    def _schedule(self, parent: Kept, rng: random.Random) -> tuple[str, list[Step], int]:
        """What is played again, and how many moves the adversary makes after it."""
        moves = rng.randint(FEWEST_MOVES, MOST_MOVES)
        chance = rng.random()
        if chance < 0.6:
            until = rng.choice(parent.moves()) + rng.choice([0, 0, 1, 2])
            if rng.random() < 0.2:
                until = rng.randrange(len(parent.steps) + 1)
            return "played on", parent.steps[:until], moves
        other = rng.choice(self._like(parent) or [parent])
        steps = varied_steps(parent.steps, other.steps, rng)[:MOST_STEPS]
        return "changed", steps, moves if rng.random() < 0.3 else 0

    def _like(self, parent: Kept) -> list[Kept]:
        return [one for one in self.kept if one.kind == parent.kind]

    def _choose(self, rng: random.Random) -> Kept:
        if self._until_reweighed == 0:
            self._until_reweighed = REWEIGHED_EVERY
            for one in self.kept:
                one.weight = self._weight(one)
        self._until_reweighed -= 1
        chosen = rng.choices(self.kept, [one.weight for one in self.kept])[0]
        chosen.chosen += 1
        return chosen

    def _weight(self, one: Kept) -> float:
        """What was reached seldom counts much; what was varied often already, less."""
        rare = sum(1.0 / self.times[thing] for thing in one.found)
        return rare / (1.0 + one.chosen) / (100 + one.cost)

    # Running one

    def _direct(
        self,
        kind: str,
        data: Data,
        steps: list[Step],
        more: int,
        rng: random.Random,
        number: int,
    ) -> Trial:
        """Play steps and `more` moves of the adversary after them (-1: as many as it likes)."""
        plan = self.plan
        scenario = Scenario(text_of_scenario(data), f"trial {number}", protocol=plan.protocol)
        run = DirectedRun(scenario, LEVEL)
        doubts = plan.for_good if kind == ADVERSARY else not scenario.recover_all
        teller = Storyteller if kind == STORY else Adversary
        director = teller(run, rng, plan.beyond, plan.gives_up, doubts)
        novelty = Novelty(run.simulation)
        director.before_step = novelty.at_step
        director.before_rest = novelty.stop  # how all comes to rest is much, and much the same

        def play() -> None:
            director.play_again(steps)
            director.play(None if more < 0 else more)

        if kind == STORY:
            trial = judge_story(self.spec, run, play, plan.properties())
        else:
            trial = try_run(run, play, plan.properties())
        trial.text = with_steps(_head(data), _tables(data), director.steps)
        self._take(kind, data, director.steps, novelty, run.simulation.shared.messages_handled)
        return trial

    def _run_clock(self, data: Data, number: int) -> Trial:
        text = text_of_scenario(data)
        run = ScenarioRun(Scenario(text, f"trial {number}", protocol=self.plan.protocol), LEVEL)
        novelty = Novelty(run.simulation)
        trial = try_run(run, run.run, self.plan.properties())
        trial.text = text
        self._take(CLOCK, data, [], novelty, run.simulation.shared.messages_handled)
        return trial

    def _take(self, kind: str, data: Data, steps: list[Step], novelty: Novelty, cost: int) -> None:
        reached = novelty.finish()
        new = {thing: move for thing, move in reached.items() if thing not in self.times}
        for thing in reached:
            self.times[thing] = self.times.get(thing, 0) + 1
        self._news |= {"search.kept": int(bool(new)), "search.reached": len(new)}
        if new:
            self.kept.append(Kept(kind, data, list(steps), new, cost))
            self.kept[-1].weight = self._weight(self.kept[-1])


def run_feedback(
    plan: Plan,
    seeds: Sequence[int],
    processes: int = 1,
    stop_at_first: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Campaign:
    """Search with so many trials, on so many processes; or stop at the first that fails."""
    plan = replace(plan, search=FEEDBACK)
    campaign = Campaign(plan, drawn_anew=DRAWN_ANEW)
    started = time.perf_counter()
    lives = [list(seeds[start : start + LIFE]) for start in range(0, len(seeds), LIFE)]
    alone = processes == 1 or len(lives) == 1
    for result in _here(plan, lives) if alone else _on_processes(plan, lives, processes):
        campaign.add(result)
        if progress is not None:
            progress(campaign.seeds / max(1, len(seeds)))
        if stop_at_first and campaign.failures:
            break
    campaign.seconds = time.perf_counter() - started
    return campaign


def search_through(plan: Plan, seeds: list[int]) -> list[SeedResult]:
    """All trials of one search, with the plan's mutant planted if it has one."""
    return list(_here(plan, [seeds]))


def _here(plan: Plan, lives: list[list[int]]) -> Iterator[SeedResult]:
    with ExitStack() as stack:
        if plan.mutant:
            stack.enter_context(find_mutant(Path(plan.mutants), plan.mutant).planted())
        for life in lives:
            search = Search(plan, life[0])
            for seed in life:
                with plan.world_of(seed):
                    trial = search.trial(seed)
                text = with_limits(trial.text, plan.limits(seed)) if trial.problems else ""
                fired = {**trial.fired, **search.news()}
                problems, logical_us = trial.problems, trial.logical_us
                yield SeedResult(seed, problems, fired, logical_us, text, life[0])


def _on_processes(plan: Plan, lives: list[list[int]], processes: int) -> Iterator[SeedResult]:
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        tasks = [pool.submit(search_through, plan, life) for life in lives]
        try:
            for task in tasks:  # in the order of numbers, so that the first failure is the first
                yield from task.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _data(head: dict[str, Any], tables: list[tuple[str, dict[str, Any]]]) -> Data:
    return tomllib.loads(toml_text(head, tables))


def _head(data: Data) -> dict[str, Any]:
    return {key: value for key, value in data.items() if not isinstance(value, dict)}


def _tables(data: Data) -> list[tuple[str, dict[str, Any]]]:
    return [(key, value) for key, value in data.items() if isinstance(value, dict)]
