"""A stage on which stories are played, message by message: commands in, what happened out.

A transcript is a text file: a command, a line of dashes, what happened, an empty line.

    cluster vector_clock_broadcast nodes 3
    ----
    ok

    publish 0 question
    ----
    0 -> 1  #1 Stamped(question, needs={})
    0 -> 2  #2 Stamped(question, needs={})
    0 delivers question

    arrive #1
    ----
    1 delivers question

Nothing arrives and no timer runs out unless the story says so. `play` runs all commands of a text
and returns the text as it should have been; a test compares the two.
"""

from collections.abc import Callable
from functools import partial
from typing import final

from causalcast.core import graphs
from causalcast.core.blueprint import Blueprint
from causalcast.core.effects import (
    Belief,
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Expelled,
    Hold,
    Joined,
    Note,
    OpenLink,
    Release,
    Send,
    Stable,
    StartTimer,
)
from causalcast.core.groups import Groups
from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId, link_id, message_id
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox, Record
from causalcast.core.stack import Stack
from causalcast.core.world import World, perform
from causalcast.core.world_facts import NOBODY, WorldFacts
from causalcast.errors import ConfigError
from causalcast.registry import find_detector, find_overlay, find_protocol
from causalcast.wire.codec import Codec

DASHES = "----"
FACTS = ("links_lose_nothing", "no_records")


@final
class Packet:
    """A message somebody sent, waiting for the story to let it arrive."""

    def __init__(self, source: NodeId, effect: Send, data: bytes) -> None:
        self.source = source
        self.to = effect.to
        self.layer = effect.layer
        self.data = data


