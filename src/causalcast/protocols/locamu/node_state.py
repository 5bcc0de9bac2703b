"""What a node knows, in one place: all parts of the protocol look at it, and change it."""

from causalcast.core.spec import Setup
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu.departures import Departures
from causalcast.protocols.locamu.holdback import Holdback
from causalcast.protocols.locamu.late_members import LateMembers
from causalcast.protocols.locamu.local_past import LocalPast
from causalcast.protocols.locamu.message_log import MessageLog
from causalcast.protocols.locamu.peers import Peers
from causalcast.protocols.locamu.safe_path import SafePath


class NodeState:
    """The peers, the past, messages that are here, members of groups, and nodes that are gone."""

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        self.me = setup.me
        self.around = around
        self.paths = paths
        self.peers = Peers(around, setup.number("f"))
        # Survives a crash.
        self.past = LocalPast(self.me, list(self.peers.reachable))
        self.log = MessageLog(self.me)
        self.departures = Departures(around, self.peers.reach, self.peers.horizon)
        self.members = LateMembers(setup)
        self.members.gone = self.paths.gone = self.departures.gone
        # Does not.
        self.holdback = Holdback()
