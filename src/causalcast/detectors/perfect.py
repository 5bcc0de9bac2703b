"""Perfect: suspects exactly those that crashed. For simulations; no real network can tell.

The simulated network says why a link was lost; `crashed` is the one reason believed here, so a
cut link raises no suspicion.
"""

from causalcast.core import Detector, DetectorSpec, LinkId, NodeId, Outbox, Setup
from causalcast.parts.suspicions import Suspicions


class Perfect(Detector):
    """Believes the network's word for a crash, and nothing else."""

    def __init__(self) -> None:
        self.suspicions = Suspicions()

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        self.suspicions.believe(peer, out)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        if reason == "crashed":
            self.suspicions.doubt(peer, out)


def build(setup: Setup) -> Perfect:
    return Perfect()


SPEC = DetectorSpec(
    name="perfect",
    summary="Suspects exactly those that crashed; simulations only.",
    build=build,
)
