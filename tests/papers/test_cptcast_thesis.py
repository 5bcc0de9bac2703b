"""The CPTCast thesis: its figures, and the errors of its printed algorithms, as schedules.

Where a figure or an error needs a link that appears during the run, the graph has the link from
the start, it is cut at once, and healed when the story wants it. Nodes count from 0.
"""

from typing import Any

import pytest

from causalcast.core import NodeId
from causalcast.core.effects import Deliver, Send
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.core.stack import MULTICAST
from causalcast.parts.safe_links.links import Link, SafeLinks
from causalcast.parts.safe_links.safe_path_setup import (
    ALPHA,
    BETA,
    DISCOVER,
    PI,
    RHO,
    Adopted,
    Buffer,
    Control,
    SafePathSetup,
)
from causalcast.protocols.cptcast.announcements import TreeLink
from causalcast.protocols.cptcast.messages import Gossip, Have, IHave, Prune, Skip
from causalcast.protocols.cptcast.sender_order import SenderOrder
from causalcast.protocols.prc_broadcast import FloodTokens
from causalcast.simulator.directed_run import DirectedRun
from causalcast.simulator.scenarios.director import parse
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.swarm.generate import toml_text
from causalcast.swarm.trial import try_run

REDIAL = "standing_links.redial"


class Story:
    """A directed run, told step by step."""

    def __init__(
        self,
        protocol: str,
        edges: list[tuple[int, int]],
        cut: list[tuple[int, int]],
        **options: Any,
    ) -> None:
        if protocol == "cptcast":
            options.setdefault("tree", "shared")  # the thesis'
        nodes = 1 + max(max(edge) for edge in edges)
        head = {"protocol": protocol, "seed": 1, "steps": []}
        tables: list[tuple[str, dict[str, Any]]] = [
            ("options", options),
            ("overlay", {"kind": "edges", "nodes": nodes, "edges": [list(e) for e in edges]}),
            ("groups", {"all": "*"}),
        ]
        self.run = DirectedRun(Scenario(toml_text(head, tables), "story"), "deliveries")
        self.world = self.run.simulation
        for a, b in cut:  # links that are to appear later
            self.do(f"cut {a} {b}", f"arrive {a} {b}", f"arrive {b} {a}")

    def do(self, *steps: str) -> None:
        for step in steps:
            happened = self.run.director.do(parse(step, len(self.world.nodes), ["all"]))
            assert happened, f"{step} cannot happen"

    def all_from(self, sender: int, to: int) -> None:
        """Everything that is under way in one direction arrives."""
        while (NodeId(sender), NodeId(to)) in self.world.queues:
            self.do(f"arrive {sender} {to}")

    def link_appears(self, a: int, b: int) -> None:
        """The greater id dials, as the overlay would."""
        self.do(f"heal {a} {b}", f"expire {max(a, b)} {REDIAL} {min(a, b)}")

    def protocol(self, node: int) -> Any:
        return self.world.nodes[node].stack.multicast

    def link(self, node: int, peer: int) -> Any:
        return self.protocol(node).safe.links[NodeId(peer)]

    def under_way(self, sender: int, to: int) -> list[Message]:
        queue = self.world.queues.get((NodeId(sender), NodeId(to)), [])
        return [self.world.codec.decode(item.data)[1] for item in queue if item.layer >= 0]

    def delivered(self, node: int) -> list[str]:
        rows = self.run.result().events.to_pylist()
        ids = [r["message"] for r in rows if r["node"] == node and r["kind"] == "deliver"]
        return [f"{message >> 32}.{message & 0xFFFFFFFF}" for message in ids]

    def broken(self) -> set[str]:
        """What does not hold once everything has come to rest."""
        return try_run(self.run, self.run.complete).broken()


FAMILY = [
    ("prc_broadcast", {"link_setup": "safe_path"}),
    ("prc_broadcast", {"link_setup": "vector"}),
    ("cptcast", {"link_setup": "safe_path", "order": "queue"}),
    ("cptcast", {"link_setup": "safe_path", "order": "receiver"}),
    ("cptcast", {"link_setup": "vector", "order": "receiver", "tree": "source"}),
]


