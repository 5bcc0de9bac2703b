"""Faults on real processes, round after round, and the judgement over each round.

A round is a new cluster. While its applications publish as fast as they are let, nodes are killed
and come back, some are killed again while they start, they are stopped, stand still, have their
clocks shifted and their disks filled, and the network between them is cut or loses, doubles, delays
and reorders packets. Then everything is mended, everybody gets everything, and the histories are
judged: by the pipeline from the traces, also while it goes on, and by the ledgers of applications.
"""

import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causalcast.chaos.chaos_cluster import ChaosCluster
from causalcast.chaos.chaos_plan import NETWORK_FAULTS, ChaosPlan
from causalcast.chaos.ledger import hold_against, read_ledger
from causalcast.chaos.live_judge import LiveJudge
from causalcast.chaos.packet_network import PacketNetwork
from causalcast.chaos.small_limits import small_limits
from causalcast.errors import ConfigError, NodeError
from causalcast.pipeline.verdicts.verdict import OK
from causalcast.pipeline.verify import verify
from causalcast.registry import find_protocol
from causalcast.runtime.node_config import CHANGING, NodeConfig
from causalcast.runtime.operating.local_cluster import ClusterPlan
from causalcast.trace.gather import gather

LEAST_SETTLED: Final = 3  # nodes that have found their place, before another one is killed
KILLS_PER_ROUND: Final = 40
ROUND_SECONDS: Final = 60.0  # of faults: at full rate the histories of a round are long then
EXTRA_SECONDS: Final = 60.0  # for faults that have not fired when a campaign would be over
BETWEEN_FAULTS: Final = (0.05, 1.0)  # seconds
KILLED_AT_START: Final = 0.3  # of those that come back
ENDS_WITHIN: Final = 5.0  # seconds from an answer that fails to the end of the process
NO_ANSWER: Final = 5.0  # seconds: a question that failed sooner was refused
STEADY_FOR: Final = 4.0  # seconds without a change: where nodes cannot be compared by counting
OVERLAYS: Final = ("ring", "line", "full_mesh", *CHANGING)
# A spell of a network fault has fired when it hit packets.
HITS: Final = {
    "partition": "packets cut off",
    "one_way": "packets lost one way",
    "slow_route": "packets on a slow route",
    "loss": "packets lost",
    "duplication": "packets doubled",
    "reordering": "packets overtaken",
    "delay": "packets delayed",
}
GROUPS: Final = {"orders": [1, 2, 3, 4], "billing": [2, 3, 4, 5], "alerts": [1, 3, 5]}


@dataclass
class Round:
    """What one round was, and what is wrong with it."""

    folder: Path
    kills: int
    publications: int
    deliveries: int
    acknowledged: int
    watched: int  # deliveries that were judged while it went on
    seconds: float  # in which applications published
    tls: bool
    limits: dict[str, float]  # that were others than shipped
    wrong: list[str]


@dataclass
class Outcome:
    """All rounds."""

    rounds: list[Round] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)  # faults, and why
    inert: list[str] = field(default_factory=list)  # faults that never fired
    seconds: float = 0.0

    @property
    def wrong(self) -> list[str]:
        """Everything that is wrong anywhere."""
        wrong = [f"{one.folder}: {line}" for one in self.rounds for line in one.wrong]
        return wrong + [f"the fault {fault!r} never fired" for fault in self.inert]

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        publishing = sum(one.seconds for one in self.rounds)
        publications = sum(one.publications for one in self.rounds)
        return {
            "ok": not self.wrong,
            "rounds": len(self.rounds),
            "rounds_with_tls": sum(one.tls for one in self.rounds),
            "kills": self.fired["kill"],
            "publications": publications,
            "publications_per_second": round(publications / max(publishing, 1e-9), 1),
            "deliveries": sum(one.deliveries for one in self.rounds),
            "judged_while_it_went_on": sum(one.watched for one in self.rounds),
            "limits_drawn": len({name for one in self.rounds for name in one.limits}),
            "acknowledged": sum(one.acknowledged for one in self.rounds),
            "fired": dict(self.fired),
            "left_out": self.left_out,
            "never_fired": self.inert,
            "wrong": self.wrong,
            "seconds": round(self.seconds, 1),
        }


