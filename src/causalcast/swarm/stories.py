"""A director that tells short stories: few nodes, few events, each of them carried through.

The schedules that once broke a protocol are short: somebody publishes past a neighbour, one copy
arrives, somebody falls, is declared gone or comes back, somebody answers. The adversary spends most
of its steps on single messages, so it seldom gets through such a story. Here a step lets a whole
publication arrive, empties a link, or lets everybody hear of a fall; and the run is over after a
few of them. In some stories whoever is down at the end stays down.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from causalcast.core.spec import ProtocolSpec
from causalcast.errors import CausalcastError
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import Step
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.simulator.scenarios.world_table import may_come_back
from causalcast.simulator.worlds.directed_world import LOST
from causalcast.swarm.adversary import Adversary, Tactic, with_steps
from causalcast.swarm.generate import Draw, promises_without_the_dead, toml_text
from causalcast.swarm.real_worlds import tell
from causalcast.swarm.trial import SAFETY, Trial, fell_at_the_start, promised, try_run

SIZES: Final = (3, 3, 4, 4, 5, 5, 6, 7)
FEWEST_MOVES, MOST_MOVES = 4, 28
STAYS_DOWN: Final = 0.25  # of all stories
PLOTTED: Final = 0.5  # of all stories: they begin as most that once went wrong did
THEME: Final = 25  # the weight of what a story is about
FLOODED: Final = 0.08  # of all stories: in these somebody publishes more than anybody can nest
FLOODS: Final = (*[60] * 10, 350, 1200)  # publications; see `trial.shallow_stack`
PENDING: Final = "pending at the end"  # how a judge's "not yet" ends
LATE: Final = ("validity",)  # beside order and integrity: what is owed though others stay away


class Storyteller(Adversary):
    """Has the adversary's eye for who is worth hurting, and larger moves."""

    def play(self, moves: int | None = None) -> None:
        """Tell one story, then let everything come to rest."""
        if moves is None:
            moves = self._rng.randint(FEWEST_MOVES, MOST_MOVES)
            if self._rng.random() < PLOTTED:
                plot = self._plot()
                for move in plot:
                    self._do(move())
                moves = max(0, moves - 2 * len(plot))
        for _ in range(moves):
            self._do(self._pick())
        self._come_to_rest()

    def _plot(self) -> list[Tactic]:
        """What most stories that once went wrong begin with: something gets half-way, is answered,
        and somebody who had it in hand falls; the others hear of it, and speak."""
        some = self._rng.randint
        says = [self._publish_past_somebody if self._rng.random() < 0.4 else self._say]
        plot: list[Tactic] = [*says, *[self._bring_newest] * some(0, 3)]
        for _ in range(some(0, 2)):
            plot += [self._answer, *[self._bring_newest] * some(0, 3)]
        if self._forgets or (self._spec.tolerates is None and not self._beyond):
            return plot
        for _ in range(1 if self._rng.random() < 0.7 else 2):
            plot += [self._fall_with_something_in_hand]
            if self._gives_up:
                plot += [self._hear_and_give_up] * some(1, 2)
            elif self._rng.random() < 0.5:
                plot += [self._all_hear_of_losses]
            plot += [self._answer] * some(0, 2) + [self._bring_newest] * some(0, 2)
        return plot

    def _choose_tactics(self) -> list[tuple[float, Tactic]]:
        tactics: list[tuple[float, Tactic]] = [
            (20, self._publish),
            (10, self._publish_past_somebody),
            (34, self._bring),
            (12, self._empty_a_way),
            (8, self._all_hear_of_losses),
            (4, self._trust),
            (4, self._expire),
        ]
        if self._forgets:
            tactics += [(4, self._cut), (4, self._heal)]
        elif self._spec.tolerates is not None or self._beyond:
            tactics += [
                (10, self._crash_after_speaking),
                (3, self._crash_in_step),
                (7, self._recover),
                (3, self._fall_and_return),
                (2, self._compact),
                (2, self._cut),
                (2, self._heal),
            ]
        tactics += [(12, self._hear_and_give_up)] if self._gives_up else [(5, self._change_group)]
        if self._spec.command_plans is not None:
            tactics += [(6, self._order)]
        if self._spec.needs.links == "any" and not self.run.scenario.network.fifo:
            tactics += [(5, self._lose), (3, self._double)]
        # Each story is about something: one of its moves comes more often than the others.
        theme = self._rng.randrange(len(tactics))
        weight, move = tactics[theme]
        tactics[theme] = (max(THEME, 2 * weight), move)
        if not self._gives_up and self._rng.random() < FLOODED:
            tactics += [(25, self._flood)]
        return tactics

    # Larger moves

    def _say(self) -> list[Step]:
        """Anybody publishes."""
        node = self._some_node()
        return [("publish", node, self._rng.choice(self._groups))]

    def _answer(self) -> list[Step]:
        """Who was handed something last publishes, sometimes past somebody."""
        doubts = self._open_jump() if self._rng.random() < 0.3 else []
        who = int(doubts[0][1]) if doubts else self._last
        return [*doubts, ("publish", who, self._rng.choice(self._groups))]

    def _bring_newest(self) -> list[Step]:
        """What was handed over last gets one hop further."""
        ways = [
            way
            for way, queue in self._world.queues.items()
            if any(item.message == self._newest for item in queue)
        ]
        return [("bring", *self._rng.choice(ways))] if ways else self._bring()

    def _fall_with_something_in_hand(self) -> list[Step]:
        """Somebody falls whose publications, or those of others, are on their way from it."""
        in_hand = [
            way[0]
            for way, queue in self._world.queues.items()
            if any(item.message >= 0 for item in queue)
        ]
        victims = [who for who in dict.fromkeys(in_hand) if self._may_fall(who)]
        if not victims:
            return self._crash_after_speaking()
        keep = self._rng.choice([0.0, 0.0, 0.0, 0.5])
        return [("crash", self._rng.choice(victims), keep)]

    def _flood(self) -> list[Step]:
        """Somebody publishes without end, once, perhaps in answer to what others lack."""
        self._tactics = [(weight, one) for weight, one in self._tactics if one != self._flood]
        speaker, group = self._last, self._rng.choice(self._groups)
        others = [node.me for node in self._world.nodes if node.up and node.me != speaker]
        if not self._world.nodes[speaker].up or not others:
            return []
        cause: list[Step] = []
        if self._rng.random() < 0.5:
            first = self._rng.choice(others)
            cause = [("publish", first, group), ("bring", first, speaker)]
        many: list[Step] = [("publish", speaker, group)] * self._rng.choice(FLOODS)
        arrive: list[Step] = [("arrive", speaker, self._rng.choice(others))] * len(many)
        return [*cause, *many, *(arrive if self._rng.random() < 0.7 else [])]

    def _publish_past_somebody(self) -> list[Step]:
        """Suspect who is in the way, and publish: the message jumps."""
        doubts = self._open_jump()
        if not doubts or self._publications == 0:
            return doubts
        self._publications -= 1
        return [*doubts, ("publish", int(doubts[0][1]), self._rng.choice(self._groups))]

    def _bring(self) -> list[Step]:
        """Let a publication arrive: most often one that was sent last."""
        ways = [
            way
            for way, queue in self._world.queues.items()
            if any(item.message >= 0 for item in queue)
        ]
        if not ways:
            return self._empty_a_way()
        way = self._rng.choice(ways) if self._rng.random() < 0.6 else ways[-1]
        return [("bring", *way)]

    def _empty_a_way(self) -> list[Step]:
        ways = list(self._world.queues)
        if not ways:
            return []
        way = self._rng.choice(ways)
        return [("arrive", *way)] * len(self._world.queues[way])

    def _all_hear_of_losses(self) -> list[Step]:
        """Links that broke: everybody comes to the end of them."""
        return [
            ("arrive", *way)
            for way, queue in self._world.queues.items()
            if queue[-1].layer == LOST
            for _ in queue
        ]

    def _crash_after_speaking(self) -> list[Step]:
        """Who spoke last falls, most often with all that it had in flight."""
        speakers = [way[0] for way in self._world.queues][-2:]
        victims = [who for who in [self._last, *speakers] if self._may_fall(who)]
        if not victims:
            return self._crash()
        keep = self._rng.choice([0.0, 0.0, 0.0, 0.5, 1.0])
        return [("crash", self._rng.choice(victims), keep)]

    def _hear_and_give_up(self) -> list[Step]:
        """A neighbour of somebody that fell hears of it, and is told that it is gone."""
        down = [node.me for node in self._world.nodes if not node.up and not node.left]
        if not down:
            return self._crash_after_speaking()
        peer = self._rng.choice(down)
        near = self._topology.distances(self._place(peer), 2)
        told = [node for node in near if self._world.nodes[node].up]
        if not told:
            return []
        teller = self._rng.choice(told)
        last_words = self._world.queues.get((peer, teller), ())
        return [*[("arrive", peer, teller) for _ in last_words], ("gone", teller, peer)]

    def _fall_and_return(self) -> list[Step]:
        node = self._some_node()
        if not self._may_fall(node) or self._spec.restart != "resume":
            return []
        self._last = node
        return [("crash", node, self._rng.choice([0.0, 1.0])), ("recover", node)]


