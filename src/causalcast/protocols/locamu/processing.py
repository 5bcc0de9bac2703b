"""The algorithm of the paper: a copy that arrived waits, is processed, or is merged.

RECEIVE, UNBUFFER, FORWARD and MERGEIDENTIFIERS of Alg. 1, in their order of steps. What each step
knows and does is in its part.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.core.message import Message
from causalcast.core.outbox import Outbox
from causalcast.parts.tree.neighbourhood import NOBODY, Pair
from causalcast.protocols.locamu.acknowledgements import Acknowledgements
from causalcast.protocols.locamu.arrivals import Arrivals
from causalcast.protocols.locamu.arrived_copy import Arrived
from causalcast.protocols.locamu.durable_records import DurableRecords
from causalcast.protocols.locamu.explanations import Explanations
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.gap_consultation import GapConsultation
from causalcast.protocols.locamu.message_log import Record
from causalcast.protocols.locamu.messages import (
    Admission,
    Copy,
    Key,
    Noted,
    Subscription,
    key_of,
)
from causalcast.protocols.locamu.missing import Missing
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.own_names import OwnNames
from causalcast.protocols.locamu.replays import Replays
from causalcast.protocols.locamu.safe_path import Numbers
from causalcast.protocols.locamu.substitution import Substitution

REPEAT: Final = "repeat"


class Processing:
    """Takes copies in, and lets messages begin, wait, go on and be forgotten.

    Large because the steps of the algorithm stand together, in its order.
    """

    def __init__(
        self,
        state: NodeState,
        consultation: GapConsultation,
        forwarding: Forwarding,
        acknowledgements: Acknowledgements,
        substitution: Substitution,
        names: KnownNames,
        own_names: OwnNames,
        replays: Replays,
        repeat_after: int,
    ) -> None:
        self.me = state.me
        self.peers = state.peers
        self.past = state.past
        self.log = state.log
        self.holdback = state.holdback
        self.departures = state.departures
        self.members = state.members
        self.names = names
        self.own_names = own_names
        self.replays = replays
        self.records = DurableRecords(state, names)
        self.arrivals = Arrivals(state)
        self.missing = Missing(state, names)
        self.explanations = Explanations(state, forwarding, self.missing)
        self.consultation = consultation
        self.forwarding = forwarding
        self.acknowledgements = acknowledgements
        self.substitution = substitution
        self.repeat_after = repeat_after
        self.repeats = False  # whether the timer runs

    # Beginning

    def begin(self, message: Message, epoch: int, out: Outbox) -> None:
        """A message begins its way here."""
        # Alg. 1, l. 46-48 (PUBLISH).
        record = Record(message, self.me, epoch, NOBODY, {}, out.now)
        self._stamp(record)
        self._finish(record, out)

    # Copies that arrive

    def take_in(self, sender: NodeId, copy: Arrived | None, out: Outbox) -> None:
        """A copy came, or something that makes no sense."""
        # Alg. 1, l. 31-35 (RECEIVE).
        if copy is None:
            out.note("locamu.nonsense", sender)
            return
        key = (copy.source, NodeId(copy.number))
        older = self.holdback.take(key)
        if older is not None:  # the new one may carry more numbers
            self._take_over(copy, older)
        elif self.arrivals.is_too_late(copy):
            self._take_numbers_only(copy, out)
            return
        copy.inquiry.key = key
        self._consider(key, copy, out)
        self.look_again(self.arrivals.take_woken(), out)
        if key in self.holdback.copies:
            self.acknowledgements.say_held(copy.source, copy.number, out)

    def _take_over(self, copy: Arrived, older: Arrived) -> None:
        """A copy takes the place of one that waits here."""
        copy.announced = older.announced
        copy.since = older.since
        if all(issuer in older.numbers for issuer in copy.numbers):
            copy.inquiry = older.inquiry  # nothing else is to be asked
        else:
            self.consultation.drop(older.inquiry)

    def _take_numbers_only(self, copy: Arrived, out: Outbox) -> None:
        """A copy came too late: it counts as arrived, and is not delivered."""
        out.note("locamu.too_late", copy.origin)
        numbers = {**copy.numbers, copy.source: {self.me: copy.number}}
        out.persist(Noted(self.arrivals.take_numbers(numbers), {}))
        self.acknowledgements.acknowledge_to(copy.source, copy.number, out)
        self.look_again(self.arrivals.take_woken(), out)

    # Processing

    def look_again(self, keys: list[Pair], out: Outbox) -> None:
        """Take from the held copies those that wait no longer, and those that this frees."""
        # Alg. 1, l. 25-30 and 45 (UNBUFFER).
        todo = keys
        while todo:
            for key in todo:
                copy = self.holdback.take(key)
                if copy is not None:
                    self._consider(key, copy, out)
            todo = self.arrivals.take_woken()
        self.answer_questions(out)
        self.keep_repeating(out)

    def _consider(self, key: Pair, copy: Arrived, out: Outbox) -> None:
        # Alg. 1, l. 33-44; but a duplicate is recognised first, whatever it waits for.
        if self.arrivals.is_known(copy):
            self.consultation.drop(copy.inquiry)
            self._merge(copy, out)
            return
        copy.waits_for = self.missing.last_for(copy)
        if copy.waits_for is None and self._consult(copy, out):
            self._process(copy, out)
            return
        self.holdback.put(key, copy)
        self.explanations.announce_held(copy, out)

    def _consult(self, copy: Arrived, out: Outbox) -> bool:
        """Ask around the gap that a copy jumped over; True if all have answered, and nothing that
        they named is missing.

        With f = 1 nobody need be asked: a single skipped node leaves no gap in the numbers.
        """
        # Not in the paper: there numbers are believed to tell enough for any f.
        if self.peers.f == 1:
            return True
        settled = self.consultation.consult(
            copy.source, copy.needs, copy.numbers, copy.inquiry, self.peers.suspected, out
        )
        if settled:
            copy.waits_for = self.missing.last_for(copy)
        return settled and copy.waits_for is None

    def _process(self, copy: Arrived, out: Outbox) -> None:
        # Alg. 1, l. 37 and 41-44.
        record = Record(copy.message, copy.origin, copy.epoch, copy.back, copy.numbers, out.now)
        if self.departures.given_up:  # it was held when its publisher was
            record.numbers.update(self.departures.skipped_by(copy))
        record.heard_from[copy.source] = None
        record.standby = copy.standby
        self.arrivals.take_numbers(record.numbers)
        self._note_handed_on(record, copy, out)
        self._take_names(record)
        self._raise_past(copy)
        self._stamp(record)
        if copy.announced and isinstance(copy.message, Copy):
            out.release(copy.message.publication.id)
        self._finish(record, out)

    def _raise_past(self, copy: Arrived) -> None:
        """The past of a copy becomes this node's, and the copy itself is part of it."""
        # Alg. 1, l. 18-19, which raises it by all numbers of the copy. But those of other issuers
        # than its sender may have been merged in from other copies: what came before them is not
        # among its dependencies. Who hands a copy on depends on what is near itself: there those
        # who numbered it must do.
        for pair, number in copy.needs.items():
            self.past.raise_to(pair, number)
        reachable, reach = self.peers.reachable, self.peers.reach
        senders = list(copy.numbers) if copy.is_handed_on() else [copy.source]
        for issuer in senders:
            for node, number in copy.numbers[issuer].items():
                if node in reachable:
                    self.past.raise_to((issuer, node), number)
        for asked, row in copy.inquiry.answers.items():
            for node, number in row.items():
                if node in reachable and self.peers.around.distance(asked, node) <= reach:
                    self.past.raise_to((asked, node), number)

    def _stamp(self, record: Record) -> None:
        """Freeze what the message depends on, then give it my numbers.

        Every target gets one at once, sent to directly or not: that lets it recognise the message,
        wait for it, and ask for it.
        """
        # Alg. 1, l. 7-11 (FORWARD), which counts in the dependencies.
        record.needs = dict(self.past.numbers)
        for node in self._led_to(record):
            is_back = self.peers.around.hop(self.me, node) == record.back
            if not is_back and node not in self.departures.gone:
                record.targets[node] = self.past.count_for(node)
        record.numbers[self.me] = record.targets

    def _led_to(self, record: Record) -> list[NodeId]:
        """Everybody within reach that is a member of the message's group, or has one behind it."""
        message = record.message
        if not isinstance(message, Copy):
            return list(self.peers.reachable)
        group = message.publication.group
        led = self.members.led_to(group, record.epoch, self.peers.reachable)
        everybody = len(led) == len(self.peers.reachable)
        if everybody or not self.peers.goes_on or record.origin == NOBODY:
            return led
        # And everybody within reach of its publisher, so that whoever depends on what that says
        # next has this too, should it fall.
        distance, reach = self.peers.around.distance, self.peers.reach
        return [
            node
            for node in self.peers.reachable
            if node in led or distance(record.origin, node) <= reach
        ]

    def _finish(self, record: Record, out: Outbox) -> None:
        """Keep a stamped record, deliver its publication, and send it on its way."""
        # Alg. 1, l. 12-13 and 43.
        self.log.add(record)
        if self.peers.goes_on:
            self.own_names.add(record)
        self.substitution.hand_on_new(record)
        self.arrivals.wake_duplicates(record.numbers)
        if isinstance(record.message, Copy):
            out.deliver(record.message.publication)
        self.forwarding.forward(record, out)
        self.acknowledgements.acknowledge(record, out)
        if self._is_done(record) and isinstance(record.message, Copy):
            self.substitution.finish(record, out)
            self.log.remove(record)
            out.persist(Noted(record.numbers_for(self.me), self.past.take_raised()))
            for named in self.names.take_over(record):
                out.persist(named)
        else:
            self.records.keep(record, out)
            self.replays.replay(record, out)
            self._hear_of_members(record, out)
            self.collect(record, out)
        self.keep_repeating(out)

    # Further copies of a known message

    def _merge(self, copy: Arrived, out: Outbox) -> None:
        """Learn numbers from a duplicate. What it depends on is not looked at."""
        # Alg. 1, l. 38-40.
        if isinstance(copy.message, Copy):
            if copy.announced:
                out.release(copy.message.publication.id)
            out.duplicate(copy.message.publication.id)
        record = self.log.find(copy.stamps())
        if record is None:  # every target has it; only late numbers are news
            numbers = {**copy.numbers, copy.source: {self.me: copy.number}}
            self.records.note(self.arrivals.take_numbers(numbers), out)
            self.acknowledgements.acknowledge_to(copy.source, copy.number, out)
            if self.peers.goes_on and copy.source in copy.numbers:
                named = {key_of(copy.message): copy.numbers[copy.source]}
                self.names.learn(copy.source, named, out)
            return
        record.heard_from[copy.source] = None
        # Who lies about a publisher that seems to be down may name another message's number.
        is_its = record.origin == copy.source and record.is_numbered(record.origin, self.me)
        if record.standby is None and copy.standby is not None and is_its:
            self.log.stand_by(record, copy.standby)
            self.records.stand_by(record, out)
            self.replays.replay(record, out)
        self._note_handed_on(record, copy, out)
        numbers = {issuer: row for issuer, row in copy.numbers.items() if issuer != self.me}
        if not self.learn(record, copy.origin, numbers, out):
            self.acknowledgements.acknowledge_to(copy.source, copy.number, out)
        self.collect(record, out)

    def learn(self, record: Record, origin: NodeId, numbers: Numbers, out: Outbox) -> bool:
        """Take over what is new, tell those who sent it, and pass it on; False if nothing is."""
        # Alg. 1, l. 20-24 (MERGEIDENTIFIERS); that they are sent on is in fig. 2 of the paper in
        # Portuguese.
        found_origin = record.origin == NOBODY and origin != NOBODY
        news = self.log.learn(record, origin, numbers)
        if not news and not found_origin:
            return False
        self.arrivals.take_numbers(record.numbers)
        self.arrivals.wake_duplicates(news)
        self.records.learn(record, news, out)
        self.acknowledgements.acknowledge(record, out)
        self.forwarding.forward(record, out)
        return True

    def _note_handed_on(self, record: Record, copy: Arrived, out: Outbox) -> None:
        """Record the number given by the node that handed the copy on.

        That node is not on the message's path, so its number is kept apart.
        """
        if copy.is_handed_on() and copy.source not in record.apart:
            self.log.note_apart(record, copy.source, copy.number)
            arrived = self.arrivals.take_numbers({copy.source: {self.me: copy.number}})
            self.records.note(arrived, out)
            self.acknowledgements.watch_complete(record)

    def hear_names(self, keys: list[Key], out: Outbox) -> None:
        """It became known which numbers some messages have for this node."""
        for key in keys:
            record = self.log.named(key)
            if record is not None:
                self._take_names(record)
                self.acknowledgements.watch_complete(record)
                self.acknowledgements.acknowledge(record, out)
        if keys:  # copies of those messages wait for them no longer
            self.look_again([*self.arrivals.take_woken(), *self.holdback.copies], out)

    def _take_names(self, record: Record) -> None:
        """A message is here: so are the numbers that only names say it has for this node."""
        if not self.names.mine:
            return
        for issuer, number in self.names.take_mine(key_of(record.message)).items():
            if not record.is_numbered(issuer, self.me):
                self.log.note_apart(record, issuer, number)
                self.arrivals.take_numbers({issuer: {self.me: number}})

    # Forgetting

    def collect(self, record: Record, out: Outbox) -> None:
        """Forget a record if it is done."""
        if record not in self.log.records or not self.forwarding.is_passed_on(record):
            return
        self.substitution.finish(record, out)
        self.substitution.keep_for_publisher(record)
        if not self.substitution.is_needed(record):
            self.substitution.forget(record)
            self.log.remove(record)
            self.names.take_over(record)
            self.records.forget(record, out)

    def _is_done(self, record: Record) -> bool:
        """Whether it is not needed any more, either to pass it on or to stand in for others."""
        return self.forwarding.is_passed_on(record) and not self.substitution.is_needed(record)

    # What follows

    def _hear_of_members(self, record: Record, out: Outbox) -> None:
        """Somebody wants to join a group, or was admitted; the coordinator admits who wants to."""
        message = record.message
        if isinstance(message, Subscription):
            way = self.records.way_back(record)
            self.members.remember_joiner(message.group, message.joiner, way)
            epoch = self.members.epoch_to_admit(message.group)
            if epoch > 0:
                self.begin(Admission(message.group, message.joiner, epoch, b""), 0, out)
        elif isinstance(message, Admission):
            is_member = self.members.admit(message.group, message.joiner, message.epoch)
            if is_member:
                out.joined(message.group)

    def change_active(self, out: Outbox) -> None:
        """Others are the first live node on their way now."""
        self.peers.refresh()
        self.peers.watch_budget(out)
        for record in self.log.records:
            self.forwarding.forward(record, out)
        self.look_again(list(self.holdback.copies), out)

    def keep_repeating(self, out: Outbox) -> None:
        """The timer runs only while something is unfinished."""
        if self.repeats:
            return
        unfinished = self.log.records or self.holdback.copies or self.missing.probed
        named = not self.names.is_empty() or self.own_names.owes()
        if unfinished or named or self.departures.is_unsettled():
            self.repeats = True
            out.start_timer(REPEAT, self.repeat_after)

    def answer_questions(self, out: Outbox) -> None:
        """Tell those who ask around a gap what can be told by now."""
        if self.consultation.unanswered:
            given_up = self.departures.given_up
            self.consultation.answer_questions(
                self.past.arrived, given_up, self.log.numbers_onward, out
            )