def run_campaign(plan: ChaosPlan, folder: Path, tell: Callable[[str], None]) -> Outcome:
    """Rounds until enough nodes were killed, or time is over. Raises ConfigError where nothing can
    be run."""
    outcome = Outcome()
    began = time.monotonic()
    faults = list(plan.faults)
    if any(fault in NETWORK_FAULTS for fault in faults):
        objection = PacketNetwork.objection()
        if objection:
            outcome.left_out = {f: objection for f in faults if f in NETWORK_FAULTS}
            faults = [fault for fault in faults if fault not in NETWORK_FAULTS]
    plan.overlay = plan.overlay or _fitting_overlay(plan, folder)
    for number, share in enumerate(_rounds(plan), 1):
        story = _Story(plan, faults, folder / f"round-{number}", number)
        inert = [fault for fault in faults if not outcome.fired[HITS.get(fault, fault)]]
        round_ = story.play(share, inert if share.is_last else [])
        outcome.rounds.append(round_)
        outcome.fired += story.fired
        found = f"{len(round_.wrong)} things are wrong" if round_.wrong else "nothing is wrong"
        tell(
            f"round {number}: {round_.kills} kills, {round_.publications} publications "
            f"({round_.publications / max(round_.seconds, 1e-9):.0f} a second), "
            f"{round_.deliveries} deliveries; {found}"
        )
        if plan.seconds > 0 and not round_.wrong and not share.is_last:
            shutil.rmtree(round_.folder)  # hours at full rate would fill the disk
    outcome.seconds = time.monotonic() - began
    outcome.inert = [fault for fault in faults if not outcome.fired[HITS.get(fault, fault)]]
    return outcome


@dataclass(frozen=True)
class _Share:
    """When the faults of a round are over: after so many kills, or so many seconds."""

    kills: int
    seconds: float
    is_last: bool

    def is_over(self, kills: int, seconds: float) -> bool:
        return seconds >= self.seconds if self.seconds else kills >= self.kills


def _rounds(plan: ChaosPlan) -> Iterator[_Share]:
    """The rounds of a campaign, of faults for as long as was asked."""
    per_round = ROUND_SECONDS if plan.seconds > 0 else KILLS_PER_ROUND
    left = plan.seconds if plan.seconds > 0 else float(plan.kills)
    while left > 0:
        part, left = min(left, per_round), left - per_round
        yield _Share(
            0 if plan.seconds > 0 else int(part), part if plan.seconds > 0 else 0, left <= 0
        )