def try_story(
    spec: ProtocolSpec,
    seed: int,
    options: Mapping[str, Any],
    overlay: str = "",
    gives_up: bool = False,
    check: Sequence[str] = (),
    level: str = "deliveries",
    facts: Mapping[str, Any] | None = None,
) -> Trial:
    """Tell the story of a seed, and judge it."""
    rng = random.Random(f"story/{spec.name}/{seed}")
    head, tables = draw_story(spec, seed, options, overlay, gives_up, rng, facts)
    scenario = Scenario(toml_text(head, tables), f"seed {seed}", protocol=spec.name)
    try:
        run = DirectedRun(scenario, level)
    except CausalcastError:
        raise
    except Exception as error:
        return fell_at_the_start(scenario.text, error, check)
    teller = Storyteller(run, rng, False, gives_up, not scenario.recover_all)
    trial = judge_story(spec, run, teller.play, check)
    trial.text = with_steps(head, tables, teller.steps)
    return trial


def draw_story(
    spec: ProtocolSpec,
    seed: int,
    options: Mapping[str, Any],
    overlay: str,
    gives_up: bool,
    rng: random.Random,
    facts: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Head and tables of a scenario without steps."""
    draw = Draw(spec, seed, options, overlay, SIZES)
    recover_all = gives_up or rng.random() >= STAYS_DOWN
    head: dict[str, Any] = {"protocol": spec.name, "seed": seed, "steps": []}
    tables: list[tuple[str, dict[str, Any]]] = [
        ("options", dict(options)),
        ("overlay", {"kind": "edges", "nodes": draw.nodes, "edges": draw.edges}),
        ("network", {"fifo": draw.links == "fifo" or rng.random() < 0.5}),
        ("groups", draw.groups()),
        ("calm", {"recover_all": recover_all}),
    ]
    return head, tell(tables, dict(facts or {}), spec)


def judge_story(
    spec: ProtocolSpec, run: DirectedRun, play: Callable[[], None], check: Sequence[str]
) -> Trial:
    """Let a story happen and judge it: less is owed where some stay down that need not be
    survived."""
    # Where nobody can come back, nobody falls (`Adversary`), and everything is owed.
    recover_all = run.scenario.recover_all or not may_come_back(spec, run.scenario.world)
    if not check and not recover_all and not promises_without_the_dead(spec):
        check = [name for name in promised(spec) if name in (*SAFETY, *LATE)]
    trial = try_run(run, play, check)
    if not recover_all and trial.run is not None and not trial.run.header.complete:
        # Whoever stays down is asked for ever: that says nothing about the others.
        trial.problems = [one for one in trial.problems if not one.detail.endswith(PENDING)]
    return trial