def figure_3_2(protocol: str, **options: Any) -> Story:
    """N1 is node 0, N2 node 1, N3 node 2: the link N2–N3 appears while m1 is on its way to N3."""
    story = Story(protocol, [(0, 1), (0, 2), (1, 2)], [(1, 2)], **options)
    story.do("publish 0 all", "bring 0 1")
    story.all_from(1, 0)
    story.link_appears(1, 2)
    story.do("bring 0 2")
    return story


def test_figure_3_2_naive_causal_delivers_twice_on_a_changing_overlay() -> None:
    story = figure_3_2("naive_causal")
    story.do("bring 2 1")
    assert story.delivered(1) == ["0.1", "0.1"]
    assert story.broken() & {"no_duplication", "no_exception"}


@pytest.mark.parametrize(("protocol", "options"), FAMILY)
def test_figure_3_2_with_safe_links(protocol: str, options: dict[str, Any]) -> None:
    story = figure_3_2(protocol, **options)
    assert not story.broken()
    assert [story.delivered(node) for node in range(3)] == [["0.1"]] * 3


def test_figure_3_3_the_exchange_message_by_message() -> None:
    """A (node 0) and B (node 1) are joined through C (node 2); the direction A -> B becomes safe.

    B delivers m1 before pi and m2 after it, A delivers m3 and m2 between beta and rho: of the
    buffer m3 is delivered, m2 is ignored; m4, delivered by B alone since pi, is owed.
    """
    story = Story("prc_broadcast", [(0, 2), (1, 2), (0, 1)], [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    story.all_from(0, 2)
    story.all_from(1, 2)
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0")  # Hello, each way: both ends know the link
    a, b = story.protocol(0), story.protocol(1)
    story.do("arrive 0 2", "arrive 2 1")  # A's discovery reaches B through C
    assert [type(m).__name__ for m in story.under_way(1, 0)] == ["Found"]
    story.do("arrive 1 0")
    exchange_at_a = next(iter(e for e in a.safe.setup.exchanges.values() if e.link.peer == 1))
    exchange_at_b = next(iter(e for e in b.safe.setup.exchanges.values() if e.link.peer == 0))

    def control(sender: int, to: int) -> Control:
        """The exchange's own message at the end of a queue; others may travel before it."""
        found = [m for m in story.under_way(sender, to) if isinstance(m, Control)]
        found = [m for m in found if m.origin == 0]
        assert len(found) == 1
        return found[0]

    assert control(0, 2).kind == ALPHA
    story.all_from(0, 2)
    story.all_from(2, 1)
    assert exchange_at_b.before_pi == {} and exchange_at_b.since_pi is None
    assert control(1, 2).kind == BETA
    story.do("publish 1 all")  # m1 = 1.1, delivered by B between alpha and pi
    assert list(exchange_at_b.before_pi) == [1 << 32 | 1]
    story.all_from(1, 2)
    assert control(2, 0).kind == BETA
    while story.under_way(2, 0) and exchange_at_a.buffer is None:
        story.do("arrive 2 0")
    assert exchange_at_a.buffer == []
    assert control(0, 2).kind == PI
    story.do("publish 0 all")  # m3 = 0.1, buffered by A
    story.all_from(2, 0)  # and m1, that A gets from C
    buffered = [entry.publication.id for entry in exchange_at_a.buffer]
    assert buffered == [0 << 32 | 1, 1 << 32 | 1]
    while story.under_way(0, 2) and not any(
        isinstance(m, Control) and m.kind == PI for m in story.under_way(2, 1)
    ):
        story.do("arrive 0 2")
    while exchange_at_b.since_pi is None:
        story.do("arrive 2 1")
    story.do("publish 1 all")  # m4 = 1.2, delivered by B alone since pi
    assert list(exchange_at_b.since_pi) == [1 << 32 | 2]
    assert control(1, 2).kind == RHO
    while not any(isinstance(m, Control) and m.kind == RHO for m in story.under_way(2, 0)):
        story.do("arrive 1 2")
    while not story.link(0, 1).safe_out:
        story.do("arrive 2 0")
    buffer = next(m for m in story.under_way(0, 1) if isinstance(m, Buffer))
    assert [p.id for p in buffer.publications] == buffered
    assert not story.link(1, 0).safe_in
    before = story.delivered(1)
    while not story.link(1, 0).safe_in:
        story.do("arrive 0 1")
    # m3 is delivered, m1 ignored (it was delivered before pi), m4 is owed.
    assert story.delivered(1) == [*before, "0.1"]
    assert list(story.link(1, 0).owed) == [1 << 32 | 2]
    assert not story.broken()


def lazy_pair(order: str, extra: list[tuple[int, int]] = ()) -> Story:  # type: ignore[assignment]
    """Triangle X, Y, Z (0, 1, 2); the copies of a first message cross on X–Y: it is lazy."""
    story = Story("cptcast", [(0, 1), (0, 2), (1, 2), *extra], [], order=order)
    story.do("publish 2 all", "bring 2 0", "bring 2 1", "bring 0 1", "bring 1 0")
    for _ in range(3):
        for a in range(3):
            for b in range(3):
                story.all_from(a, b)
    message = 0 << 32 | 1
    assert not story.link(0, 1).modes.is_eager(message)
    assert not story.link(1, 0).modes.is_eager(message)
    return story


def test_figure_3_4_a_payload_waits_behind_an_announcement() -> None:
    """m1 is announced on a lazy link; m2, though the link is eager again, waits for it."""
    story = lazy_pair("queue")
    story.do("publish 0 all")
    assert [type(m) for m in story.under_way(0, 1)] == [IHave]
    story.link(0, 1).modes.make_eager(0)
    story.do("publish 0 all")
    assert [type(m) for m in story.under_way(0, 1)] == [IHave]  # m2 stays in the queue
    story.do("arrive 0 1", f"expire 1 graft {0 << 32 | 1}")
    story.all_from(1, 0)
    assert [type(m) for m in story.under_way(0, 1)] == [Gossip, Gossip]
    assert not story.broken()
    assert story.delivered(1) == ["2.1", "0.1", "0.2"]


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e5_evidence_removes_the_message_it_is_about(order: str) -> None:
    story = lazy_pair(order)
    story.do("publish 0 all", "publish 2 all", "arrive 2 0", "arrive 2 1")
    story.all_from(1, 0)
    story.all_from(0, 1)
    story.do(f"expire 1 graft {0 << 32 | 1}")
    assert not story.broken()
    assert sorted(story.delivered(1)) == ["0.1", "2.1", "2.2"]


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e6_the_timer_ends_when_nobody_is_left_to_ask(order: str) -> None:
    story = lazy_pair(order)
    story.do("publish 0 all", "arrive 0 1", "crash 0")  # its copy to 2 is lost
    story.all_from(0, 1)  # and the news of its end
    timers = [key for key in story.world.nodes[1].timers if key[1] == "graft"]
    assert len(timers) == 1
    story.do(f"expire 1 graft {0 << 32 | 1}")
    assert not [key for key in story.world.nodes[1].timers if key[1] == "graft"]
    assert not story.protocol(1).order.announcements.missing


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e7_every_announcer_is_remembered(order: str) -> None:
    """V (0) is linked to X, Y, Z (1, 2, 3); X–Y and Z–Y are lazy. V dies with the copy to Y, then X
    dies: Y asks Z."""
    edges = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 2)]
    story = Story("cptcast", edges, [], order=order)
    story.do("publish 0 all", "bring 0 1", "bring 0 2", "bring 0 3")
    story.do("bring 1 2", "bring 2 1", "bring 3 2", "bring 2 3")
    for _ in range(3):
        for a in range(4):
            for b in range(4):
                story.all_from(a, b)
    story.do("publish 0 all", "bring 0 1", "bring 0 3")
    story.all_from(1, 2)
    story.all_from(3, 2)
    assert len(story.protocol(2).order.announcements.missing[0 << 32 | 2]) == 2
    story.do("crash 0", "crash 1")
    assert not story.broken()
    assert story.delivered(2) == ["0.1", "0.2"]


