"""LoCaMu: localized fault-tolerant causal multicast over a tree.

V. Santos, "Localized Reliable Causal Multicast", extended abstract of a dissertation, 2019: Alg. 1,
and sections with Roman numbers. V. Santos, L. Rodrigues, "Difusão em Grupo Tolerante a Faltas com
Ordem Causal Usando Informação Localizada", 2019: sections with Arabic numbers.

The overlay is a tree. A node knows the tree only within 2f+1 hops and keeps links to everybody
within f+1, so up to f neighbours in a row can be skipped. Each node a message passes gives it a
number for every node within f+1 hops that it may go to next. From these numbers follows everything:

- A message depends on all numbers its sender had heard of; its receiver processes it once it has
  those that were addressed to itself.
- Copies that came along different ways are recognised by any number they share. A copy leaves only
  with enough of them (`safe_path`), and when a node learns more numbers of a message, it
  passes them on.
- Who numbered a message for a node keeps it until that node has it and knows all its numbers. So
  nothing is lost with a crash, and a node that was away is brought up to date by its neighbours.

No structure depends on the number of nodes, and the publication's global id is never looked at; it
is carried for the trace only.

What is promised: creation, duplication and disorder never happen, whatever crashes or is suspected.
Every member delivers everything once all who crashed are back. While a node is down, the messages
that depend on a number it gave out, and that nobody else can vouch for, wait for it; the papers
promise more and cannot keep it. If it never comes back, an operator can declare it gone
(`substitution`, `giving_up`): order is kept, and only what it published may be missing.

Where we differ from the papers, and why
- Dependencies are frozen before the message is numbered, so a message never waits for its own
  numbers. With the order printed in the paper no message is ever delivered.
- A copy needs the numbers of f+1 of the last 2f+1 nodes, or the publisher's: with f, two copies
  need not share one; without the exemption nothing leaves the publisher.
- Numbers received are kept as a set, not as a maximum: a maximum skips gaps, and the message in the
  gap is never asked for.
- What is merged from a duplicate is sent on, and a message is forgotten only when its numbers are
  complete here and at every target: else a late copy is taken for a new message.
- Columns of the past are kept for nodes within f+1 hops only; the rest is never used.
- Missing numbers are asked for (`Want`), over whatever link there is: for f ≥ 2 two messages can
  otherwise wait for each other. A node that is told of a number it lacks (`Probe`) asks as well.
- For f ≥ 2 the receiver of a copy that jumped asks around the gap (`gap_consultation`).
- Joining a group is a message to everybody; a coordinator of the group admits the new member with
  a number, the epoch, in another. A message says the epoch its publisher had heard of, and whoever
  passes it on leads it to the members of that epoch: all decide alike, and all have heard of the
  epoch before, since admissions are causally ordered too. (Leading messages to a member as soon as
  one hears of it, even with the rule "address only whom those before you addressed", breaks causal
  order when a copy jumps over a node that had not heard of it.) A node is a member when it hears
  that it was admitted, not when it asks: what others publish in answer to what it says from then
  on is led to it. Until then it publishes as anybody else who is no member, to whatever group, and
  nothing of that waits. A join is refused where the coordinator seems to be down. Who leaves a
  group goes on passing its messages, and is a member again as soon as it joins again.
- A neighbour of the publisher keeps a message until the publisher has finished with it, so that it
  can stand in for it. That costs a small message per publication, and no hop more.
- There is no greeting after a restart: a new link says the same, since no link survives a crash.
"""

from typing import Final

