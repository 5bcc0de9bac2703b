"""What of a node survives a crash, as records: one by one, or all together in a snapshot."""

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.parts.tree.neighbourhood import Pair
from causalcast.protocols.locamu.local_past import flat, nested
from causalcast.protocols.locamu.message_log import Record, Standby
from causalcast.protocols.locamu.messages import (
    Admission,
    Departed,
    Forgotten,
    GivenUp,
    Kept,
    Learned,
    Named,
    Noted,
    Past,
    StoodBy,
    Subscription,
    Wish,
    key_of,
    with_header,
)
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.safe_path import Numbers


class DurableRecords:
    """Writes down the past, messages on their way, groups that are joined, and nodes that are
    gone; and reads them back."""

    def __init__(self, state: NodeState, names: KnownNames) -> None:
        self._me = state.me
        self._names = names
        self._around = state.around
        self._reach = state.peers.reach
        self._past = state.past
        self._log = state.log
        self._members = state.members
        self._departures = state.departures
        self._forgotten: list[list[int]] = []  # removals that no record has yet

    # While the node runs

    def keep(self, record: Record, out: Outbox) -> None:
        """A message was processed, and is kept."""
        out.persist(self._kept(record, record.numbers, self._past.take_raised()))
        if record.standby is not None:
            self.stand_by(record, out)

    def stand_by(self, record: Record, out: Outbox) -> None:
        """This node can stand in for a message's publisher."""
        out.persist(self._stood_by(record))

    def _stood_by(self, record: Record) -> StoodBy:
        assert record.standby is not None
        number = record.numbers[record.origin][self._me]
        standby = record.standby
        return StoodBy(record.origin, number, standby.numbers, nested(standby.needs))

    def note(self, arrived: dict[NodeId, int], out: Outbox) -> None:
        """Numbers of a message arrived that is not kept here, if there are any."""
        if arrived:
            out.persist(Noted(arrived, {}))

    def learn(self, record: Record, news: Numbers, out: Outbox) -> None:
        """Further numbers of a message became known."""
        stamp = record.given_by_others(self._me)
        out.persist(Learned(*stamp, record.origin, news))

    def forget(self, record: Record, out: Outbox) -> None:
        """A message is kept no longer.

        If this is lost in a crash, the record is back and its targets say again that they have it.
        So it need not be durable at once, and goes with the next entry.
        """
        stamp = record.stamps()[0]
        self._forgotten.append([stamp[0], stamp[1], stamp[2]])
        if out.records:
            out.persist(Forgotten(self._forgotten))
            self._forgotten = []

    def _kept(self, record: Record, numbers: Numbers, raised: Numbers) -> Kept:
        message = with_header(record.message, b"")
        return Kept(message, record.origin, record.epoch, record.back, numbers, raised)

    # After a crash

    def restore(self, entry: Message, now: int) -> None:
        """Rebuild what one record says."""
        if isinstance(entry, Kept):
            self._restore_kept(entry, now)
        elif isinstance(entry, Noted):
            for issuer, number in entry.arrived.items():
                self._past.arrive(issuer, number)
            self._past.restore_raised(entry.raised)
        elif isinstance(entry, Learned):
            self._restore_learned(entry)
        elif isinstance(entry, Forgotten):
            for stamp in entry.stamps:
                known = self._log.at((NodeId(stamp[0]), NodeId(stamp[1]), stamp[2]))
                if known is not None:
                    self._log.remove(known)
                    self._names.take_over(known)
        elif isinstance(entry, StoodBy):
            known = self._log.at((entry.origin, self._me, entry.number))
            if known is not None:
                self._log.stand_by(known, Standby(entry.numbers, flat(entry.needs)))
        elif isinstance(entry, Named):
            for known, issuer, number in self._names.restore(entry):
                self._log.note_apart(known, issuer, number)
                self._past.arrive(issuer, number)
        elif isinstance(entry, Wish):
            self._members.wish(entry.group, entry.wanted)
        elif isinstance(entry, Departed):
            self._departures.declare(entry.peer)
        elif isinstance(entry, GivenUp):
            self._departures.give_up(entry.peer, entry.held)
        else:
            assert isinstance(entry, Past)
            self._restore_past(entry)

    def _restore_kept(self, kept: Kept, now: int) -> None:
        origin, back = NodeId(kept.origin), NodeId(kept.back)
        record = Record(kept.message, origin, kept.epoch, back, kept.numbers, now)
        # Whoever it came from: all who could have sent it.
        record.heard_from = dict.fromkeys(record.numbers_for(self._me))
        self._arrive(record)
        for issuer, number in self._names.take_mine(key_of(kept.message)).items():
            if not record.is_numbered(issuer, self._me):
                self._log.note_apart(record, issuer, number)
                self._past.arrive(issuer, number)
        self._past.restore_raised(kept.raised)
        record.needs = dict(self._past.numbers)
        record.targets = record.numbers.setdefault(self._me, {})
        self._past.restore_raised({self._me: record.targets})
        self._restore_handed_on(record)
        self._log.add(record)
        message = kept.message
        if isinstance(message, Subscription):
            self._members.remember_joiner(message.group, message.joiner, self.way_back(record))
        elif isinstance(message, Admission):
            self._members.admit(message.group, message.joiner, message.epoch)

    def way_back(self, record: Record) -> list[NodeId]:
        """The nodes within reach on the way the message came."""
        far = max(record.numbers, key=lambda issuer: self._around.distance(self._me, issuer))
        return self._around.way(self._me, far)[1 : self._reach + 1]

    def _restore_learned(self, learned: Learned) -> None:
        known = self._log.at((learned.issuer, learned.node, learned.number))
        if known is not None:
            self._log.learn(known, NodeId(learned.origin), learned.numbers)
            self._arrive(known)
            self._past.restore_raised({self._me: learned.numbers.get(self._me, {})})
            self._restore_handed_on(known)
            self._log.open_for(known, known.targets)

    def _arrive(self, record: Record) -> None:
        for issuer, number in record.numbers_for(self._me).items():
            self._past.arrive(issuer, number)

    def _restore_handed_on(self, record: Record) -> None:
        back = [n for n in record.targets if self._around.hop(self._me, n) == record.back]
        record.handed_on = dict.fromkeys(back)

    def _restore_past(self, past: Past) -> None:
        self._past.restore_raised(past.past)
        for issuer, count in past.counts.items():
            self._past.arrived[issuer].count = count
            self._past.arrived[issuer].extras = {}
        for issuer, numbers in past.extras.items():
            for number in numbers:
                self._past.arrive(issuer, number)
        self._members.restore(past.epochs, past.led, past.joining, past.admitted)

    # All together

    def snapshot(self) -> list[Message]:
        """The records from which all of this can be rebuilt."""
        return [
            *self._snapshot_of_log(),
            self._snapshot_of_past(),
            *[self._stood_by(r) for r in self._log.records if r.standby is not None],
            *self._names.snapshot(),
            *[Wish(group, False) for group in self._members.withdrawn],
            *[Departed(peer) for peer in self._departures.gone],
            *[GivenUp(peer, self._still_held()) for peer in self._departures.given_up],
        ]

    def _snapshot_of_log(self) -> list[Message]:
        """Each message with the past as it was then; after them, whom messages are handed on to."""
        kept: list[Message] = []
        handed_on: list[Message] = []
        before: dict[Pair, int] = {}
        for record in self._log.records:
            raised = {p: n for p, n in record.needs.items() if before.get(p) != n}
            before = record.needs
            onward = record.onward()
            kept.append(self._kept(record, {**record.numbers, self._me: onward}, nested(raised)))
            others = {n: s for n, s in record.targets.items() if n not in onward}
            if others:
                stamp = record.given_by_others(self._me)
                handed_on.append(Learned(*stamp, record.origin, {self._me: others}))
        return kept + handed_on

    def _snapshot_of_past(self) -> Past:
        arrived = self._past.arrived
        return Past(
            nested(self._past.numbers),
            {issuer: numbers.count for issuer, numbers in arrived.items()},
            {issuer: list(n.extras) for issuer, n in arrived.items() if n.extras},
            self._members.epochs,
            self._members.led,
            self._members.joining,
            list(self._members.admitted),
        )

    def _still_held(self) -> list[list[int]]:
        return [
            [int(number) for pair in pairs for number in pair]
            for key, pairs in self._departures.held.items()
            if not self._past.has_arrived(*key)
        ]
