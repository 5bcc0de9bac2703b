"""What a protocol, overlay or detector says about itself: its SPEC.

A file that ends with a SPEC is a plug-in. From it follow the command line, the codec, the checks
that must pass, and what a scenario may ask of it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import final

from causalcast.core.automaton import Detector, Multicast, Overlay
from causalcast.core.command import Command, CommandForm
from causalcast.core.duration import MILLISECOND, SECOND
from causalcast.core.groups import Groups
from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.topology import Surroundings, Topology

OptionValue = bool | int | float | str

# Says whether something that must hold does hold; its name is what people read if not.
Invariant = Callable[[Multicast], bool]

# What a protocol may promise; the last two are weaker forms of agreement.
GUARANTEES = (
    "no_creation",
    "no_duplication",
    "validity",
    "agreement",
    "fifo_order",
    "causal_order",
    "agreement_after_recovery",
    "agreement_per_part",
)

# What most causal protocols promise: everything, as soon as all who crashed are back.
CAUSAL_WHEN_ALL_ARE_BACK = [
    "no_creation",
    "no_duplication",
    "validity",
    "agreement_after_recovery",
    "fifo_order",
    "causal_order",
]

# … among those that stay, even if others never come back.
CAUSAL_WITHOUT_THE_DEAD = [
    "no_creation",
    "no_duplication",
    "validity",
    "agreement",
    "fifo_order",
    "causal_order",
]

UNITS: dict[str, int] = {"us": 1, "ms": MILLISECOND, "s": SECOND}


@final
class Option:
    """One setting: its default, its meaning, its unit, and who needs another value (`change_if`).

    An option with a unit (`us`, `ms`, `s`) is a duration: people write it in that unit, or as
    text with any unit (`"50ms"`); the automaton gets microseconds.
    """

    def __init__(
        self,
        name: str,
        default: OptionValue,
        meaning: str,
        unit: str = "",
        choices: Sequence[str] = (),
        least: int | None = None,
        change_if: str = "",
    ) -> None:
        self.name = name
        self.default = default
        self.meaning = meaning
        self.change_if = change_if
        self.unit = unit
        self.choices = list(choices)
        self.least = least

    def expects(self) -> str:
        """What people may write, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.unit:
            return f"a duration in {self.unit}, or text such as '50ms'"
        if isinstance(self.default, bool):
            return "true or false"
        kinds = {int: "a whole number", float: "a number", str: "text"}
        least = "" if self.least is None else f" from {self.least} on"
        return kinds[type(self.default)] + least

    def accept(self, value: object) -> OptionValue:
        """The value as the automaton gets it; raises ValueError where it does not fit."""
        if self.unit:
            return self._duration(value)
        default = self.default
        if isinstance(value, str) and not isinstance(default, str):
            value = _from_text(value, default)
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            raise ValueError(self.expects())
        if self.choices and value not in self.choices:
            raise ValueError(self.expects())
        if self.least is not None and isinstance(value, (int, float)) and value < self.least:
            raise ValueError(self.expects())
        assert isinstance(value, (bool, int, float, str))
        return value

    def _duration(self, value: object) -> int:
        scale = UNITS[self.unit]
        if isinstance(value, str):
            digits = value.rstrip("abcdefghijklmnopqrstuvwxyz")
            suffix = value[len(digits) :] or self.unit
            if suffix not in UNITS:
                raise ValueError(self.expects())
            scale = UNITS[suffix]
            try:
                value = float(digits)
            except ValueError:
                raise ValueError(self.expects()) from None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise ValueError(self.expects())
        return round(value * scale)


