"""One zone as one of its members sees it: a protocol inside a protocol (sub-automaton).

The hosted protocol gets an outbox of its own; what it asks for is translated: its messages and
records are wrapped, its timers renamed, and what it delivers comes back to the host. It numbers
publications of its own; where it names one of them, the host names the publication inside it.
"""

from typing import Final, final

from causalcast.core.automaton import Multicast
from causalcast.core.effects import (
    CancelTimer,
    CloseLink,
    Deliver,
    Duplicate,
    Effect,
    Hold,
    Note,
    OpenLink,
    Release,
    Send,
    StartTimer,
)
from causalcast.core.ids import NO_MESSAGE, GroupId, LinkId, MessageId, NodeId, message_id
from causalcast.core.message import (
    Envelope,
    Membership,
    Message,
    Publication,
    Wire,
    publications_in,
)
from causalcast.core.outbox import Outbox
from causalcast.protocols.causal_separators.zone_unit import Unit, unpacked

THE_ZONE: Final = GroupId(0)  # the only group a hosted protocol knows


@final
class InZone(Envelope):
    """A message of the protocol of a zone: hand it to that protocol."""

    wire = Wire("hosted_zone.in_zone", zone=int, message=Message)

    def __init__(self, zone: int, message: Message) -> None:
        self.zone = zone
        self.message = message

    def carried(self) -> list[Publication]:
        found = [_unit_in(inner) for inner in publications_in(self.message)]
        return [unit.publication for unit in found if unit is not None and unit.is_publication()]

    def joins(self, sender: NodeId) -> list[Membership]:
        found = [_unit_in(inner) for inner in publications_in(self.message)]
        return [join for unit in found if unit is not None for join in unit.joins()]


@final
class ZoneRecord(Message):
    """Record: the protocol of a zone persisted this."""

    wire = Wire("hosted_zone.record", zone=int, record=Message)

    def __init__(self, zone: int, record: Message) -> None:
        self.zone = zone
        self.record = record


@final
class Numbered(Message):
    """Record: this node has published so many units in a zone."""

    wire = Wire("hosted_zone.numbered", zone=int, published=int)

    def __init__(self, zone: int, published: int) -> None:
        self.zone = zone
        self.published = published


MESSAGES: Final = [Numbered, InZone, ZoneRecord]


