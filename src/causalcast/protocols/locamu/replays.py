"""Stands in for publishers that seem to be down: sends what they would send themselves.

A publication may have reached some nodes within its publisher's reach and not others when that
falls. The publisher's own copies have all that it would send to anybody: its numbers for all, and
all that the message depends on. Who got such a copy keeps it until the publisher says that
everybody has the message, and sends it in its place while it seems to be down. Nothing of the
sender's own goes with it. So to its receiver it is a copy of the publisher that came late, whoever
brings it and whether the suspicion is right or wrong.
"""

from causalcast.core.ids import NodeId
from causalcast.core.outbox import Outbox
from causalcast.protocols.locamu.forwarding import MOST_DOUBLINGS
from causalcast.protocols.locamu.local_past import nested
from causalcast.protocols.locamu.message_log import Record, Standby
from causalcast.protocols.locamu.messages import Replay, Replayed, with_header
from causalcast.protocols.locamu.node_state import NodeState


class Replays:
    """Sends publications in the place of others."""

    def __init__(self, state: NodeState) -> None:
        self._me = state.me
        self._peers = state.peers
        self._around = state.around
        self._log = state.log
        self._departures = state.departures

    def replay_all(self, publisher: NodeId, out: Outbox) -> None:
        """A publisher seems to be down."""
        for record in self._log.standbys.get(publisher, {}):
            assert record.standby is not None
            record.standby.tries = 0
            self.replay(record, out)

    def replay_to(self, node: NodeId, out: Outbox) -> None:
        """There is a new link to a node: what was sent to it may be lost."""
        for publisher in self._peers.suspected:
            for record in self._log.standbys.get(publisher, {}):
                assert record.standby is not None
                record.standby.tries = 0
                record.standby.sent_at.pop(node, None)
                self.replay(record, out)

    def replay(self, record: Record, out: Outbox) -> None:
        """Send a message to those on its publisher's side that may lack it, once."""
        publisher, standby = record.origin, record.standby
        if standby is None or publisher not in self._peers.suspected:
            return
        if publisher in self._departures.gone:
            return
        for node in standby.numbers:
            if node not in standby.sent_at and self._may_lack(record, standby, node):
                standby.sent_at[node] = out.now
                out.note("locamu.replayed", node)
                replay = Replay(
                    with_header(record.message, b""),
                    publisher,
                    record.epoch,
                    standby.numbers,
                    nested(standby.needs),
                )
                self._peers.tell(node, replay, out)

    def _may_lack(self, record: Record, standby: Standby, node: NodeId) -> bool:
        """Whether a node is to be sent a message from here; those further from its publisher than
        this one get it along its way."""
        return (
            node in self._peers.links
            and node not in self._peers.suspected
            and node not in standby.answered
            and self._around.hop(self._me, node) == record.back
        )

    def repeat(self, after: int, out: Outbox) -> None:
        """Send again, ever less often, what was not answered."""
        for publisher in self._peers.suspected:
            for record in self._log.standbys.get(publisher, {}):
                standby = record.standby
                assert standby is not None
                wait = after << min(standby.tries, MOST_DOUBLINGS.value)
                late = [n for n, at in standby.sent_at.items() if out.now - at >= wait]
                late = [node for node in late if self._may_lack(record, standby, node)]
                if late:
                    standby.tries += 1
                    for node in late:
                        del standby.sent_at[node]
                self.replay(record, out)

    def on_replayed(self, sender: NodeId, replayed: Replayed) -> None:
        """A node has what was sent to it."""
        # Not in the paper: nobody stands in for a publisher there.
        record = self._log.at((replayed.origin, sender, replayed.number))
        if record is not None and record.standby is not None:
            record.standby.answered[sender] = None
