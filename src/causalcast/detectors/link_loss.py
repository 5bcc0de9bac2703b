"""Link loss: a lost link is a suspicion, a new one takes it back.

What a transport with connections gives for free. It is wrong whenever a link breaks between two
nodes that are both up, so protocols must live with wrong suspicions.
"""

from causalcast.core import Detector, DetectorSpec, LinkId, NodeId, Outbox, Setup
from causalcast.parts.suspicions import Suspicions


class LinkLoss(Detector):
    """Suspects whoever has no link to us any more."""

    def __init__(self) -> None:
        self.suspicions = Suspicions()

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        self.suspicions.believe(peer, out)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        self.suspicions.doubt(peer, out)


def build(setup: Setup) -> LinkLoss:
    return LinkLoss()


SPEC = DetectorSpec(
    name="link_loss",
    summary="A lost link is a suspicion.",
    build=build,
)