class _Story:
    """One round.

    Large because each fault is a short method here: all must know who is down, stands still or has
    a full disk because of another one.
    """

    def __init__(self, plan: ChaosPlan, faults: list[str], folder: Path, number: int) -> None:
        seed = plan.seed + number
        self.fired: Counter[str] = Counter()
        self._plan = plan
        self._kills_at_start = "kill_at_start" in faults
        self._faults = [fault for fault in faults if fault not in ("kill", "kill_at_start")]
        self._deck: list[str] = []  # faults of which none comes again before all have come
        self._folder = folder
        self._dice = random.Random(seed)
        protocol = find_protocol(plan.protocol)
        self._resumes = protocol.restart == "resume"
        self._ends = list(protocol.ends)
        network = None
        if any(fault in NETWORK_FAULTS for fault in faults):
            network = PacketNetwork(seed)
        self._network = network
        self._tls = plan.has_tls(number)
        self._limits = small_limits(seed) if plan.small_limits else {}
        cluster_plan = _cluster_plan(plan, self._tls)
        self._cluster = ChaosCluster(
            folder / "nodes", cluster_plan, network, plan.rate, self._limits
        )
        self._live: LiveJudge | None = None
        self._doomed: dict[int, float] = {}  # when they are killed, if they are still starting
        self._published_for = 0.0
        self._down: list[int] = []
        self._replaced: set[int] = set()  # by somebody new: their protocol keeps nothing on disk
        self._paused: dict[int, float] = {}  # until when
        self._filled: dict[int, float] = {}
        self._met_full_disk: set[int] = set()  # in this life; it takes a while to stop
        self._disturbed_until = 0.0
        self._wrong: list[str] = []

    def play(self, share: _Share, inert: list[str]) -> Round:
        """The whole round; it goes on for a while until all faults that were `inert` have fired."""
        try:
            self._cluster.start_all()
            if self._plan.watch:
                told = self._folder / "watch.jsonl"
                self._live = LiveJudge(self._folder / "nodes", told, self._plan.patience)
            began = time.monotonic()
            self._disturb(share, inert)
            self._mend()
            self._published_for = time.monotonic() - began
            self._come_to_rest()
        except NodeError as error:
            self._wrong.append(str(error))
        finally:
            for node in [*self._paused]:
                self._resume(node)
            stubborn = self._cluster.stop_all()
            if self._network is not None:
                self.fired += self._network.fired
                self._network.close()
        self._wrong += [f"node {node} did not stop in good order" for node in stubborn]
        return self._judged()

    # Faults

    def _disturb(self, share: _Share, inert: list[str]) -> None:
        began = time.monotonic()
        while True:
            seconds = time.monotonic() - began
            if share.is_over(self.fired["kill"], seconds):
                all_fired = all(map(self._has_fired, inert))
                if all_fired or seconds > share.seconds + EXTRA_SECONDS:
                    return
            time.sleep(self._dice.uniform(*BETWEEN_FAULTS))
            self._end_what_is_over()
            self._look_for_the_fallen()
            if self._down and (len(self._down) > 1 or self._dice.random() < 0.5):
                self._bring_back()
            if self._dice.random() < 0.45 and self._faults:
                fault = self._next_fault()
                if not self._strike(fault):
                    self._deck.insert(0, fault)  # not now: it comes when the others have come
            elif "kill" in self._plan.faults:
                self._kill()

    def _has_fired(self, fault: str) -> bool:
        name = HITS.get(fault, fault)
        return bool(self.fired[name] or (self._network and self._network.fired[name]))

    def _next_fault(self) -> str:
        if not self._deck:
            self._deck = list(self._faults)
            self._dice.shuffle(self._deck)
        return self._deck.pop()

    def _kill(self) -> None:
        """Kill a node that is up; one that is still starting is another fault."""
        node = self._one_to_spare()
        if node is not None:
            self._cluster.kill(node)
            self._down.append(node)
            self.fired["kill"] += 1

    def _stop(self) -> bool:
        """Stop a node in good order, as an operator does; it comes back like the killed."""
        node = self._one_to_spare()
        if node is None:
            return False
        try:
            self._cluster.stop(node)
        except subprocess.TimeoutExpired:
            self._wrong.append(f"node {node} did not stop in good order")
            self._cluster.kill(node)
        self._down.append(node)
        self.fired["stop"] += 1
        return True

    def _one_to_spare(self) -> int | None:
        """A node that may go: it is up, and enough others are."""
        up = self._up()
        if len(up) < len(self._alive()) - 1 or len(up) <= 2 or not self._can_spare_one(up):
            return None
        settled = [node for node in up if self._cluster.is_up(node)]
        return self._dice.choice(settled) if settled else None

    def _can_spare_one(self, up: list[int]) -> bool:
        """Whether one more node may be killed: newcomers need members that let them in."""
        if self._resumes:
            return True
        return sum(self._cluster.is_up(node) for node in up) >= LEAST_SETTLED

    def _strike(self, fault: str) -> bool:
        """Let a fault happen; False if it cannot happen now."""
        up = [node for node in self._up() if self._cluster.is_up(node)]
        if not up:
            return False
        node = self._dice.choice(up)
        now = time.monotonic()
        if fault == "stop":
            return self._stop()
        if fault == "pause":
            self._cluster.pause(node)
            self._paused[node] = now + self._dice.uniform(0.2, 2.5)
        elif fault == "clock":
            seconds = self._dice.choice([-1.0, 30.0, 3600.0, 86400.0])
            try:
                self._cluster.ask(node, "jump", seconds=seconds)
            except NodeError:  # it stops
                return False
        elif fault == "disk":
            if len(up) <= 3:
                return False
            self._cluster.fill_disk(node)
            self._filled[node] = now + 3.0
            self._met_full_disk.add(node)
            return True  # it has fired when the node met the end of its disk
        else:
            if self._network is None or now <= self._disturbed_until:
                return False
            self._disturb_network(self._network, fault, node)
            self._disturbed_until = now + self._dice.uniform(0.5, 2.0)
        self.fired[fault] += 1
        return True

    def _disturb_network(self, network: PacketNetwork, fault: str, node: int) -> None:
        if fault == "partition":
            ids = list(self._alive())
            self._dice.shuffle(ids)
            half = self._dice.randrange(1, len(ids))
            network.cut(ids[:half], ids[half:])
        elif fault == "one_way":
            network.silent = node
        elif fault == "slow_route":
            network.slow = {node: self._dice.choice([0.3, 1.0, 3.0])}
        elif fault == "loss":
            network.loss = self._dice.choice([0.02, 0.1, 0.3])
        elif fault == "duplication":
            network.duplication = self._dice.choice([0.05, 0.5])
        elif fault == "reordering":
            network.reordering = self._dice.choice([0.05, 0.3])
        elif fault == "delay":
            network.delay = self._dice.choice([0.02, 0.2])

    def _end_what_is_over(self) -> None:
        now = time.monotonic()
        for node, until in [*self._paused.items()]:
            if now > until:
                self._resume(node)
        for node, until in [*self._filled.items()]:
            if now > until:
                del self._filled[node]
                self._cluster.free_disk(node)
        for node, at in [*self._doomed.items()]:
            if now > at:
                del self._doomed[node]
                self._kill_at_start(node)
        if self._network is not None and now > self._disturbed_until:
            self._network.heal()

    def _kill_at_start(self, node: int) -> None:
        if self._cluster.is_running(node) and not self._cluster.is_up(node):
            self._cluster.kill(node)
            self._down.append(node)
            self.fired["kill_at_start"] += 1

    def _look_for_the_fallen(self) -> None:
        """Find nodes that ended without being killed. A full disk is a valid reason, and that the
        others went on without it, where nodes keep nothing."""
        for node in self._alive():
            if node in self._down or self._cluster.is_running(node):
                continue
            self._down.append(node)
            log = (self._cluster.folder_of(node) / "node.log").read_text(errors="replace")
            if node in self._met_full_disk and "(File too large)" in log:
                self._filled.pop(node, None)
                self.fired["disk"] += 1
            elif any(f"stops: {end}:" in log for end in self._ends):
                self.fired["left behind"] += 1
            else:
                self._wrong.append(f"node {node} ended: {self._cluster.last_words(node)}")

    def _resume(self, node: int) -> None:
        del self._paused[node]
        if self._cluster.is_running(node):
            self._cluster.resume(node)

    def _bring_back(self) -> None:
        node = self._down.pop(0)
        self._met_full_disk.discard(node)
        if self._resumes:
            self._cluster.start(node)  # and do not wait: it may be killed while it recovers
        else:
            self._replaced.add(node)
            node = self._cluster.begin_to_add(*self._running())
        if self._kills_at_start and self._dice.random() < KILLED_AT_START:
            self._doomed[node] = time.monotonic() + self._dice.uniform(0, 0.5)

    def _alive(self) -> list[int]:
        """The nodes of the cluster, without those that somebody new has replaced."""
        return [node for node in self._cluster.ids if node not in self._replaced]

    def _up(self) -> list[int]:
        return [
            node
            for node in self._cluster.ids
            if self._cluster.is_running(node)
            and node not in self._paused
            and node not in self._filled
        ]

    # The end

    def _mend(self) -> None:
        self._kills_at_start = False
        self._doomed.clear()
        if self._network is not None:
            self._network.heal()
        for node in [*self._paused]:
            self._resume(node)
        for node in self._filled:
            self._cluster.free_disk(node)
        time.sleep(0.2)  # whoever has met the end of its disk stops now
        self._look_for_the_fallen()
        self._bring_all_back()

    def _bring_all_back(self) -> None:
        while self._down:
            self._bring_back()

    def _come_to_rest(self) -> None:
        """Everybody is there and has everything."""
        while True:
            try:
                self._wait_until_all_are_up()
                self._wait_for_rest()
            except NodeError:
                # A node may take long to end after it met a full disk, or was left behind.
                if not self._has_somebody_fallen():
                    raise
                self._bring_all_back()
            else:
                self._look_for_the_fallen()
                if not self._down:
                    return
                self._bring_all_back()

    def _wait_until_all_are_up(self) -> None:
        deadline = time.monotonic() + self._plan.patience
        while time.monotonic() < deadline:
            if all(map(self._cluster.is_up, self._running())):
                return
            time.sleep(0.1)
        self._cluster.wait_ready(*self._running())

    def _has_somebody_fallen(self) -> bool:
        """Whether some node has ended for a valid reason, or does so in a moment."""
        deadline = time.monotonic() + ENDS_WITHIN
        while True:
            before = len(self._wrong)
            self._look_for_the_fallen()
            if self._down:
                return len(self._wrong) == before
            if not self._met_full_disk or time.monotonic() > deadline:
                return False
            time.sleep(0.1)

    def _running(self) -> list[int]:
        return [node for node in self._cluster.ids if self._cluster.is_running(node)]

    def _wait_for_rest(self) -> None:
        """Publish nothing more, and wait until everybody has everything."""
        for node in self._running():
            self._ask_patiently(node, "be_quiet")
        patience = self._plan.patience
        deadline = time.monotonic() + patience
        before: object = None
        since = time.monotonic()
        while time.monotonic() < deadline:
            statuses = self._statuses()
            now = [(s["published"], s["delivered"], s["waiting"]) for s in statuses]
            if now != before:
                before, since = now, time.monotonic()
            steady = time.monotonic() - since
            # Who came later lacks what was published before: the judge says whether that is all.
            has_all = self._resumes and self._plan.overlay not in CHANGING
            if has_all and steady > STEADY_FOR / 8 and self._is_equal(statuses):
                return
            if not has_all and steady > STEADY_FOR and all(map(_is_at_rest, statuses)):
                return
            time.sleep(0.1)
        raise NodeError(f"{patience:.0f} s after the last fault somebody still lacks messages")

    def _statuses(self) -> list[dict[str, Any]]:
        return [self._ask_patiently(node, "status") for node in self._running()]

    def _ask_patiently(self, node: int, do: str) -> dict[str, Any]:
        """A node that has much to do on a busy machine may take long to answer."""
        deadline = time.monotonic() + self._plan.patience
        while True:
            asked = time.monotonic()
            try:
                return self._cluster.ask(node, do)
            except NodeError:
                if not self._cluster.is_running(node) or time.monotonic() > deadline:
                    raise
            if time.monotonic() - asked < NO_ANSWER:
                time.sleep(0.1)  # it is about to end, and takes no questions any more
            else:
                self.fired["no answer for 10 s"] += 1
                self._cluster.ask_what_it_is_at(node)

    def _is_equal(self, statuses: list[dict[str, Any]]) -> bool:
        published: Counter[str] = Counter()
        for status in statuses:
            published.update(status["published"])
        return all(
            status["waiting"] == 0 and status["delivered"].get(name, 0) == published[name]
            for status in statuses
            for name in status["groups"]
        )

    def _judged(self) -> Round:
        run = gather([self._folder / "nodes"], self._folder / "run")
        verdict = verify(self._folder / "run")
        if verdict.verdict != OK:
            for result in verdict.results:
                if result.counted and result.status != OK:
                    self._wrong.append(
                        f"{result.name}: {result.status}, {result.violations} violations"
                    )
        ledgers = {node: read_ledger(self._cluster.folder_of(node)) for node in self._cluster.ids}
        at_end = self._cluster.ids if self._resumes else self._survivors(run)
        self._wrong += hold_against(run, ledgers, at_end)
        watched = 0
        if self._live is not None:
            watched, wrong = self._live.end(verdict.counts.deliveries)
            self._wrong += wrong
        return Round(
            self._folder,
            self.fired["kill"],
            verdict.counts.publications,
            verdict.counts.deliveries,
            sum(len(ledger.published) for ledger in ledgers.values()),
            watched,
            self._published_for,
            self._tls,
            self._limits,
            self._wrong,
        )

    def _survivors(self, run: Any) -> Iterator[int]:
        """Who left in good order at the end, for protocols whose killed nodes stay away."""
        last: dict[int, str] = {}
        columns = run.events.select(["node", "kind"]).to_pydict()
        for node, kind in zip(*columns.values(), strict=True):
            last[node] = kind
        return (node for node, kind in last.items() if kind == "leave")