def one_way_link(order: str) -> Story:
    """A–C and B–C (0, 1 and 2) are safe; of the new link A–B only A -> B is, and it is lazy.

    The other direction is kept from becoming safe by losing B's discoveries.
    """
    story = Story(
        "cptcast", [(0, 2), (1, 2), (0, 1)], [(0, 1)], order=order, link_setup="safe_path"
    )
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    for a, b in ((0, 2), (1, 2), (2, 0), (2, 1)):
        story.all_from(a, b)
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0")
    story.do("lose 1 2")  # B's discovery
    for _ in range(8):
        for a, b in ((0, 2), (2, 1), (1, 0), (1, 2), (2, 0), (0, 1)):
            story.all_from(a, b)
    assert story.link(0, 1).safe_out and story.link(1, 0).safe_in
    assert not story.link(1, 0).safe_out and not story.link(0, 1).safe_in
    story.do("publish 2 all", "bring 2 1", "bring 2 0")  # B has it before A's copy comes
    story.all_from(0, 1)
    assert any(isinstance(m, Prune) for m in story.under_way(1, 0))
    for a, b in ((1, 0), (0, 2), (1, 2), (2, 0), (2, 1)):
        story.all_from(a, b)
    assert not story.link(0, 1).modes.is_eager(2 << 32 | 3)
    return story


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e8_a_one_way_link_is_told_what_need_not_be_kept(order: str) -> None:
    """A announces to B what B has. B has no token for A: only `Have` lets A forget it."""
    story = one_way_link(order)
    story.do("publish 2 all", "bring 2 1", "bring 2 0", "arrive 0 1")
    assert any(isinstance(m, Have) for m in story.under_way(1, 0))
    story.do("publish 0 all")  # behind it in A's queue
    story.do("crash 2")  # the only other way to B
    story.all_from(1, 0)
    story.all_from(0, 1)
    story.run.complete()
    assert story.delivered(1)[-1] == "0.1"
    link = story.link(0, 1)
    assert isinstance(link, TreeLink) and link.idle()