from causalcast.core.automaton import Multicast
from causalcast.core.command import Command
from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Setup
from causalcast.limits import Limit
from causalcast.parts.tree.neighbourhood import Neighbourhood
from causalcast.protocols.locamu.acknowledgements import FLUSH_ACKS, Acknowledgements
from causalcast.protocols.locamu.arrived_copy import handed_on_copy, replayed_copy, sent_copy
from causalcast.protocols.locamu.forwarding import Forwarding
from causalcast.protocols.locamu.gap_consultation import QUESTIONS, Answer, Ask, GapConsultation
from causalcast.protocols.locamu.giving_up import GivingUp
from causalcast.protocols.locamu.headers import Headers
from causalcast.protocols.locamu.link_header import MissedHeader, UnreadableHeader
from causalcast.protocols.locamu.messages import (
    Ack,
    Admission,
    AskFinished,
    AskNames,
    Copy,
    Finished,
    Gone,
    HandedOn,
    Names,
    Probe,
    Replay,
    Replayed,
    Settled,
    StartOver,
    Subscription,
    Want,
    Wish,
)
from causalcast.protocols.locamu.names import KnownNames
from causalcast.protocols.locamu.node_state import NodeState
from causalcast.protocols.locamu.own_names import OwnNames
from causalcast.protocols.locamu.processing import REPEAT, Processing
from causalcast.protocols.locamu.replays import Replays
from causalcast.protocols.locamu.safe_path import SafePath
from causalcast.protocols.locamu.substitution import Substitution

UNREACHED: Final = "unreached"
PATIENCE: Final = Limit(
    "protocols.locamu.protocol.patience",
    8,
    least=1,
    most=1 << 10,
    unit="times",
    about="`repeat_after`, until a node is suspected that a node that starts does not reach",
)


