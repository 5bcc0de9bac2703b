"""Delta-Neighbourhood: localized, no duplicates, FIFO, one publication under way per publisher.

R. Kazemzadeh, H.-A. Jacobsen, "Partition-tolerant distributed publish/subscribe systems", 2011, as
V. Santos tells it in "Localized Reliable Causal Multicast", 2019 (sections II and IV-B), and
compares it with LoCaMu.

The overlay is a tree, and nodes keep links to everybody within delta+1 hops, so that up to delta
nodes in a row can be skipped. A node confirms a copy when everybody behind it has confirmed; so the
publisher hears when its publication is everywhere, and only then starts the next. That keeps FIFO
order and lets a node recognise duplicates by the last number of each publisher. It also limits a
publisher to one publication per round trip to the furthest node: 1 / (2 · eccentricity · latency).

What is promised: nothing is created or delivered twice, and never an older publication of a
publisher after a newer one. Who was skipped may miss publications. There is no causal order.

Where we differ from the papers, and why
- They say nothing about a skipped node that comes back. With `keep` a node goes on holding what
  it skipped somebody with, and sends it when that one is back; the publisher does not wait for it.
  It may come after a newer publication that took another way, and is then ignored as too old.
- The last number of each publisher is kept for ever: a copy that arrives late must be recognised.
- Groups are those of the start; who joins later gets what passes it by.
"""

from typing import Final

from causalcast.core import (
    MILLISECOND,
    GroupId,
    LinkId,
    Message,
    MessageId,
    Multicast,
    Needs,
    NodeId,
    Option,
    Outbox,
    ProtocolSpec,
    Publication,
    Setup,
    Wire,
    number_of,
    origin_of,
)
from causalcast.core.spec import OptionValue
from causalcast.limits import Limit
from causalcast.parts.kept_weight import KEPT_OVERHEAD
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood

REPEAT: Final = "repeat"
LATE: Final = Limit(
    "protocols.delta_neighbourhood.late",
    4,
    least=1,
    most=64,
    unit="times",
    about="`repeat_after`, before something is repeated on links that lose nothing",
)