class Stage(World):
    """Nodes whose messages and timers wait for the director.

    Large because each command and each effect is a short method here.
    """

    def __init__(self) -> None:
        self.stacks: dict[NodeId, Stack] = {}
        self.said: list[str] = []
        self._now = 0
        self._blueprint: Blueprint | None = None
        self._packets: dict[int, Packet] = {}
        self._sent = 0
        self._links: dict[tuple[NodeId, NodeId], LinkId] = {}
        self._timers: dict[tuple[NodeId, str, int], tuple[int, int]] = {}  # -> layer, when
        self._published: dict[NodeId, int] = {}
        self._bodies: dict[MessageId, str] = {}
        self._disks: dict[NodeId, list[tuple[int, bytes]]] = {}
        self._shows_control = False
        self._soon: list[Callable[[], None]] = []
        self._dials = 0
        self._codec = Codec([])
        self._facts = WorldFacts()
        self._congested: dict[NodeId, None] = {}  # whoever has a link to them is told at timers

    def do(self, command: str) -> list[str]:
        """Carry out one command; what happened comes back, line by line."""
        self.said = []
        name, *words = command.split()
        commands: dict[str, Callable[[list[str]], None]] = {
            "cluster": self._cluster,
            "publish": self._publish,
            "arrive": self._arrive,
            "drop": self._drop,
            "timer": self._timer,
            "crash": self._crash,
            "recover": self._recover,
            "suspect": self._suspect,
            "order": self._order,
            "explain": self._explain,
            "packets": self._list_packets,
            "world": self._tell_world,
        }
        if name not in commands:
            raise ConfigError(f"{command!r}: expected one of {', '.join(commands)}")
        commands[name](words)
        self._follow_up()
        return self.said or ["ok"]

    # Commands

    def _cluster(self, words: list[str]) -> None:
        """`cluster PROTOCOL nodes N [graph] [option=value …] [control]`; full mesh by default."""
        protocol = find_protocol(words[0])
        size = int(words[2])
        rest = words[3:]
        shape = next((word for word in rest if word in graphs.SIMPLE), "full_mesh")
        self._shows_control = "control" in rest
        settings: dict[str, object] = {}
        for word in rest:
            if "=" in word:
                name, _, value = word.partition("=")
                settings[name] = value
        topology = graphs.from_edges(size, graphs.SIMPLE[shape](size))
        detector, overlay = find_detector("link_loss"), find_overlay("static_graph")
        self._blueprint = Blueprint(
            protocol,
            protocol.settings(settings),
            overlay,
            {},
            detector,
            {},
            Groups({"all": list(topology.neighbours)}),
            topology,
            find_protocol,
        )
        self._codec = Codec(self._blueprint.messages())
        for node in topology.neighbours:
            self.stacks[node] = self._build(node)
        for node, stack in self.stacks.items():
            self._step(node, stack.start)
        self._follow_up()
        while self._packets:  # greetings of the first links are of no interest
            self._let_arrive(self._packets.pop(next(iter(self._packets))))
        self._sent = 0
        self.said = []

    def _publish(self, words: list[str]) -> None:
        """`publish NODE TEXT`."""
        node = self._node(words[0])
        number = self._published.get(node, 0) + 1
        self._published[node] = number
        text = " ".join(words[1:])
        publication = Publication(message_id(node, number), GroupId(0), text.encode())
        self._bodies[publication.id] = text
        self._step(node, lambda out: self.stacks[node].publish(publication, out))

    def _arrive(self, words: list[str]) -> None:
        """`arrive #N …`: let packets arrive, in this order. `arrive all`: all that are under way,
        and those that follow from it."""
        if words == ["all"]:
            while self._packets:
                self._let_arrive(self._packets.pop(next(iter(self._packets))))
                self._follow_up()
            return
        for word in words:
            self._let_arrive(self._packets.pop(int(word.lstrip("#"))))

    def _let_arrive(self, packet: Packet) -> None:
        message = self._codec.decode(packet.data)[1]
        stack = self.stacks[packet.to]
        self._step(packet.to, lambda out: stack.receive(packet.layer, packet.source, message, out))

    def _drop(self, words: list[str]) -> None:
        """`drop #N …`: lose packets."""
        for word in words:
            del self._packets[int(word.lstrip("#"))]

    def _timer(self, words: list[str]) -> None:
        """`timer NODE NAME [SUBJECT]`: let a timer run out; time goes on to its instant."""
        node, name = self._node(words[0]), words[1]
        subject = int(words[2]) if len(words) > 2 else 0
        layer, when = self._timers.pop((node, name, subject))
        self._now = max(self._now, when)
        self._facts.congested = self._congested
        self._step(node, lambda out: self.stacks[node].expire(layer, name, subject, out))
        self._facts.congested = NOBODY

    def _crash(self, words: list[str]) -> None:
        """`crash NODE`: its links break, and everybody hears of it."""
        node = self._node(words[0])
        del self.stacks[node]
        self._timers = {key: value for key, value in self._timers.items() if key[0] != node}
        self._packets = {
            number: packet for number, packet in self._packets.items() if packet.to != node
        }
        for a, b in [pair for pair in self._links if node in pair]:
            self._lose_link_soon(b if a == node else a, node, self._links.pop((a, b)), "broken")

    def _recover(self, words: list[str]) -> None:
        """`recover NODE`: it comes back with its records, and its links with it."""
        node = self._node(words[0])
        records = [
            Record(layer, self._codec.decode(data)[1]) for layer, data in self._disks.get(node, [])
        ]
        self.stacks[node] = self._build(node)
        self._step(node, lambda out: self.stacks[node].recover(records, out))
        assert self._blueprint is not None
        for peer in self._blueprint.topology.neighbours[node]:
            if peer in self.stacks and peer > node:
                self._connect(peer, node)  # it would dial again after a while

    def _suspect(self, words: list[str]) -> None:
        """`suspect WHO WHOM`."""
        who, whom = self._node(words[0]), self._node(words[1])
        self._step(who, lambda out: self.stacks[who].suspect(whom, out))

    def _order(self, words: list[str]) -> None:
        """`order NODE WORDS`: an operator orders something, if nothing speaks against it."""
        assert self._blueprint is not None
        node, stack = self._node(words[0]), self.stacks[self._node(words[0])]
        command = self._blueprint.command(" ".join(words[1:]))
        objection = stack.multicast.objection(command)
        if objection:
            self.said.append(f"{node} objects: {objection}")
        else:
            self._step(node, lambda out: stack.command(command, out))

    def _explain(self, words: list[str]) -> None:
        """`explain NODE TEXT`: what the message with that text waits for."""
        node, text = self._node(words[0]), " ".join(words[1:])
        message = next(id_ for id_, body in self._bodies.items() if body == text)
        for cause in self.stacks[node].multicast.explain(message):
            self.said.append(f"{text} waits for {self._name(cause)}")

    def _list_packets(self, _: list[str]) -> None:
        """`packets`: what is under way."""
        for number, packet in self._packets.items():
            self._say_packet(number, packet, self._codec.decode(packet.data)[1])

    def _tell_world(self, words: list[str]) -> None:
        """`world [links_lose_nothing] [no_records] [congested=NODE,…]`: what holds from now on."""
        busy = [word for word in words if word.startswith("congested=")]
        unknown = [word for word in words if word not in (*FACTS, *busy)]
        if unknown:
            raise ConfigError(f"{unknown[0]!r}: expected {', '.join(FACTS)} or congested=NODE")
        nodes = [node for word in busy for node in word.partition("=")[2].split(",")]
        self._congested = {self._node(node): None for node in nodes}
        self._facts = WorldFacts("no_records" not in words, "links_lose_nothing" in words)

    # What nodes ask of this world

    def send(self, node: NodeId, effect: Send) -> None:
        """Put a message among the packets."""
        self._sent += 1
        packet = Packet(node, effect, self._codec.encode(effect.message))
        self._packets[self._sent] = packet
        self._say_packet(self._sent, packet, effect.message)

    def open_link(self, node: NodeId, effect: OpenLink) -> None:
        """Dials succeed at once, if there is somebody."""
        if effect.to in self.stacks and (effect.to, node) not in self._links:
            self._connect(node, effect.to)

    def close_link(self, node: NodeId, effect: CloseLink) -> None:
        """Hang up at both ends."""
        for pair in ((node, effect.to), (effect.to, node)):
            link = self._links.pop(pair, None)
            if link is not None:
                self._lose_link_soon(effect.to, node, link, "closed")

    def deliver(self, node: NodeId, effect: Deliver) -> None:
        """Say it."""
        self.said.append(f"{node} delivers {self._name(effect.publication.id)}")

    def joined(self, node: NodeId, effect: Joined) -> None:
        """Stories have one group, and everybody is in it."""
        self.stacks[node].note_joined(effect.group)

    def expelled(self, node: NodeId, effect: Expelled) -> None:
        """Say it."""
        self.said.append(f"{node} is a member no more")
        self.stacks[node].note_expelled()

    def start_timer(self, node: NodeId, effect: StartTimer) -> None:
        """Remember it; the story lets it run out."""
        key = (node, effect.name, effect.subject)
        self._timers[key] = (effect.layer, self._now + effect.after)

    def cancel_timer(self, node: NodeId, effect: CancelTimer) -> None:
        """Forget it."""
        self._timers.pop((node, effect.name, effect.subject), None)

    def hold(self, node: NodeId, effect: Hold) -> None:
        """Say it."""
        waits_for = effect.reason or self._name(effect.waits_for)
        self.said.append(f"{node} holds {self._name(effect.message)}, waits for {waits_for}")

    def release(self, node: NodeId, effect: Release) -> None:
        """The delivery that follows says enough."""

    def duplicate(self, node: NodeId, effect: Duplicate) -> None:
        """Say it."""
        self.said.append(f"{node} has {self._name(effect.message)} already")

    def stable(self, node: NodeId, effect: Stable) -> None:
        """Say it."""
        self.said.append(f"{node} knows that {self._name(effect.message)} is stable")

    def belief(self, node: NodeId, effect: Belief) -> None:
        """What the layers above make of it says enough."""

    def note(self, node: NodeId, effect: Note) -> None:
        """Say it."""
        self.said.append(f"{node} notes {effect.name}")

    # Small things

    def _step(self, node: NodeId, action: Callable[[Outbox], None]) -> None:
        out = Outbox()
        out.now = self._now
        out.world = self._facts
        action(out)
        disk = self._disks.setdefault(node, [])
        if not self._facts.keeps_records:
            out.records.clear()
        disk += [(record.layer, self._codec.encode(record.message)) for record in out.records]
        perform(out.effects, node, self)

    def _follow_up(self) -> None:
        """Let happen what the steps so far led to by themselves: links that come and go."""
        while self._soon:
            self._soon.pop(0)()

    def _connect(self, dialler: NodeId, other: NodeId) -> None:
        self._dials += 1
        link = link_id(dialler, self._dials)
        self._links[dialler, other] = link
        for node, peer, dialled in ((other, dialler, False), (dialler, other, True)):
            self._soon.append(partial(self._link_up, node, peer, link, dialled))

    def _link_up(self, node: NodeId, peer: NodeId, link: LinkId, dialled: bool) -> None:
        self._step(node, lambda out: self.stacks[node].link_up(peer, link, dialled, out))

    def _lose_link_soon(self, node: NodeId, peer: NodeId, link: LinkId, reason: str) -> None:
        def lose() -> None:
            self._step(node, lambda out: self.stacks[node].lose_link(peer, link, reason, out))

        self._soon.append(lose)

    def _build(self, node: NodeId) -> Stack:
        assert self._blueprint is not None
        stack = self._blueprint.build(node, "stage")
        stack.groups = dict.fromkeys(self._blueprint.groups.groups_of(node))
        return stack

    def _node(self, word: str) -> NodeId:
        return NodeId(int(word))

    def _name(self, message: MessageId) -> str:
        """A publication is called by its text, or by origin and number before it is published."""
        return self._bodies.get(message, f"{message >> 32}.{message & 0xFFFFFFFF}")

    def _say_packet(self, number: int, packet: Packet, message: Message) -> None:
        if self._codec.describe(message, 0).message < 0 and not self._shows_control:
            return
        self.said.append(f"{packet.source} -> {packet.to}  #{number} {self._words(message)}")

    def _words(self, message: Message) -> str:
        parts = []
        for name in type(message).wire.fields:
            value = getattr(message, name)
            if isinstance(value, Publication):
                parts.append(self._name(value.id))
            elif isinstance(value, Message):
                parts.append(self._words(value))
            elif isinstance(value, list) and value and isinstance(value[0], Publication):
                names = ", ".join(self._name(publication.id) for publication in value)
                parts.append(f"{name}=[{names}]")
            else:
                parts.append(f"{name}={value}")
        return f"{type(message).__name__}({', '.join(parts)})"


def play(text: str) -> str:
    """Play a transcript; the text comes back with what really happened below each command."""
    stage = Stage()
    scenes = []
    for scene in text.strip().split("\n\n"):
        head, _, _ = scene.partition(f"\n{DASHES}")
        comments = [line for line in head.splitlines() if line.startswith("#")]
        command = next(line for line in head.splitlines() if not line.startswith("#"))
        scenes.append("\n".join([*comments, command, DASHES, *stage.do(command)]))
    return "\n\n".join(scenes) + "\n"
