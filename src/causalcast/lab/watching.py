"""Lets a run happen and looks at it meanwhile: links, and why messages wait."""

from typing import Final

from causalcast.core.ids import MessageId, NodeId
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.worlds.directed_world import DirectedWorld
from causalcast.simulator.worlds.simulation import Simulation
from causalcast.trace.kinds import KIND_CODE

MOST_MESSAGES: Final = 100_000  # that nodes may handle in one run of the lab
MOST_IN_STEPS: Final = 600  # … that lists its steps: more is a storm
ASKED_AT_ONCE: Final = 20  # held messages that are asked why at one look,
ASKED_IN_ALL: Final = 1000  # and in a run; of others only the first reason is known
UP: Final = "up"
SLOW: Final = "slow"
CUT: Final = "cut"

_HOLD: Final = KIND_CODE["hold"]
_ENDS: Final = (KIND_CODE["release"], KIND_CODE["deliver"])
_CRASH: Final = KIND_CODE["crash"]

Pair = tuple[int, int]


class Waiting:
    """A message that a node holds: since when, until when, and the reasons as they change."""

    def __init__(self, node: int, message: int, since: int, words: str) -> None:
        self.node = node
        self.message = message
        self.since = since
        self.until: int | None = None
        self.reasons: list[tuple[int, str]] = [(since, words)]


class Watch:
    """One run, and what was seen of it beside its rows."""

    def __init__(self, running: ScenarioRun | DirectedRun) -> None:
        self.running = running
        self.links: list[tuple[int, int, int, str]] = []  # when, between whom, and what it became
        self.waiting: list[Waiting] = []
        self.step_times: list[int] = []  # of a directed run: when each of its steps was over
        self._link_states: dict[Pair, str] = {}
        self._held: dict[Pair, Waiting] = {}
        self.stopped = ""  # why it was not carried through
        self._seen = 0  # rows
        self._news: dict[int, None] = {}  # nodes with rows since the last look
        self._asked = 0
        world = running.simulation
        most = MOST_IN_STEPS if isinstance(running, DirectedRun) else MOST_MESSAGES
        world.shared.most_messages = world.shared.messages_handled + most

    def run(self) -> None:
        """From its beginning to its end."""
        self.look()
        try:
            if isinstance(self.running, DirectedRun):
                self._run_steps(self.running)
            else:
                self.running.run(lambda share: self.look())
        except AssertionError as error:
            if str(error) != "a storm":
                raise
            handled = self.running.simulation.shared.messages_handled
            self.stopped = f"stopped after {handled:,} messages"
        self.look()

    def _run_steps(self, running: DirectedRun) -> None:
        for step in running.scenario.steps:
            running.director.do(step)
            self.step_times.append(running.simulation.now)
            self.look()
        running.complete()

    def look(self) -> None:
        """See what changed since the last look."""
        self._read_rows()
        self._look_at_links()
        self._ask_why()

    def _read_rows(self) -> None:
        rows = self.running.recorder.rows()
        for node, at, kind, message, _, _, _, _, _, note in rows[self._seen :]:
            self._news[node] = None
            if kind == _HOLD:
                held = Waiting(node, message, at, note or "")
                self._end(node, message, at)
                self._held[node, message] = held
                self.waiting.append(held)
            elif kind in _ENDS:
                self._end(node, message, at)
            elif kind == _CRASH:
                for who, what in list(self._held):
                    if who == node:
                        self._end(who, what, at)
        self._seen = len(rows)

    def _end(self, node: int, message: int, at: int) -> None:
        held = self._held.pop((node, message), None)
        if held is not None:
            held.until = at

    def _ask_why(self) -> None:
        world = self.running.simulation
        held_where_news_came = [item for item in self._held.items() if item[0][0] in self._news]
        self._news = {}
        for (node, message), held in held_where_news_came[:ASKED_AT_ONCE]:
            if not world.nodes[node].up or self._asked >= ASKED_IN_ALL:
                continue
            self._asked += 1
            reasons = world.nodes[node].stack.multicast.reasons(MessageId(message))
            words = "; ".join(reasons)
            if words and words != held.reasons[-1][1]:
                held.reasons.append((world.now, words))

    def _look_at_links(self) -> None:
        world = self.running.simulation
        states = _links_now(world)
        if states == self._link_states:
            return
        for pair, state in states.items():
            if self._link_states.get(pair) != state:
                self.links.append((world.now, *pair, state))
        for pair in self._link_states:
            if pair not in states:
                self.links.append((world.now, *pair, ""))
        self._link_states = states


def _links_now(world: Simulation | DirectedWorld) -> dict[Pair, str]:
    states: dict[Pair, str] = {}
    if isinstance(world, DirectedWorld):
        for a in range(len(world.nodes)):
            for b in world.links_of(NodeId(a)):
                states[min(a, b), max(a, b)] = UP
        for a, b in world.cuts:
            states[min(a, b), max(a, b)] = CUT
        return states
    for node in world.nodes:
        for peer, channel in node.channels.items():
            state = CUT if channel.cut else SLOW if channel.extra else UP
            states[min(node.me, peer), max(node.me, peer)] = state
    return states