class Locamu(Multicast):
    """What happens when something happens; how a copy is processed is in `processing`.

    Large because it has all handlers, and the parts that they call; each is a few lines.
    """

    def __init__(self, setup: Setup, around: Neighbourhood, paths: SafePath) -> None:
        state = NodeState(setup, around, paths)
        self.me = setup.me
        self.repeat_after = setup.number("repeat_after")
        self.paths = paths
        self.peers = state.peers
        self.past = state.past
        self.log = state.log
        self.holdback = state.holdback
        self.departures = state.departures
        self.members = state.members
        first_question = setup.random.randrange(QUESTIONS) if self.peers.f > 1 else 0
        self.consultation = GapConsultation(around, self.peers.reach, first_question)
        compresses = setup.text("headers") == "compressed"
        self.headers = Headers(self.peers, paths.window, compresses)
        self.names = KnownNames(state)
        self.own_names = OwnNames(state)
        self.replays = Replays(state)
        self.forwarding = Forwarding(state, self.headers, self.own_names, setup.number("window"))
        self.acknowledgements = Acknowledgements(state, setup.number("acknowledge_after"))
        self.substitution = Substitution(state, self.forwarding, self.acknowledgements, self.names)
        self.processing = Processing(
            state,
            self.consultation,
            self.forwarding,
            self.acknowledgements,
            self.substitution,
            self.names,
            self.own_names,
            self.replays,
            self.repeat_after,
        )
        self.missing = self.processing.missing
        self.records = self.processing.records
        self.explanations = self.processing.explanations
        self.giving_up = GivingUp(state, self.processing)

    def on_start(self, out: Outbox) -> None:
        # Not in the paper: there a detector knows of everybody.
        self._look_out(out)

    def _look_out(self, out: Outbox) -> None:
        """A detector says nothing of a node that there never was a link to."""
        if self.peers.goes_on:
            out.start_timer(UNREACHED, PATIENCE.value * self.repeat_after)

    # Publishing

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Alg. 1, l. 46-48 (PUBLISH). There a publisher does not deliver its own.
        epoch = self.members.epochs.get(publication.group, 0)
        self.processing.begin(Copy(publication, b""), epoch, out)

    # What others send

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Alg. 1 has the copy alone; the other messages are what section III-J leaves to the thesis,
        # and what we added.
        if sender not in self.peers.reachable:
            out.note("locamu.stranger", sender)
        elif sender in self.departures.gone:
            out.note("locamu.gone_spoke", sender)
        elif isinstance(message, (Copy, Subscription, Admission)):
            self._on_copy(sender, message, message.header, out)
        elif isinstance(message, Ack):
            self._on_ack(sender, message, out)
        elif isinstance(message, Probe):
            self._on_probe(sender, message, out)
        elif isinstance(message, Want):
            self._on_want(sender, message, out)
        elif isinstance(message, HandedOn):
            self._on_handed_on(sender, message, out)
        elif isinstance(message, Finished):
            self._on_finished(sender, message, out)
        elif isinstance(message, AskFinished):
            self.substitution.tell_finished(sender, out)
            if self.peers.goes_on:
                self.own_names.tell_settled(sender, out)
        elif isinstance(message, Replay):
            self._on_replay(sender, message, out)
        elif isinstance(message, Replayed):
            self.replays.on_replayed(sender, message)
        elif isinstance(message, AskNames):
            self.names.on_ask(sender, message, out)
        elif isinstance(message, Names):
            self._on_names(sender, message, out)
        elif isinstance(message, Settled):
            self.names.settle(sender, message.to)
        elif isinstance(message, Gone):
            self.giving_up.on_gone_told(sender, message, out)
        elif isinstance(message, StartOver):
            self.headers.start_over(sender)
        elif isinstance(message, Ask):
            self.consultation.on_ask(sender, message)
            self.processing.answer_questions(out)
        elif isinstance(message, Answer):
            inquiry = self.consultation.on_answer(sender, message)
            key = None if inquiry is None else inquiry.key
            self.processing.look_again([] if key is None else [key], out)

    def _on_copy(self, sender: NodeId, message: Message, data: bytes, out: Outbox) -> None:
        # Alg. 1, l. 31-35 (RECEIVE).
        try:
            header = self.headers.read(sender, data)
        except MissedHeader:
            out.note("locamu.header_missed", sender)
            out.send(sender, StartOver())
            return
        except UnreadableHeader:
            out.note("locamu.nonsense", sender)
            return
        copy = sent_copy(self.peers, sender, message, header, out.now)
        if header.names:
            mine = self.names.learn(sender, dict(header.names), out)
            self.processing.hear_names(mine, out)
        self.processing.take_in(sender, copy, out)

    def _on_replay(self, sender: NodeId, replay: Replay, out: Outbox) -> None:
        # Not in the paper: nobody stands in for a publisher there.
        publisher = replay.origin
        if publisher not in self.peers.reachable or not self.peers.goes_on:
            out.note("locamu.nonsense", sender)
            return
        if publisher in self.departures.gone:
            return
        if self.peers.may_speak_for([publisher], sender, out):
            plan = self.headers.plan(publisher, self.me)
            copy = replayed_copy(self.peers, plan, replay, out.now)
            self.processing.take_in(publisher, copy, out)
        number = replay.numbers.get(self.me, 0)
        if number > 0 and self.past.has_arrived(publisher, number):
            self.peers.tell(sender, Replayed(publisher, number), out)

    def _on_names(self, sender: NodeId, names: Names, out: Outbox) -> None:
        # Not in the paper: there a number is known to nobody but its issuer and its receiver.
        if not self.peers.may_speak_for([names.issuer], sender, out):
            return
        told = {tuple(key): {names.node: number} for number, key in names.keys.items()}
        self.processing.hear_names(self.names.learn(names.issuer, told, out), out)

    def _on_handed_on(self, sender: NodeId, handed: HandedOn, out: Outbox) -> None:
        # Not in the paper: nobody stands in for a node there.
        across = self.peers.around.between(self.me, sender)
        if not self.peers.may_speak_for(across, sender, out):
            return
        copy = handed_on_copy(self.peers, self.paths.window, sender, handed, out.now)
        self.processing.take_in(sender, copy, out)

    # Acknowledgements

    def _on_ack(self, sender: NodeId, ack: Ack, out: Outbox) -> None:
        # Not in the paper: section III-J leaves stability to the thesis.
        for number in self.acknowledgements.newly_complete(sender, ack):
            record = self.log.at((self.me, sender, number))
            if record is not None:
                self.forwarding.confirm(record, sender)
                self.processing.collect(record, out)
        for number, issuers in ack.partial.items():
            record = self.log.at((self.me, sender, number))
            if record is not None:
                self.forwarding.confirm_in_part(record, sender, issuers)
                self.forwarding.forward(record, out)
        for number in ack.held:
            record = self.log.at((self.me, sender, number))
            if record is not None and sender not in record.known_at:  # else that word is late
                record.held_at[sender] = None
        self.forwarding.send_waiting(sender, out)

    def _on_finished(self, sender: NodeId, finished: Finished, out: Outbox) -> None:
        # Not in the paper: nobody stands in for a publisher there.
        for record in self.substitution.take_finished(sender, finished.to):
            self.processing.collect(record, out)

    # Repeating and asking

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the paper: section III-J leaves retransmission to the thesis.
        if name == FLUSH_ACKS:
            self.acknowledgements.flush(NodeId(subject), out)
            self.substitution.flush(NodeId(subject), out)
        elif name == UNREACHED:
            for peer in self.peers.reachable:
                if peer not in self.peers.links and peer not in self.peers.suspected:
                    self.peers.unreached[peer] = None
                    self.on_suspect(peer, out)
        else:
            assert name == REPEAT
            self.processing.repeats = False
            self._repeat(out)
            # Who waits for a number is looked at when that arrives; the others wait for answers.
            copies = self.holdback.copies
            keys = [key for key in copies if copies[key].waits_for is None]
            self.processing.look_again(keys, out)

    def _repeat(self, out: Outbox) -> None:
        someone_is_gone = bool(self.departures.gone)
        for node in self.peers.reachable:
            if node not in self.peers.suspected:  # else it gets everything when it is back
                self.forwarding.repeat_to(node, self.repeat_after, someone_is_gone, out)
        for node, numbers in self.missing.to_ask_for(out.now, self.repeat_after).items():
            self.peers.tell(node, Want(numbers), out)
            if self.peers.goes_on and node in self.peers.suspected:
                self.names.ask(node, numbers, out)
        if self.peers.goes_on:
            self.replays.repeat(self.repeat_after, out)
            self.own_names.settle(out)
        self.consultation.repeat(self.repeat_after, out)
        self.substitution.ask_what_is_finished(out)
        for peer in self.departures.gone:
            for node in self.departures.unheard(peer):
                self.giving_up.tell(peer, node, out)

    def _on_probe(self, sender: NodeId, probe: Probe, out: Outbox) -> None:
        # Not in the paper: a node that nobody sends to directly may wait for a message, too.
        for number in probe.numbers:
            if self.past.has_arrived(sender, number):
                self.acknowledgements.acknowledge_to(sender, number, out)
            else:
                self.missing.take_probe(sender, number)
        self.processing.keep_repeating(out)

    def _on_want(self, sender: NodeId, want: Want, out: Outbox) -> None:
        # Section 3.9 of the paper in Portuguese: who notices that messages are missing asks the
        # sender for them.
        self.forwarding.send_what_is_asked_for(sender, want.numbers, out)

    # Links and suspicions

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Section III-C: who was away receives everything when it is back.
        if peer not in self.peers.reachable:
            return
        if peer in self.departures.gone:  # it should know
            out.send(peer, Gone(peer, False, [], False), link)
            return
        self.peers.links[peer] = link
        if peer in self.peers.unreached:
            self.on_trust(peer, out)
        self.headers.forget(peer)
        self.own_names.forget_link(peer)
        self.forwarding.send_all_to(peer, out)
        self.replays.replay_to(peer, out)
        self.consultation.on_neighbour_up(peer, out)
        self.substitution.finish_again(peer, out)
        self.processing.keep_repeating(out)
        for gone in self.departures.gone:
            if peer in self.departures.to_tell(gone):
                self.giving_up.tell(gone, peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the paper: only the detector says there whom to send to.
        if self.peers.links.get(peer) == link:
            del self.peers.links[peer]

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Section III-C: the active connections follow the failure detector.
        if peer in self.peers.reachable and peer not in self.peers.suspected:
            self.peers.suspected[peer] = None
            self.forwarding.forget_link(peer)
            self.processing.change_active(out)
            self.replays.replay_all(peer, out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Section III-C, as `on_suspect`.
        self.peers.unreached.pop(peer, None)
        if peer in self.peers.suspected and peer not in self.departures.gone:
            del self.peers.suspected[peer]
            self.processing.change_active(out)

    # Groups

    def refusal(self, group: GroupId, joining: bool) -> str:
        return self.members.refusal(group, self.peers.suspected) if joining else ""

    def joins_at_once(self, group: GroupId) -> bool:
        return group in self.members.admitted  # it left, and messages still lead here

    def asked_for(self) -> list[GroupId]:
        return self.members.asked_for()

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        # Section III-B: subscriptions are messages. When they take effect is not in the paper; see
        # above.
        if self.members.is_news(group):
            self.processing.begin(Subscription(group, self.me, b""), 0, out)
            self.processing.look_again([], out)
        elif group in self.members.withdrawn:
            self._wish(group, True, out)

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        # Not in the paper: who leaves a group goes on passing its messages.
        if self.members.is_open(group):
            self._wish(group, False, out)

    def _wish(self, group: GroupId, wanted: bool, out: Outbox) -> None:
        self.members.wish(group, wanted)
        out.persist(Wish(group, wanted))

    # The only command: a node is gone for good

    def objection(self, command: Command) -> str:
        return self.giving_up.objection(NodeId(command.arguments[0]))

    def preview(self, command: Command) -> list[str]:
        return self.explanations.losses(NodeId(command.arguments[0]))

    def on_command(self, command: Command, out: Outbox) -> None:
        # Not in the paper: there every node that failed comes back.
        self.giving_up.declare_gone(NodeId(command.arguments[0]), out)

    # Surviving a crash

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Section III-C: state is kept in persistent memory. Which state is not in the paper.
        for entry in records:
            self.records.restore(entry, out.now)
        for gone in self.departures.gone:
            if gone in self.peers.reachable:
                self.peers.suspected[gone] = None
        self.peers.refresh()
        self.names.forget_arrived()
        if self.peers.goes_on:
            self.own_names.restore()
        for record in self.log.records:
            for gone in self.departures.gone:
                self.log.close_for(record, gone)
            self.acknowledgements.watch_complete(record)
        for record in list(self.log.records):
            self.processing.collect(record, out)
        self.processing.keep_repeating(out)
        self._look_out(out)

    def snapshot(self) -> list[Message]:
        return self.records.snapshot()

    # What people ask

    def explain(self, message: MessageId) -> list[MessageId]:
        return self.explanations.causes_missing(message)

    def reasons(self, message: MessageId) -> list[str]:
        return self.explanations.reasons(message)

    def conditions(self) -> dict[str, int]:
        return self.explanations.conditions()

    def state_size(self) -> int:
        return self.past.size() + self.log.size() + self.names.size()

    def kept_bytes(self) -> int:
        return self.log.kept_bytes + self.names.kept_bytes()

    def is_idle(self) -> bool:
        """Whether nothing is kept, missing or held, as it must be once everybody has everything."""
        missing = any(
            numbers.extras
            for issuer, numbers in self.past.arrived.items()
            if issuer not in self.departures.given_up
        )
        kept = self.log.records or self.log.size() or self.holdback.copies
        names = not self.names.is_empty() or self.names.mine or self.own_names.owes()
        return not (kept or missing or names) and self.forwarding.is_idle()
