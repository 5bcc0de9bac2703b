"""Adaptive heartbeat: silence is a suspicion, and how much silence is learnt from each neighbour.

Beats go out at a fixed interval. From those that arrive the mean distance of two and how much it
wobbles are kept for every neighbour, as TCP does for its round trips (Jacobson, *Congestion
avoidance and control*, 1988), and a neighbour is suspected when nothing came for the mean and some
wobbles more. A suspicion that turns out wrong makes it more patient with that neighbour. A node
that stood still itself, stopped or with a clock that jumped, has heard nothing because it did not
listen: it suspects nobody for that.
"""

from typing import Final

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
from causalcast.limits import Limit
from causalcast.parts.suspicions import Suspicions

NEVER = -1
WOBBLES: Final = Limit(
    "detectors.adaptive_heartbeat.wobbles",
    4,
    least=1,
    most=16,
    unit="times",
    about="how much beats wobble, before silence is too long",
)
MOST_PATIENCE: Final = Limit(
    "detectors.adaptive_heartbeat.most_patience",
    16,
    least=1,
    most=1024,
    unit="times",
    about="the timeout, after several wrong suspicions in a row",
)


class AdaptiveBeat(Message):
    """Show that the sender is alive: the receiver takes back its suspicion and waits anew."""

    wire = Wire("adaptive_heartbeat.beat")


class Rhythm:
    """How one neighbour's beats come; times in microseconds."""

    def __init__(self, now: int, interval: int) -> None:
        self.last = now  # beat
        self.heard = now  # anything at all
        self.mean = interval
        self.wobble = interval // 4
        self.patience = 1  # doubled by every suspicion that was wrong, and slowly forgotten

    def beat(self, now: int) -> None:
        """One came: learn from the distance to the one before, if that says something."""
        before, self.last, self.heard = self.last, now, now
        if before == NEVER:
            return
        distance = now - before
        self.wobble += (abs(distance - self.mean) - self.wobble) // 4
        self.mean += (distance - self.mean) // 8

    def timeout(self, least: int) -> int:
        """How much silence is too much."""
        return self.patience * max(least, self.mean + WOBBLES.value * self.wobble)


class AdaptiveHeartbeat(Detector):
    """The rhythm of every neighbour, and whom it suspects."""

    def __init__(self, interval: int, least: int) -> None:
        self.interval = interval
        self.least = least
        self.rhythms: dict[NodeId, Rhythm] = {}  # neighbours only
        self.links: dict[NodeId, LinkId] = {}  # a beat is for the link that stands: it never dials
        self.last_look = 0
        self.suspicions = Suspicions()
        self.silent: dict[NodeId, None] = {}  # suspected for their silence alone

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        if not self.rhythms:
            self.last_look = out.now
            out.start_timer("beat", self.interval)
        before = self.rhythms.get(peer)
        self.rhythms[peer] = Rhythm(out.now, self.interval)
        if before is not None:
            self.rhythms[peer].patience = before.patience
        self.silent.pop(peer, None)
        self.suspicions.believe(peer, out)
        self.links[peer] = link
        out.send(peer, AdaptiveBeat(), link)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        self.links.pop(peer, None)
        self.rhythms.pop(peer, None)
        self.silent.pop(peer, None)
        if not self.rhythms:
            out.cancel_timer("beat")

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        self.suspicions.doubt(peer, out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        rhythm = self.rhythms.get(sender)
        if rhythm is None:
            return
        if sender in self.silent:
            self._was_there(sender, rhythm, out)
        rhythm.beat(out.now)
        self.suspicions.believe(sender, out)

    def on_heard(self, peer: NodeId, out: Outbox) -> None:
        """No beat, so there is nothing to learn; but it is there."""
        rhythm = self.rhythms.get(peer)
        if rhythm is None:
            return
        if peer in self.silent:
            self._was_there(peer, rhythm, out)
        rhythm.heard = out.now
        self.suspicions.believe(peer, out)

    def _was_there(self, peer: NodeId, rhythm: Rhythm, out: Outbox) -> None:
        """All along. What its silence lasted says nothing of its usual rhythm."""
        del self.silent[peer]
        rhythm.patience = min(MOST_PATIENCE.value, 2 * rhythm.patience)
        rhythm.last = NEVER
        out.note("wrong_suspicion", peer)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        was_away = out.now - self.last_look > 2 * self.interval
        self.last_look = out.now
        if was_away:
            out.note("stood_still", 0)
        for peer, rhythm in self.rhythms.items():
            out.send(peer, AdaptiveBeat(), self.links[peer])
            if was_away:
                rhythm.last = rhythm.heard = out.now
            elif out.now - rhythm.heard > rhythm.timeout(self.least) and peer not in self.silent:
                self.silent[peer] = None
                self.suspicions.doubt(peer, out)
        out.start_timer("beat", self.interval)


def build(setup: Setup) -> AdaptiveHeartbeat:
    return AdaptiveHeartbeat(setup.number("interval"), setup.number("least"))


SPEC = DetectorSpec(
    name="adaptive_heartbeat",
    summary="Silence is a suspicion; how much of it is learnt from each neighbour.",
    build=build,
    messages=[AdaptiveBeat],
    options=[
        Option(
            "interval",
            500 * MILLISECOND,
            "send a beat this often",
            unit="ms",
            change_if="beats cost too much, or a dead node must be noticed sooner",
        ),
        # Two beats may be lost, however regular a neighbour has been.
        Option(
            "least",
            1250 * MILLISECOND,
            "suspect nobody sooner than this",
            unit="ms",
            change_if="pauses of a live node, as of a garbage collector, are longer",
        ),
    ],
)
