"""Many worlds, on all cores: what failed, what happened and what never did."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causalcast.nodeworld.drawing import draw
from causalcast.nodeworld.drawn_limits import expected
from causalcast.nodeworld.newcomers import LEFT_OUT
from causalcast.nodeworld.tales import tales_of
from causalcast.nodeworld.trial import try_plan
from causalcast.nodeworld.verdict import Outcome
from causalcast.registry import find_protocol

# A campaign that never saw one of these has not looked where it should.
EXPECTED: Final = (
    "kill",
    "power",
    "stop",
    "start",
    "died_writing",
    "freeze",
    "cut",
    "half_close",
    "silence",
    "one_way",
    "slow",
    "full",
    "read_only",
    "sync_error",
    "dial_refused",
    "dial_unanswered",
    "writer_paused",
    "reader",
    "reader_ended",
)
EXPECTED_OF_RESUMED: Final = ("compaction", "put_back")  # where nodes go on with their disks
EXPECTED_OF_REBORN: Final = ("left_behind",)  # where a node may have to come back as somebody new
# Where clients use the doors of nodes.
EXPECTED_OF_CLIENTS: Final = (
    "client_kill",
    "client_stop",
    "client_cut",
    "client_silence",
    "client_one_way",
    "client_freeze",
    "client_slow",
    "client_moved",
    "client_gap",
    "client_unanswered",
)
# Where members come late and take the state of a group.
EXPECTED_OF_NEWCOMERS: Final = ("state_taken", "state_taken_again")
NOT_WITH_NEWCOMERS: Final = (*LEFT_OUT, "reader", "reader_ended", "group_changed")  # nor drawn
ENOUGH: Final = 60  # seeds from which on everything should have happened


@dataclass
class NodeCampaign:
    """What came of all seeds."""

    protocol: str
    clients: bool = False
    newcomers: bool = False
    seeds: int = 0
    failures: list[Outcome] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    limits: Counter[str] = field(default_factory=Counter)  # how often each was drawn
    virtual_seconds: float = 0.0
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.fired.update(outcome.fired)
        self.limits.update(outcome.limits)
        self.virtual_seconds += outcome.seconds
        if outcome.problems:
            self.failures.append(outcome)

    def never_fired(self) -> list[str]:
        """What should have happened and did not; few seeds may leave something out."""
        if self.seeds < ENOUGH:
            return []
        kinds = expected_to_fire(self.protocol)
        if self.clients:  # their nodes have no old disks
            kinds = tuple(kind for kind in kinds if kind != "put_back")
        kinds += EXPECTED_OF_CLIENTS if self.clients else ()
        if self.newcomers:
            kinds = tuple(kind for kind in kinds if kind not in NOT_WITH_NEWCOMERS)
            kinds += EXPECTED_OF_NEWCOMERS
        return [kind for kind in kinds if not self.fired[kind]]

    def never_drawn(self) -> list[str]:
        """The limits that no seed drew, though they can matter here."""
        if self.seeds < ENOUGH:
            return []
        return [name for name in expected(self.protocol) if not self.limits[name]]

    def succeeded(self) -> bool:
        """Whether nothing failed and everything was tried."""
        return not self.failures and not self.never_fired() and not self.never_drawn()


def expected_to_fire(protocol: str) -> tuple[str, ...]:
    """What a campaign of this protocol has to see."""
    spec = find_protocol(protocol)
    is_resumed = spec.restart == "resume"
    of_resumed = EXPECTED_OF_RESUMED if is_resumed else ()
    of_made = ("group_changed",) if "made_groups" in spec.offers else ()
    of_reborn = EXPECTED_OF_REBORN if spec.ends else ()
    of_members = ("gone",) if spec.agrees_on_members else ()
    return (*EXPECTED, *of_made, *of_resumed, *of_reborn, *of_members, *tales_of(is_resumed))


def run_campaign(
    protocol: str,
    seeds: Sequence[int],
    processes: int,
    first: bool = False,
    progress: Callable[[float], None] | None = None,
    clients: bool = False,
    newcomers: bool = False,
) -> NodeCampaign:
    """Try all seeds; `first` stops at the first failure; with `clients` at the doors of nodes, with
    `newcomers` that take the state of a group."""
    find_protocol(protocol)  # or it says which there are
    if protocol.endswith(".py"):
        protocol = str(Path(protocol).resolve())  # the world has folders of its own
    campaign = NodeCampaign(protocol, clients, newcomers)
    began = time.monotonic()
    for outcome in _outcomes(campaign, seeds, processes):
        campaign.add(outcome)
        if progress is not None:
            progress(campaign.seeds / len(seeds))
        if first and campaign.failures:
            break
    campaign.seconds = time.monotonic() - began
    return campaign


def _outcomes(campaign: NodeCampaign, seeds: Sequence[int], processes: int) -> Iterator[Outcome]:
    which = campaign
    tasks = [(which.protocol, seed, which.clients, which.newcomers) for seed in seeds]
    if processes == 1:
        yield from map(_try, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(_try, tasks, chunksize=1)


def _try(task: tuple[str, int, bool, bool]) -> Outcome:
    return try_plan(draw(*task))


def facts_of(campaign: NodeCampaign) -> dict[str, Any]:
    """The same for machines."""
    return {
        "world": "nodes",
        "protocol": campaign.protocol,
        "seeds": campaign.seeds,
        "passed": campaign.seeds - len(campaign.failures),
        "failures": [
            {
                "seed": failure.seed,
                "problems": failure.problems,
                "repeat": f"causalcast swarm --world nodes --protocol {campaign.protocol} "
                f"--seeds {failure.seed}{' --clients' if campaign.clients else ''}"
                f"{' --newcomers' if campaign.newcomers else ''}",
            }
            for failure in campaign.failures
        ],
        "fired": dict(sorted(campaign.fired.items())),
        "never_fired": campaign.never_fired(),
        "limits_drawn": len(campaign.limits),
        "limits_never_drawn": campaign.never_drawn(),
        "virtual_hours": round(campaign.virtual_seconds / 3600, 3),
        "seconds": round(campaign.seconds, 3),
        "seeds_per_second": round(campaign.seeds / max(campaign.seconds, 1e-9), 2),
    }