def _from_text(text: str, default: OptionValue) -> object:
    """What `--set name=text` means for an option with this default."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


@final
class Needs:
    """What a protocol needs to keep its promises.

    `overlay`: any, tree, static or mesh. `links`: any, reliable or fifo (which includes reliable).
    `detector`: whether it must hear of suspicions.
    """

    def __init__(self, overlay: str = "any", links: str = "any", detector: bool = False) -> None:
        assert overlay in ("any", "tree", "static", "mesh")
        assert links in ("any", "reliable", "fifo")
        self.overlay = overlay
        self.links = links
        self.detector = detector


@final
class Setup:
    """What a new automaton may know: itself, its randomness, options, groups and surroundings."""

    def __init__(
        self,
        me: NodeId,
        seed: str,
        options: dict[str, OptionValue],
        groups: Groups,
        topology: Surroundings,
        build: "Callable[[str, dict[str, object], Topology, Groups], Multicast]",
        newcomer: bool = False,
        incarnation: int = 0,
        life: int = 0,
    ) -> None:
        self.me = me
        self._seed = seed
        self._random: random.Random | None = None
        self.options = options
        self.groups = groups
        self.topology = topology
        self.build = build  # an inner protocol: its name, options, graph and groups
        self.newcomer = newcomer  # comes into a system that runs already, and knows nothing of it
        # Beside its id: drawn when its storage was made, and at each start; 0 in simulations.
        self.incarnation = incarnation
        self.life = life

    @property
    def random(self) -> random.Random:
        """This layer's own stream of random numbers."""
        if self._random is None:  # most need none, and each takes two kilobytes
            self._random = random.Random(self._seed)
        return self._random

    def number(self, name: str) -> int:
        """An option that is a whole number or a duration."""
        value = self.options[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        """An option that is text."""
        value = self.options[name]
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """An option that is true or false."""
        value = self.options[name]
        assert isinstance(value, bool)
        return value


class Misfit(Exception):
    """Raised by `build` where the options do not fit the overlay or the groups; says why."""


class LayerSpec:
    """What every plug-in says: name, one line for people, how to build it, messages, options."""

    def __init__(
        self,
        name: str,
        summary: str,
        messages: Sequence[type[Message]],
        options: Sequence[Option],
    ) -> None:
        self.name = name
        self.summary = summary
        self.messages = list(messages)
        self.options = list(options)

    def settings(self, given: dict[str, object]) -> dict[str, OptionValue]:
        """All options with their values; raises ValueError that names the option at fault."""
        by_name = {option.name: option for option in self.options}
        for name in given:
            if name not in by_name:
                known = ", ".join(by_name) or "none"
                raise ValueError(f"{name}: no option of {self.name} (it has: {known})")
        values: dict[str, OptionValue] = {}
        for option in self.options:
            if option.name not in given:
                values[option.name] = option.default
                continue
            try:
                values[option.name] = option.accept(given[option.name])
            except ValueError as error:
                found = given[option.name]
                raise ValueError(f"{option.name} = {found!r}: expected {error}") from None
        return values


@final
class CommandPlan:
    """A valid sequence of commands, the nodes to give them to, and who leaves its groups then."""

    def __init__(self, commands: list[str], at: list[NodeId], leavers: list[NodeId]) -> None:
        self.commands = commands
        self.at = at
        self.leavers = leavers


@final
class ProtocolSpec(LayerSpec):
    """What a multicast protocol says about itself.

    Large because it names one by one all that worlds, searches and people ask of a protocol.

    `restart`: `resume` if a crashed node comes back with what it persisted, `reborn` if it keeps
    nothing and comes back as somebody new. `tolerates(down, setup)`: whether the promises still
    hold while `down` nodes are away at once; without it nobody may be. `invariants` must hold after
    every step, `at_rest` when all nodes are up and nothing is left to happen. `reaches` names the
    neighbours that are certain to get what a node delivers: `agreement_per_part` holds among nodes
    that reach one another. `rare` names the notes of rare branches: a campaign that never saw one
    of them fails. `events` names the notes that people who run nodes want to hear of, and says what
    they mean. `ends` names the notes after which a node that keeps nothing cannot go on, and says
    why: it stops, and may come back as somebody new. `reach(options)`: how many hops away in the
    graph the overlay is to keep links to; 1 if not given. `contains(options)`: the names of the
    protocols that it hosts. `late_members`: whether a node that joins a group gets what is
    published there from then on. `closes_groups`: whether `refusal` may speak against publishing,
    too. `commands`: what an operator may tell it; `command_plans(options, graph)`: sequences of
    them that make sense, for the search. `except_when`: where a promise is known not to hold, in a
    sentence that people see beside the promises. `goes_on`: in another, what else holds while nodes
    stay away. `adds_to_bodies`: how many bytes a body may grow by inside, where a protocol hosts
    others and gives them its own messages to carry.
    `agrees_on_members`: nodes come, and are removed by `gone`, by agreement of those that stay;
    what one of these delivers all of them do, also of what a removed node published. `offers`:
    `explain` and `stability`, which the application may ask for; `kept` for late members;
    `new_groups` if what nodes kept is still good when groups are added behind those it began with;
    `made_groups` if groups can be made while it runs: everything reaches every node in causal
    order, and to the protocol a group is nothing but a number; `states` if members can hand the
    state of a group to newcomers: for that, too, everything reaches every member in causal order.
    """

    def __init__(
        self,
        name: str,
        summary: str,
        build: Callable[[Setup], Multicast],
        messages: Sequence[type[Message]],
        guarantees: Sequence[str],
        options: Sequence[Option] = (),
        needs: Needs | None = None,
        restart: str = "reborn",
        tolerates: Callable[[list[NodeId], Setup], bool] | None = None,
        invariants: Sequence[Invariant] = (),
        at_rest: Sequence[Invariant] = (),
        reaches: Callable[[Multicast], list[NodeId]] | None = None,
        rare: Sequence[str] = (),
        events: Mapping[str, str] | None = None,
        ends: Mapping[str, str] | None = None,
        cost: str = "",
        offers: Sequence[str] = (),
        reach: Callable[[dict[str, OptionValue]], int] | None = None,
        contains: Callable[[dict[str, OptionValue]], list[str]] | None = None,
        late_members: bool = True,
        closes_groups: bool = False,
        commands: Sequence[CommandForm] = (),
        command_plans: Callable[[dict[str, OptionValue], Topology], list[CommandPlan]]
        | None = None,
        except_when: str = "",
        goes_on: str = "",
        adds_to_bodies: int = 0,
        agrees_on_members: bool = False,
    ) -> None:
        assert restart in ("resume", "reborn"), f"restart = {restart!r}: resume or reborn"
        for guarantee in guarantees:
            if guarantee not in GUARANTEES:
                known = ", ".join(GUARANTEES)
                raise ValueError(f"{name}: no guarantee {guarantee!r} (there are: {known})")
        super().__init__(name, summary, messages, options)
        self.build = build
        self.guarantees = list(guarantees)
        self.needs = Needs() if needs is None else needs
        self.restart = restart
        self.tolerates = tolerates
        self.invariants = list(invariants)
        self.at_rest = list(at_rest)
        self.reaches = reaches
        self.rare = list(rare)
        self.events = dict(events or {})
        self.ends = dict(ends or {})
        self.cost = cost
        self.offers = list(offers)
        self.reach = reach
        self.contains = contains
        self.late_members = late_members
        self.closes_groups = closes_groups
        self.commands = {form.name: form for form in commands}
        self.command_plans = command_plans
        self.except_when = except_when
        self.goes_on = goes_on
        self.adds_to_bodies = adds_to_bodies
        self.agrees_on_members = agrees_on_members

    def command(self, words: str) -> Command:
        """What an operator says; raises ValueError where this protocol has no such command."""
        name, *arguments = words.split() or [""]
        if name not in self.commands:
            known = ", ".join(form.usage() for form in self.commands.values())
            raise ValueError(f"{self.name} has no command {name!r} (it has: {known or 'none'})")
        return self.commands[name].read(arguments)

    def gives_up_nodes(self) -> bool:
        """Whether an operator can say that a node never comes back."""
        return any(form.gives_up for form in self.commands.values())


@final
class OverlaySpec(LayerSpec):
    """What an overlay says about itself. `static` if its neighbours never change for good;
    `complete` if it links everybody with everybody, also those who come later."""

    def __init__(
        self,
        name: str,
        summary: str,
        build: Callable[[Setup], Overlay],
        messages: Sequence[type[Message]] = (),
        options: Sequence[Option] = (),
        static: bool = False,
        complete: bool = False,
    ) -> None:
        super().__init__(name, summary, messages, options)
        self.build = build
        self.static = static
        self.complete = complete


@final
class DetectorSpec(LayerSpec):
    """What a failure detector says about itself."""

    def __init__(
        self,
        name: str,
        summary: str,
        build: Callable[[Setup], Detector],
        messages: Sequence[type[Message]] = (),
        options: Sequence[Option] = (),
    ) -> None:
        super().__init__(name, summary, messages, options)
        self.build = build
