"""Makes a failing scenario as small as it gets while the same property still fails.

Publications, faults and steps are left out in large pieces first, then in small ones; then nodes,
groups and details, again and again, until nothing can be left out any more.

Where latencies are drawn, one message less changes all that come after it, and what was left out
may have been needed for its place in the row only. So when nothing can be left out any more, single
publications and faults are left out once again, with other seeds.
"""

import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from causalcast.errors import CausalcastError
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.smaller import (
    Data,
    simpler_details,
    smaller_groups,
    text_of_scenario,
    with_plain_publications,
    without_node,
)
from causalcast.swarm.trial import Trial, try_scenario

LISTS = ("steps", "fault", "publish")
PATIENCE_S = 60.0
OTHER_SEEDS = 10


@dataclass
class Shrunk:
    """The smallest scenario that was found, and what still fails there."""

    text: str
    trial: Trial
    attempts: int
    events: int
    """Steps; or in a scenario with a clock, publications and faults."""


class Shrinker:
    """Looks for the smallest scenario in which `wanted` still fails."""

    def __init__(
        self, wanted: str, check: tuple[str, ...], protocol: str, patience_s: float = PATIENCE_S
    ) -> None:
        self._wanted = wanted
        self._check = check
        self._protocol = protocol
        self._deadline = time.monotonic() + patience_s
        self.attempts = 0

    def shrink(self, text: str) -> Shrunk | None:
        """The smallest scenario that can be found in time; none if `text` does not fail."""
        data = {**tomllib.loads(text), "protocol": self._protocol}
        smaller: Data | None = self._listed(data)
        while smaller is not None:
            data = self._without_all_it_can_do_without(smaller)
            smaller = self._without_one_at_another_seed(data)
        trial = self._trial(data, "full") or self._trial(data, "deliveries")
        return None if trial is None else _shrunk(data, trial, self.attempts)

    def _without_all_it_can_do_without(self, data: Data) -> Data:
        before: Data = {}
        while data != before and not self._is_late():
            before = data
            for key in LISTS:
                data = self._shorten(data, key)
            data = self._drop_nodes(data)
            data = self._first_that_fails(data, smaller_groups)
            data = self._first_that_fails(data, simpler_details)
        return data

    def _without_one_at_another_seed(self, data: Data) -> Data | None:
        """The scenario with one entry less, at some seed; none if every entry is needed."""
        others = self._seeds(data)[1:]
        for key in LISTS:
            for left_out in range(len(data.get(key, []))):
                fewer = {**data, key: data[key][:left_out] + data[key][left_out + 1 :]}
                if not fewer[key]:
                    del fewer[key]
                for seed in others:
                    if self._fails({**fewer, "seed": seed}):
                        return {**fewer, "seed": seed}
        return None

    def _listed(self, data: Data) -> Data:
        """Streams as single publications: those can be left out one by one."""
        trial = self._trial(data, "deliveries")
        if trial is None or trial.run is None or "publish" not in data:
            return data
        plain = with_plain_publications(data, trial.run)
        return plain if self._fails(plain) else data

    def _shorten(self, data: Data, key: str) -> Data:
        """Leave out pieces of a list, halves first, single entries last."""
        size = len(data.get(key, [])) // 2 or 1
        while key in data and data[key] and not self._is_late():
            start = 0
            while start < len(data[key]):
                fewer = {**data, key: data[key][:start] + data[key][start + size :]}
                if not fewer[key] and key != "steps":
                    del fewer[key]
                if self._fails(fewer):
                    data = fewer
                    if key not in data:
                        break
                else:
                    start += size
            if size == 1:
                break
            size //= 2
        return data

    def _drop_nodes(self, data: Data) -> Data:
        for node in range(data["overlay"]["nodes"] - 1, -1, -1):
            if data["overlay"]["nodes"] > 1 and data["overlay"].get("kind") == "edges":
                fewer = without_node(data, node)
                for seed in self._seeds(data):
                    if self._fails({**fewer, "seed": seed}):
                        data = {**fewer, "seed": seed}
                        break
        return data

    def _seeds(self, data: Data) -> list[int]:
        """Other seeds to try: leaving out a node changes all latencies that are drawn after it."""
        if "steps" in data:
            return [data["seed"]]
        return [data["seed"], *range(OTHER_SEEDS)]

    def _first_that_fails(self, data: Data, candidates: Callable[[Data], Iterator[Data]]) -> Data:
        """Take the first candidate that still fails, and begin anew with it."""
        found = True
        while found and not self._is_late():
            found = False
            for candidate in candidates(data):
                if self._fails(candidate):
                    data, found = candidate, True
                    break
        return data

    def _fails(self, data: Data) -> bool:
        return not self._is_late() and self._trial(data, "deliveries") is not None

    def _trial(self, data: Data, level: str) -> Trial | None:
        """The trial, if the scenario can be run and the wanted property fails in it."""
        self.attempts += 1
        try:
            scenario = Scenario(text_of_scenario(data), "shrinking", protocol=self._protocol)
            trial = try_scenario(scenario, self._check, level)
        except (CausalcastError, ValueError):  # what is left is no scenario any more
            return None
        return trial if self._wanted in trial.broken() else None

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline


def shrink(trial: Trial, check: tuple[str, ...], protocol: str, **more: Any) -> Shrunk:
    """Shrink a trial that failed, for the first property that it broke.

    A trial that its text alone does not repeat comes back as it is.
    """
    shrinker = Shrinker(trial.problems[0].property, check, protocol, **more)
    return shrinker.shrink(trial.text) or _shrunk(tomllib.loads(trial.text), trial, 1)


def _shrunk(data: Data, trial: Trial, attempts: int) -> Shrunk:
    return Shrunk(text_of_scenario(data), trial, attempts, _events(data))


def _events(data: Data) -> int:
    return sum(len(data.get(key, [])) for key in LISTS)