@final
class HostedZone:
    """The protocol of one zone, and how many publications of its own this node numbered there."""

    def __init__(
        self, number: int, me: NodeId, automaton: Multicast, neighbours: list[NodeId]
    ) -> None:
        self.number = number
        self.me = me
        self.automaton = automaton
        self.neighbours = dict.fromkeys(neighbours)
        self.published = 0
        self.held: dict[MessageId, MessageId] = {}  # the host's publication -> the zone's
        self._inside = Outbox()

    # What the host calls; each returns the units that were delivered, in their order

    def publish(self, unit: Unit, out: Outbox) -> list[Unit]:
        """Bring a unit to all members of the zone."""
        self.published += 1
        out.persist(Numbered(self.number, self.published))
        mine = message_id(self.me, self.published)
        self.automaton.on_publish(Publication(mine, THE_ZONE, unit.packed()), self._enter(out))
        return self._translate([], out)

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> list[Unit]:
        """A message of the zone's protocol came."""
        # Section 3.4: a subgroup runs any causal protocol.
        self.automaton.on_message(sender, message, self._enter(out))
        return self._translate(publications_in(message), out)

    def on_timer(self, name: str, subject: int, out: Outbox) -> list[Unit]:
        """A timer of the zone's protocol ran out; `name` as the host knows it."""
        # Section 3.4, as `on_message`.
        inside = self._enter(out)
        self.automaton.on_timer(name.removeprefix(self._timer("")), subject, inside)
        return self._translate([], out)

    def on_start(self, out: Outbox) -> list[Unit]:
        """The node starts for the first time."""
        # Section 3.4, as `on_message`.
        self.automaton.on_start(self._enter(out))
        return self._translate([], out)

    def on_recover(self, records: list[Message], out: Outbox) -> list[Unit]:
        """The node starts again; what was delivered before is not delivered again."""
        # Section 3.4, as `on_message`.
        self.automaton.on_recover(records, self._enter(out))
        return self._translate([], out)

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> list[Unit]:
        """A link to a member of the zone is there."""
        # Section 3.4, as `on_message`.
        self.automaton.on_neighbour_up(peer, link, newborn, self._enter(out))
        return self._translate([], out)

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> list[Unit]:
        """It is gone."""
        # Section 3.4, as `on_message`.
        self.automaton.on_neighbour_down(peer, link, self._enter(out))
        return self._translate([], out)

    def has_timer(self, name: str) -> bool:
        """Whether a timer is one of this zone's protocol."""
        return name.startswith(self._timer(""))

    def snapshot(self) -> list[Message] | None:
        """Records for a restart; none if all records are needed."""
        records = self.automaton.snapshot()
        if records is None:
            return None
        wrapped: list[Message] = [ZoneRecord(self.number, record) for record in records]
        return [Numbered(self.number, self.published), *wrapped]

    def reasons(self, message: MessageId) -> list[str]:
        """What a held publication of the host waits for; empty if it is not held here."""
        if message not in self.held:
            return []
        return [f"zone {self.number}: {why}" for why in self.automaton.reasons(self.held[message])]

    # Between the two outboxes

    def _timer(self, name: str) -> str:
        return f"zone{self.number}/{name}"

    def _enter(self, out: Outbox) -> Outbox:
        self._inside.now = out.now
        self._inside.layer = out.layer
        self._inside.tells_duplicates = out.tells_duplicates
        self._inside.world = out.world
        return self._inside

    def _translate(self, arrived: list[Publication], out: Outbox) -> list[Unit]:
        """Ask for all that the hosted protocol asked for; what it delivered comes back."""
        inside = self._inside
        effects = inside.effects
        delivered = [effect.publication for effect in effects if isinstance(effect, Deliver)]
        meant = {
            inner.id: unit.id()
            for inner in [*arrived, *delivered]
            for unit in [_unit_in(inner)]
            if unit is not None and unit.is_publication()
        }
        for effect in effects:
            self._translate_one(effect, meant, out)
        for record in inside.records:
            out.persist(ZoneRecord(self.number, record.message))
        inside.effects, inside.records = [], []
        assert not inside.notices and not inside.requests
        units = [_unit_in(publication) for publication in delivered]
        return [unit for unit in units if unit is not None]

    def _translate_one(
        self, effect: Effect, meant: dict[MessageId, MessageId], out: Outbox
    ) -> None:
        if isinstance(effect, Send):
            out.send(effect.to, InZone(self.number, effect.message), effect.link)
        elif isinstance(effect, StartTimer):
            out.start_timer(self._timer(effect.name), effect.after, effect.subject)
        elif isinstance(effect, CancelTimer):
            out.cancel_timer(self._timer(effect.name), effect.subject)
        elif isinstance(effect, OpenLink):
            out.open_link(effect.to)
        elif isinstance(effect, CloseLink):
            out.close_link(effect.to)
        elif isinstance(effect, Note):
            out.note(effect.name, effect.subject)
        elif isinstance(effect, Duplicate) and effect.message in meant:
            out.duplicate(meant[effect.message])
        elif isinstance(effect, Hold) and effect.message in meant:
            outer = meant[effect.message]
            self.held[outer] = effect.message
            out.hold(outer, NO_MESSAGE, f"zone {self.number}: {effect.words()}")
        elif isinstance(effect, Release) and effect.message in meant:
            outer = meant[effect.message]
            self.held.pop(outer, None)
            out.release(outer)


def _unit_in(publication: Publication) -> Unit | None:
    """The unit that a zone's publication carries; none if a stranger made it up."""
    try:
        return unpacked(publication.body)
    except (IndexError, ValueError):
        return None