class Copy(Message):
    """A publication, one hop further: deliver it, pass it on, and confirm when all have it."""

    wire = Wire("delta_neighbourhood.copy", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Confirm(Message):
    """Tell who sent a copy that everybody here and behind has it."""

    wire = Wire("delta_neighbourhood.confirm", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class Queued(Message):
    """Record: published here, to be started when the one before is everywhere."""

    wire = Wire("delta_neighbourhood.queued", publication=Publication)

    def __init__(self, publication: Publication) -> None:
        self.publication = publication


class Started(Message):
    """Record: this publication was delivered here and is being passed on."""

    wire = Wire("delta_neighbourhood.started", publication=Publication, back=int)

    def __init__(self, publication: Publication, back: int) -> None:
        self.publication = publication
        self.back = back


class Finished(Message):
    """Record: nobody behind this node is waited for any more."""

    wire = Wire("delta_neighbourhood.finished", message=MessageId)

    def __init__(self, message: MessageId) -> None:
        self.message = message


class LastNumbers(Message):
    """Record of a snapshot: the last number of each publisher that was delivered here."""

    wire = Wire("delta_neighbourhood.last_numbers", last=dict[NodeId, int])

    def __init__(self, last: dict[NodeId, int]) -> None:
        self.last = last


class Passage:
    """A publication that is being passed on."""

    def __init__(self, publication: Publication, back: NodeId) -> None:
        self.publication = publication
        self.back = back  # the neighbour towards the publisher
        self.open: dict[NodeId, None] = {}  # sent to, not confirmed
        self.skipped: dict[NodeId, None] = {}  # believed to be down when it passed
        self.confirm_to: dict[NodeId, None] = {}
        self.is_confirmed = False


class DeltaNeighbourhood(Multicast):
    """Publications being passed on, and the last number of each publisher."""

    def __init__(self, setup: Setup, around: Neighbourhood) -> None:
        self.me = setup.me
        self.around = around
        self.reach = setup.number("delta") + 1
        self.keeps = setup.flag("keep")
        self.repeat_after = setup.number("repeat_after")
        self.reachable = dict.fromkeys(around.within(self.reach))
        self._surroundings = setup.topology
        self._routes: dict[GroupId, list[NodeId]] = {}
        # Survives a crash.
        self.queue: list[Publication] = []
        self.passages: dict[MessageId, Passage] = {}
        self.last: dict[NodeId, int] = {}
        self._kept_bytes = 0  # what waits or is passed on, roughly
        # Does not.
        self.suspected: dict[NodeId, None] = {}
        self.links: dict[NodeId, LinkId] = {}
        self._repeats = False

    # Publishing, one at a time

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        # Santos, section IV-B: nothing new is sent before the last publication was received.
        self._enqueue(publication)
        out.persist(Queued(publication))
        self._start_next(out)

    def _enqueue(self, publication: Publication) -> None:
        self.queue.append(publication)
        self._kept_bytes += _weight(publication)

    def _dequeue(self) -> Publication:
        publication = self.queue.pop(0)
        self._kept_bytes -= _weight(publication)
        return publication

    def kept_bytes(self) -> int:
        return self._kept_bytes

    def _start_next(self, out: Outbox) -> None:
        """Start own publications one after another: the next when none is under way."""
        while self.queue and not self._is_busy():
            self._start(self._dequeue(), NOBODY, NOBODY, out)

    def _is_busy(self) -> bool:
        return any(
            passage.back == NOBODY and not passage.is_confirmed
            for passage in self.passages.values()
        )

    # Passing on

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        # Santos, section IV-B: the publisher waits for confirmations. How they travel is not in the
        # papers: from the leaves back along the tree.
        if sender not in self.reachable:
            out.note("delta_neighbourhood.stranger", sender)
        elif isinstance(message, Copy):
            self._on_copy(sender, message.publication, out)
        elif isinstance(message, Confirm):
            passage = self.passages.get(message.message)
            if passage is not None:
                passage.open.pop(sender, None)
                self._finish(passage, out)
                self._start_next(out)

    def _on_copy(self, sender: NodeId, publication: Publication, out: Outbox) -> None:
        # Not in the papers beyond section IV-B: with one publication of a publisher under way, its
        # last number tells what is new.
        if number_of(publication.id) > self.last.get(origin_of(publication.id), 0):
            self._start(publication, self.around.hop(self.me, sender), sender, out)
            return
        out.duplicate(publication.id)
        passage = self.passages.get(publication.id)
        if passage is None or passage.is_confirmed:
            self._tell(sender, Confirm(publication.id), out)
        else:
            passage.confirm_to[sender] = None

    def _start(self, publication: Publication, back: NodeId, sender: NodeId, out: Outbox) -> None:
        out.persist(Started(publication, back))
        out.deliver(publication)
        passage = self._restart(publication, back)
        if sender != NOBODY:
            passage.confirm_to[sender] = None
        self._pass_on(passage, out)
        self._finish(passage, out)

    def _restart(self, publication: Publication, back: NodeId) -> Passage:
        """Remember a publication that is being passed on; `_pass_on` finds its targets."""
        passage = Passage(publication, back)
        self.passages[publication.id] = passage
        self._kept_bytes += _weight(publication)
        self.last[origin_of(publication.id)] = number_of(publication.id)
        return passage

    def _pass_on(self, passage: Passage, out: Outbox) -> None:
        """Send to the first live node on every way, and remember whom that skips."""
        for node in self._led_to(passage):
            if node in passage.open:
                continue
            before = self.around.between(self.me, node)
            if any(between not in self.suspected for between in before):
                continue
            if node in self.suspected:
                passage.skipped[node] = None
            else:
                self._open(passage, node, out)

    def _open(self, passage: Passage, node: NodeId, out: Outbox) -> None:
        passage.skipped.pop(node, None)
        passage.open[node] = None
        self._tell(node, Copy(passage.publication), out)
        self._keep_repeating(out)

    def _led_to(self, passage: Passage) -> list[NodeId]:
        group = passage.publication.group
        routes = self._routes.get(group)
        if routes is None:
            routes = [node for node in self.reachable if self._surroundings.behind(node, group)]
            self._routes[group] = routes
        return [node for node in routes if self.around.hop(self.me, node) != passage.back]

    def _finish(self, passage: Passage, out: Outbox) -> None:
        """Confirm once all behind have it; forget it once nobody is waited for.

        The caller has to call `_start_next` at the end: the next of this node's own may begin then.
        """
        if passage.open:
            return
        message = passage.publication.id
        for node in passage.confirm_to:
            self._tell(node, Confirm(message), out)
        passage.confirm_to = {}
        passage.is_confirmed = True
        if not (self.keeps and passage.skipped):
            self._end(message)
            out.persist(Finished(message))

    def _end(self, message: MessageId) -> None:
        passage = self.passages.pop(message, None)
        if passage is not None:
            self._kept_bytes -= _weight(passage.publication)

    # Links, suspicions, time

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        # Santos, section II: redundant paths lead around a node that failed.
        if peer not in self.reachable or peer in self.suspected:
            return
        self.suspected[peer] = None
        for passage in list(self.passages.values()):
            if peer in passage.open:
                del passage.open[peer]
                self._pass_on(passage, out)
                self._finish(passage, out)
        self._start_next(out)

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        # Not in the papers: they leave open what becomes of a skipped node that is back.
        if peer in self.suspected:
            del self.suspected[peer]
            for passage in self.passages.values():
                if peer in passage.skipped:
                    self._open(passage, peer, out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        # Not in the papers: a link is given there. What was sent on the last one may be lost.
        if peer in self.reachable:
            self.links[peer] = link
            self._send_open(peer, out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        # Not in the papers: a link is given there.
        if self.links.get(peer) == link:
            del self.links[peer]

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Not in the papers: links there lose nothing, and here a crash loses what is under way.
        assert name == REPEAT
        self._repeats = False
        for peer in self.reachable:
            if peer not in out.world.congested:  # such a link has not lost what it was given
                self._send_open(peer, out)
        self._keep_repeating(out)

    def _send_open(self, peer: NodeId, out: Outbox) -> None:
        for passage in self.passages.values():
            if peer in passage.open:
                self._tell(peer, Copy(passage.publication), out)

    def _keep_repeating(self, out: Outbox) -> None:
        if not self._repeats and any(passage.open for passage in self.passages.values()):
            self._repeats = True
            # Who answers late is busy, where nothing is lost.
            late = LATE.value if out.world.links_lose_nothing else 1
            out.start_timer(REPEAT, late * self.repeat_after)

    def _tell(self, node: NodeId, message: Message, out: Outbox) -> None:
        if node in self.links:
            out.send(node, message, self.links[node])

    # Surviving a crash

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        # Not in the papers: what a node keeps over a crash is left open.
        for record in records:
            if isinstance(record, Queued):
                self._enqueue(record.publication)
            elif isinstance(record, Started):
                if record.back == NOBODY:  # it began when the one before was everywhere
                    for passage in self.passages.values():
                        passage.is_confirmed = passage.is_confirmed or passage.back == NOBODY
                self._restart(record.publication, NodeId(record.back))
                if self.queue and self.queue[0].id == record.publication.id:
                    self._dequeue()
            elif isinstance(record, Finished):
                self._end(record.message)
            else:
                assert isinstance(record, LastNumbers)
                self.last.update(record.last)
        for passage in list(self.passages.values()):
            self._pass_on(passage, out)
            self._finish(passage, out)
        self._start_next(out)

    def snapshot(self) -> list[Message]:
        records: list[Message] = [
            Started(passage.publication, passage.back) for passage in self.passages.values()
        ]
        records.append(LastNumbers(dict(self.last)))
        records += [Queued(publication) for publication in self.queue]
        return records

    def state_size(self) -> int:
        return len(self.last) + len(self.passages) + len(self.queue)


def _weight(publication: Publication) -> int:
    return KEPT_OVERHEAD + len(publication.body)


def build(setup: Setup) -> DeltaNeighbourhood:
    ball = setup.topology.ball(setup.number("delta") + 1)
    return DeltaNeighbourhood(setup, Neighbourhood(setup.me, ball))


def tolerates(down: list[NodeId], setup: Setup) -> bool:
    return True  # integrity holds whoever is away; who was skipped may miss something


def reach(options: dict[str, OptionValue]) -> int:
    delta = options["delta"]
    assert isinstance(delta, int)
    return delta + 1


def last_numbers_cover_passages(multicast: Multicast) -> bool:
    """What is being passed on was delivered, so a further copy is recognised."""
    assert isinstance(multicast, DeltaNeighbourhood)
    return all(
        number_of(message) <= multicast.last.get(origin_of(message), 0)
        for message in multicast.passages
    )


def one_under_way_each(multicast: Multicast) -> bool:
    """Of its own publications a node has at most one that is not everywhere."""
    assert isinstance(multicast, DeltaNeighbourhood)
    own = [p for p in multicast.passages.values() if p.back == NOBODY and not p.is_confirmed]
    return len(own) <= 1


def nothing_is_under_way(multicast: Multicast) -> bool:
    assert isinstance(multicast, DeltaNeighbourhood)
    return not multicast.passages and not multicast.queue


SPEC = ProtocolSpec(
    name="delta_neighbourhood",
    summary="Localized FIFO multicast over a tree, one at a time (Kazemzadeh, Jacobsen).",
    build=build,
    messages=[Copy, Confirm, Queued, Started, Finished, LastNumbers],
    guarantees=["no_creation", "no_duplication", "validity"],
    options=[
        Option(
            "delta",
            1,
            "how many nodes in a row can be skipped",
            least=1,
            change_if="more than one node in a row may be down",
        ),
        Option(
            "keep",
            True,
            "hold publications for nodes that were skipped until they are back",
            change_if="who was away need not get what it missed",
        ),
        Option(
            "repeat_after",
            250 * MILLISECOND,
            # Well above a round trip across a continent, so that repetitions mean loss.
            "send a publication again if its confirmation takes longer than this",
            unit="ms",
            change_if="a round trip takes longer than a quarter of a second",
        ),
    ],
    needs=Needs(overlay="tree", links="reliable", detector=True),
    restart="resume",
    offers=["new_groups"],
    tolerates=tolerates,
    invariants=[last_numbers_cover_passages, one_under_way_each],
    at_rest=[nothing_is_under_way],
    cost="origin and number: about 10 bytes, whatever the number of nodes",
    reach=reach,
    late_members=False,
)
