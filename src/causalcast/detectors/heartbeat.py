"""Heartbeat: silence is a suspicion.

Every neighbour is sent a beat at a fixed interval and suspected when nothing came for a while. A
beat that arrives later takes the suspicion back. A lost link is a suspicion at once.
"""

from causalcast.core import (
    MILLISECOND,
    Detector,
    DetectorSpec,
    LinkId,
    Message,
    NodeId,
    Option,
    Outbox,
    Setup,
    Wire,
)
from causalcast.parts.suspicions import Suspicions


class Beat(Message):
    """Show that the sender is alive: the receiver takes back its suspicion and waits anew."""

    wire = Wire("heartbeat.beat")


class Heartbeat(Detector):
    """When each neighbour was last heard, and whom it suspects."""

    def __init__(self, interval: int, timeout: int) -> None:
        self.interval = interval
        self.timeout = timeout
        self.last_heard: dict[NodeId, int] = {}  # neighbours only
        self.links: dict[NodeId, LinkId] = {}  # a beat is for the link that stands: it never dials
        self.suspicions = Suspicions()

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        if not self.last_heard:
            out.start_timer("beat", self.interval)
        self.last_heard[peer] = out.now
        self.links[peer] = link
        self.suspicions.believe(peer, out)
        out.send(peer, Beat(), link)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.pop(peer, None)
        self.last_heard.pop(peer, None)
        if not self.last_heard:
            out.cancel_timer("beat")

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        self.suspicions.doubt(peer, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        if sender in self.last_heard:
            self.last_heard[sender] = out.now
            self.suspicions.believe(sender, out)

    def on_heard(self, peer: NodeId, out: Outbox) -> None:
        if peer in self.last_heard:
            self.last_heard[peer] = out.now
            self.suspicions.believe(peer, out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        for peer, heard in self.last_heard.items():
            out.send(peer, Beat(), self.links[peer])
            if out.now - heard > self.timeout:
                self.suspicions.doubt(peer, out)
        out.start_timer("beat", self.interval)


def build(setup: Setup) -> Heartbeat:
    return Heartbeat(setup.number("interval"), setup.number("timeout"))


SPEC = DetectorSpec(
    name="heartbeat",
    summary="Silence is a suspicion.",
    build=build,
    messages=[Beat],
    options=[
        Option(
            "interval",
            500 * MILLISECOND,
            "send a beat this often",
            unit="ms",
            change_if="beats cost too much, or a dead node must be noticed sooner",
        ),
        # Three beats may be lost before anybody is suspected.
        Option(
            "timeout",
            1750 * MILLISECOND,
            "suspect after this much silence",
            unit="ms",
            change_if="live nodes are suspected, or a dead one must be noticed sooner",
        ),
    ],
)
