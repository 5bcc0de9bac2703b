"""Notices rise and requests sink the way `core/stack.py` says, and nobody hears himself."""

from causalcast.core import Detector, LinkId, Message, Multicast, NodeId, Outbox, Overlay, Wire
from causalcast.core.effects import Belief
from causalcast.core.outbox import Record
from causalcast.core.stack import DETECTOR, MULTICAST, OVERLAY, Stack

ME, PEER = NodeId(1), NodeId(2)
LINK = LinkId(7)


class Word(Message):
    """Anything."""

    wire = Wire("test.word", text=str)

    def __init__(self, text: str) -> None:
        self.text = text


class Heard:
    """What every layer heard, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []


class Ear(Detector):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        out.suspect(peer)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.heard.log.append(f"detector: up {peer}")

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        self.heard.log.append("detector: heard itself")

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        self.heard.log.append(f"detector: {records!r}")


class Net(Overlay):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        out.neighbour_up(peer, link, False)

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        self.heard.log.append(f"overlay: suspects {peer}")
        out.neighbour_down(peer, LINK)

    def on_switch(self, link: LinkId, out: Outbox) -> None:
        self.heard.log.append(f"overlay: switch {link}")

    def on_orphan(self, out: Outbox) -> None:
        self.heard.log.append("overlay: orphan")

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        self.heard.log.append(f"overlay: {records!r}")


class Top(Multicast):
    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        self.heard.log.append(f"multicast: up {peer}")
        out.switch(link)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.heard.log.append(f"multicast: down {peer}")
        out.orphan()

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        self.heard.log.append(f"multicast: suspects {peer}")

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        out.send(sender, message)
        out.persist(message)

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        self.heard.log.append(f"multicast: {records!r}")


def stack_of() -> tuple[Stack, Heard]:
    heard = Heard()
    return Stack(ME, Ear(heard), Net(heard), Top(heard)), heard


def test_a_neighbour_is_told_to_detector_and_multicast_and_a_request_sinks() -> None:
    stack, heard = stack_of()
    stack.link_up(PEER, LINK, True, Outbox())
    assert heard.log == ["detector: up 2", "multicast: up 2", "overlay: switch 7"]


def test_a_suspicion_rises_to_the_layers_above_and_what_they_say_follows() -> None:
    stack, heard = stack_of()
    stack.lose_link(PEER, LINK, "broken", Outbox())
    assert heard.log == [
        "overlay: suspects 2",
        "multicast: suspects 2",
        "multicast: down 2",
        "overlay: orphan",
    ]


def test_the_world_hears_of_a_suspicion_before_of_what_follows_from_it() -> None:
    stack, _ = stack_of()
    out = Outbox()
    stack.lose_link(PEER, LINK, "broken", out)
    stack.trust(PEER, out)
    told = [(e.peer, e.up) for e in out.effects if isinstance(e, Belief)]
    assert told == [(PEER, False), (PEER, True)] and isinstance(out.effects[0], Belief)


def test_effects_carry_the_layer_that_speaks() -> None:
    stack, _ = stack_of()
    out = Outbox()
    stack.receive(MULTICAST, PEER, Word("hello"), out)
    assert [effect.layer for effect in out.effects] == [MULTICAST]  # type: ignore[attr-defined]
    assert [record.layer for record in out.records] == [MULTICAST]


def test_after_a_restart_each_layer_gets_its_own_records_the_highest_first() -> None:
    stack, heard = stack_of()
    words = ((OVERLAY, "o"), (MULTICAST, "m"), (DETECTOR, "d"))
    records = [Record(layer, Word(text)) for layer, text in words]
    stack.recover(records, Outbox())
    assert heard.log == [
        "multicast: [Word(text='m')]",
        "overlay: [Word(text='o')]",
        "detector: [Word(text='d')]",
    ]