def _is_at_rest(status: dict[str, Any]) -> bool:
    """Whether a node hears others, and its application has all that was delivered."""
    return bool(status["takes_part"]) and status["waiting"] == 0


def _cluster_plan(plan: ChaosPlan, tls: bool) -> ClusterPlan:
    groups = GROUPS if plan.nodes == 5 and plan.overlay not in CHANGING else {}
    return ClusterPlan(
        nodes=plan.nodes,
        protocol=plan.protocol,
        options=plan.options,
        overlay=plan.overlay,
        groups=groups,
        trace_level="deliveries",
        name="chaos",
        tls=tls,
    )


def _fitting_overlay(plan: ChaosPlan, folder: Path) -> str:
    """The first overlay that the protocol can run on."""
    objections = []
    # Who keeps nothing comes back as somebody new, and needs an overlay that takes it in.
    resumes = find_protocol(plan.protocol).restart == "resume"
    for overlay in OVERLAYS if resumes else CHANGING:
        plan.overlay = overlay
        trial = ChaosCluster(folder / f"trial-{overlay}", _cluster_plan(plan, False), None)
        try:
            NodeConfig.read(trial.config_of(1))
        except ConfigError as error:
            objections.append(str(error))
        else:
            return overlay
    raise ConfigError(objections[0])