def test_e8_without_have_the_queue_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: SenderOrder, link: TreeLink, message: int, count: int, out: Any) -> None:
        if link.safe_out:
            self.peer_has(link, message, out)  # type: ignore[arg-type]

    monkeypatch.setattr(SenderOrder, "_on_announced_known", silent)
    story = one_way_link("queue")
    story.do("publish 2 all", "bring 2 1", "bring 2 0", "arrive 0 1")
    story.do("publish 0 all", "crash 2")
    story.all_from(1, 0)
    story.all_from(0, 1)
    story.world.nodes[1].timers.clear()  # nobody asks for what it has
    assert "0.1" not in story.delivered(1)
    assert not story.link(0, 1).idle()


def exchange_with_two_in_the_buffer() -> Story:
    """A broadcasts m1 and m2 between beta and rho, and their copies to C are slow (E11)."""
    story = Story("prc_broadcast", [(0, 2), (1, 2), (0, 1)], [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    for a, b in ((0, 2), (1, 2)):
        story.all_from(a, b)
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0")
    exchange = next(e for e in story.protocol(0).safe.setup.exchanges.values() if e.link.peer == 1)
    while exchange.buffer is None:
        for a, b in ((0, 2), (2, 1), (1, 0), (1, 2), (2, 0)):
            if exchange.buffer is None:
                story.all_from(a, b)
    for a, b in ((0, 2), (2, 1), (1, 2)):
        story.all_from(a, b)
    story.do("publish 0 all", "publish 0 all")
    while not story.link(0, 1).safe_out:
        story.do("arrive 2 0")
    return story


def test_e11_the_buffer_keeps_its_order() -> None:
    story = exchange_with_two_in_the_buffer()
    story.all_from(0, 1)
    assert story.delivered(1) == ["2.1", "0.1", "0.2"]
    assert not story.broken()


def test_e11_a_buffer_without_order_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    on_buffer = SafePathSetup._on_buffer

    def reversed_buffer(self: SafePathSetup, exchange: Any, buffer: Buffer, out: Any) -> None:
        mixed = Buffer(buffer.attempt, buffer.publications[::-1], buffer.hops[::-1])
        on_buffer(self, exchange, mixed, out)

    monkeypatch.setattr(SafePathSetup, "_on_buffer", reversed_buffer)
    story = exchange_with_two_in_the_buffer()
    story.all_from(0, 1)
    assert "fifo_order" in story.broken()


def test_e12_a_peer_that_comes_back_has_a_new_link() -> None:
    """Up is heard before down: the old record goes, with everything that was safe about it."""
    story = Story("prc_broadcast", [(0, 1), (0, 2), (1, 2)], [], link_setup="safe_path")
    protocol = story.protocol(1)
    old: Link = story.link(1, 0)
    assert old.safe_in and old.safe_out
    protocol.on_neighbour_up(NodeId(0), 77, False, story.world.out)  # type: ignore[arg-type]
    assert story.link(1, 0) is not old and not story.link(1, 0).safe_in
    protocol.on_neighbour_down(NodeId(0), old.name, story.world.out)
    assert story.link(1, 0).name == 77  # the late news is about another link


def test_e18_a_node_with_history_is_never_adopted() -> None:
    """A–B–C; m1 everywhere; C is cut off, m2 at A; C comes back over A: it must not miss m2."""
    edges = [(0, 1), (1, 2), (0, 2)]
    story = Story("prc_broadcast", edges, [(0, 2)], link_setup="safe_path")
    story.do("publish 0 all", "bring 0 1", "bring 1 2")
    for a, b in ((1, 0), (2, 1)):
        story.all_from(a, b)
    story.do("cut 1 2", "arrive 1 2", "arrive 2 1", "publish 0 all")
    story.link_appears(0, 2)
    story.all_from(0, 1)
    story.all_from(1, 0)
    assert not any(isinstance(m, Adopted) for m in story.under_way(0, 2))
    story.all_from(0, 2)  # they greet
    story.all_from(2, 0)
    story.do("publish 0 all")
    story.run.complete()
    assert story.delivered(2) in (["0.1"], ["0.1", "0.2", "0.3"])  # nothing, or everything


def test_e18_and_e21_vectors_bring_it_back_with_nothing_missing() -> None:
    edges = [(0, 1), (1, 2), (0, 2)]
    story = Story("prc_broadcast", edges, [(0, 2)], link_setup="vector")
    story.do("publish 0 all", "bring 0 1", "bring 1 2")
    for a, b in ((1, 0), (2, 1)):
        story.all_from(a, b)
    story.do("cut 1 2", "arrive 1 2", "arrive 2 1", "publish 0 all")
    story.link_appears(0, 2)
    for a, b in ((0, 2), (2, 0), (0, 2)):  # counts, counts, what is missing
        story.all_from(a, b)
    assert story.delivered(2) == ["0.1", "0.2"]
    assert not story.broken()


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e4_nothing_that_is_ordered_travels_on_an_unsafe_direction(order: str) -> None:
    """A's payload on the one-way link A -> B does not make B push back to A."""
    story = one_way_link(order)
    story.do("publish 0 all")
    story.all_from(0, 1)
    story.do(f"expire 1 graft {0 << 32 | 1}")  # B gets the payload from A, before C brings it
    story.all_from(1, 0)
    story.all_from(0, 1)
    assert story.delivered(1)[-1] == "0.1"
    story.do("publish 1 all")
    tokens = [m for m in story.under_way(1, 0) if isinstance(m, (Gossip, IHave, Skip))]
    assert not tokens
    assert not story.broken()
    assert story.delivered(0).count("1.1") == 1


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e9_and_e17_the_directions_of_a_link_are_made_safe_each_on_its_own(order: str) -> None:
    """A -> B is safe; B's own attempt was lost, and its timer still runs."""
    story = one_way_link(order)
    link = story.link(1, 0)
    story.do(f"expire 1 {DISCOVER} {link.name}")
    for _ in range(6):
        for a, b in ((1, 2), (2, 0), (0, 1), (1, 0), (0, 2), (2, 1)):
            story.all_from(a, b)
    assert link.safe_out and story.link(0, 1).safe_in
    assert link.safe_in and story.link(0, 1).safe_out
    assert not story.broken()


@pytest.mark.parametrize("order", ["queue", "receiver"])
def test_e15_an_acknowledgement_is_no_announcement(order: str) -> None:
    """B tells A that it has m: A must not wait for it, nor graft it."""
    story = one_way_link(order)
    story.do("publish 2 all", "bring 2 0", "bring 2 1", "arrive 0 1")
    story.all_from(1, 0)
    assert not [key for key in story.world.nodes[0].timers if key[1] == "graft"]
    assert not story.protocol(0).order.announcements.missing


def test_e10_control_messages_of_a_link_that_is_gone_leave_nothing_behind() -> None:
    story = Story("prc_broadcast", [(0, 2), (1, 2), (0, 1)], [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0")
    for a, b in ((0, 2), (2, 1), (1, 0), (0, 2)):  # discovery, found, alpha as far as C
        story.all_from(a, b)
    story.do("cut 0 1")
    story.do("arrive 0 1")  # B hears of the end; alpha comes after it
    story.all_from(2, 1)
    assert not [e for e in story.protocol(1).safe.setup.exchanges.values() if e.link.peer == 0]
    story.run.complete()
    assert all(story.protocol(node).safe.setup.size() < 20 for node in range(3))


def test_e13_and_e16_an_attempt_whose_path_broke_is_followed_by_another() -> None:
    """A–C–B and A–D–B (0, 2, 1 and 3); the path leads over C, and A–C is cut before alpha."""
    edges = [(0, 2), (2, 1), (0, 3), (3, 1), (0, 1)]
    story = Story("prc_broadcast", edges, [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1", "bring 0 3")
    for _ in range(3):
        for a in range(4):
            for b in range(4):
                story.all_from(a, b)
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0", "arrive 0 2", "arrive 2 1")
    story.do("cut 0 2", "arrive 0 2", "arrive 2 0")
    story.all_from(1, 0)  # Found: over C, which is gone
    link = story.link(0, 1)
    assert not link.safe_out
    story.do(f"expire 0 {DISCOVER} {link.name}")
    for _ in range(6):
        for a, b in ((0, 3), (3, 1), (1, 0), (1, 3), (3, 0), (0, 1)):
            story.all_from(a, b)
    assert link.safe_out and story.link(1, 0).safe_in
    assert not story.broken()


@pytest.mark.parametrize(("protocol", "options"), FAMILY)
def test_e1_two_broadcasts_at_once_are_two(protocol: str, options: dict[str, Any]) -> None:
    """Ids count; the thesis takes the clock, and the second of two in one tick is swallowed."""
    story = Story(protocol, [(0, 1)], [], **options)
    story.world.out.now = 0
    story.do("publish 0 all", "publish 0 all")
    assert not story.broken()
    assert story.delivered(1) == ["0.1", "0.2"]


def step_of_the_middle_node(protocol: str, options: dict[str, Any]) -> list[type]:
    """A–B–C, A broadcasts: what B asks for when the message comes, in order (E2)."""
    story = Story(protocol, [(0, 1), (1, 2)], [], **options)
    story.do("publish 0 all")
    [message] = [m for m in story.under_way(0, 1) if type(m).__name__ == "Gossip"]
    out = Outbox()
    out.layer = MULTICAST
    story.protocol(1).on_message(NodeId(0), message, out)
    return [type(effect) for effect in out.effects if isinstance(effect, (Send, Deliver))]


@pytest.mark.parametrize(("protocol", "options"), FAMILY)
def test_e2_a_message_is_passed_on_before_it_is_delivered(
    protocol: str, options: dict[str, Any]
) -> None:
    """So an answer of B's application cannot overtake it on the way to C."""
    effects = step_of_the_middle_node(protocol, options)
    assert effects[-1] is Deliver and effects.count(Send) >= 2


def test_e2_delivered_first_an_answer_could_overtake_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def deliver_first(self: SafeLinks, publication: Any, hops: int, source: Any, out: Any) -> None:
        out.deliver(publication)
        self._begin(publication, hops, source, out)

    monkeypatch.setattr(SafeLinks, "accept", deliver_first)
    assert step_of_the_middle_node(*FAMILY[0])[0] is Deliver


@pytest.mark.parametrize(("protocol", "options"), FAMILY)
def test_e3_further_copies_are_recognised(protocol: str, options: dict[str, Any]) -> None:
    story = Story(protocol, [(0, 1), (0, 2), (1, 2)], [], **options)
    story.do("publish 0 all")
    assert not story.broken()
    assert [story.delivered(node) for node in range(3)] == [["0.1"]] * 3


def test_e3_where_nobody_owes_every_copy_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = FloodTokens.spread

    def without_memory(
        self: FloodTokens, publication: Any, hops: int, source: Any, out: Any
    ) -> None:
        spread(self, publication, hops, source, out)
        for link in self.safe.links.values():
            link.owed.clear()

    monkeypatch.setattr(FloodTokens, "spread", without_memory)
    story = Story("prc_broadcast", [(0, 1), (0, 2), (1, 2)], [], link_setup="safe_path")
    story.do("publish 0 all", "bring 0 1", "bring 0 2", "bring 1 2")
    assert story.delivered(2) == ["0.1", "0.1"]


def test_e14_a_slow_exchange_is_given_time_at_every_step() -> None:
    """A–C–B, every leg slow: each step of the exchange starts the timer anew."""
    story = Story("prc_broadcast", [(0, 2), (1, 2), (0, 1)], [(0, 1)], link_setup="safe_path")
    story.do("publish 2 all", "bring 2 0", "bring 2 1")
    for a, b in ((0, 2), (1, 2)):
        story.all_from(a, b)
    story.link_appears(0, 1)
    story.do("arrive 0 1", "arrive 1 0")
    link = story.link(0, 1)
    exchange = next(e for e in story.protocol(0).safe.setup.exchanges.values() if e.link.peer == 1)

    def runs_out_at() -> int:
        [at] = [
            expiry.at
            for key, expiry in story.world.nodes[0].timers.items()
            if key[1:] == (DISCOVER, link.name)
        ]
        return int(at)

    seen = [(exchange.state, runs_out_at())]
    while not link.safe_out:
        for a, b in ((0, 2), (2, 1), (1, 0), (1, 2), (2, 0)):
            while (NodeId(a), NodeId(b)) in story.world.queues and not link.safe_out:
                story.do(f"arrive {a} {b}")
                if not link.safe_out and exchange.state != seen[-1][0]:
                    seen.append((exchange.state, runs_out_at()))
    times = [at for _, at in seen]
    assert len(seen) >= 3 and times == sorted(set(times))  # later at every step
    assert not story.broken()


def newcomer_between_two(setup: str) -> Story:
    """A–Z–B (0, 1, 2), and N, which A and B have as a neighbour, dies and comes back as node 4
    while m1 of A is on its way to Z (E19)."""
    story = Story("prc_broadcast", [(0, 1), (1, 2), (0, 3), (2, 3)], [], link_setup=setup)
    story.do("crash 3")
    for a, b in ((3, 0), (3, 2)):
        story.all_from(a, b)
    story.do("publish 0 all", "recover 3")
    assert len(story.world.nodes) == 5
    return story


@pytest.mark.parametrize("setup", ["safe_path", "vector"])
def test_e19_a_newcomer_is_born_through_one_link_only(setup: str) -> None:
    story = newcomer_between_two(setup)
    story.do("publish 0 all")
    assert not story.broken()
    assert story.delivered(4) in (["0.1", "0.2"], ["0.2"], [])  # from its birth on, in order


@pytest.mark.parametrize("setup", ["safe_path", "vector"])
def test_e20_what_a_newcomer_says_before_its_birth_comes_first(setup: str) -> None:
    """N publishes n1 while it knows nobody, and n2 later: everybody has both, in order."""
    story = newcomer_between_two(setup)
    story.do("publish 4 all", "publish 4 all")
    assert not story.broken()
    for node in (0, 1, 2, 4):
        assert [m for m in story.delivered(node) if m.startswith("4.")] == ["4.1", "4.2"]


def test_e20_spread_at_once_the_first_word_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def spread_unborn(self: SafeLinks, publication: Any, out: Any) -> None:
        self.accept(publication, 0, None, out)

    monkeypatch.setattr(SafeLinks, "publish", spread_unborn)
    story = newcomer_between_two("safe_path")
    story.do("publish 4 all")
    story.run.complete()
    assert story.delivered(1) == ["0.1"] and story.delivered(4)[0] == "4.1"


def test_vectors_where_the_log_falls_short_the_link_waits_until_others_filled_the_gap() -> None:
    """B is three messages behind A, whose log has one; C brings them, and A–B becomes safe."""
    edges = [(0, 2), (1, 2), (0, 1)]
    story = Story("prc_broadcast", edges, [(0, 1)], link_setup="vector", log=1)
    for _ in range(2):
        for a, b in ((0, 2), (2, 0), (1, 2), (2, 1)):
            story.all_from(a, b)
    story.do("publish 0 all", "publish 0 all", "publish 0 all")
    story.all_from(0, 2)  # their copies from C to B are slow
    story.link_appears(0, 1)
    for a, b in ((1, 0), (0, 1), (1, 0)):
        story.all_from(a, b)
    assert story.delivered(1) == [] and not story.link(0, 1).safe_out
    story.all_from(2, 1)
    assert story.delivered(1) == ["0.1", "0.2", "0.3"]
    for a, b in ((1, 0), (0, 1)):
        story.all_from(a, b)
    assert story.link(0, 1).safe_out and story.link(1, 0).safe_in
    assert not story.broken()
