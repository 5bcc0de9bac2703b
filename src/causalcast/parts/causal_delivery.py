"""Holds publications until their causes were delivered.

Each held publication stands in the queue of exactly one message it lacks; only when that one is
delivered is it looked at again. So a member that lags costs a look per held message and missing
cause, never a scan of everything that is held.
"""

from typing import Final, final

from causalcast.core.ids import MessageId, NodeId, message_id, number_of, origin_of
from causalcast.core.message import Publication
from causalcast.parts.vector_clock import VectorClock

NOTHING: Final = MessageId(-1)


@final
class Held:
    """A publication that may have to wait, and the causes it needs."""

    def __init__(self, publication: Publication, needs: VectorClock) -> None:
        self.publication = publication
        self.needs = needs


@final
class CausalDelivery:
    """What was delivered, per origin, and what is held for which missing message."""

    def __init__(self) -> None:
        self.delivered: VectorClock = {}
        self._waiting: dict[MessageId, list[Held]] = {}
        self._waits_for: dict[MessageId, MessageId] = {}

    def passes(self, publication: Publication, needs: VectorClock) -> bool:
        """Count `publication` as delivered if it lacks nothing and nothing waits for it.

        Most publications are like that, and this is all there is to do about them; for any other
        nothing happens here, and `arrive` has to be asked.
        """
        identity = publication.id
        if self._waiting and identity in self._waiting:
            return False
        delivered = self.delivered
        origin = origin_of(identity)
        number = number_of(identity)
        if delivered.get(origin, 0) != number - 1:
            return False
        for node, count in needs.items():
            if delivered.get(node, 0) < count:
                return False
        delivered[origin] = number
        return True

    def is_next(self, first: MessageId, needs: VectorClock) -> bool:
        """Whether `first` and those that follow it lack nothing, and nothing waits for anything."""
        delivered = self.delivered
        if self._waiting or delivered.get(origin_of(first), 0) + 1 != number_of(first):
            return False
        return all(delivered.get(node, 0) >= count for node, count in needs.items())

    def arrive(self, publication: Publication, needs: VectorClock) -> list[Held]:
        """What may be delivered now that `publication` is here, causes before effects.

        `needs` counts, per origin, the publications that must be delivered before; the earlier
        ones of its own origin are implied. Each publication may arrive once.
        """
        held = Held(publication, needs)
        missing = self._missing(held)
        if missing != NOTHING:
            self._hold(held, missing)
            return []
        ready = [held]
        self._count(publication)
        for delivered in ready:  # grows while we walk it
            for waiting in self._waiting.pop(delivered.publication.id, []):
                missing = self._missing(waiting)
                if missing != NOTHING:
                    self._hold(waiting, missing)
                else:
                    del self._waits_for[waiting.publication.id]
                    self._count(waiting.publication)
                    ready.append(waiting)
        return ready

    def waits_for(self, message: MessageId) -> MessageId:
        """The message whose delivery a held one waits for; `NOTHING` if it is not held."""
        return self._waits_for.get(message, NOTHING)

    def held(self) -> list[Held]:
        """Everything that waits."""
        return [held for queue in self._waiting.values() for held in queue]

    def _missing(self, held: Held) -> MessageId:
        """The first cause of `held` that was not delivered yet."""
        delivered = self.delivered
        origin = origin_of(held.publication.id)
        before = number_of(held.publication.id) - 1
        if delivered.get(origin, 0) < before:
            return message_id(origin, before)
        for node, count in held.needs.items():
            if delivered.get(node, 0) < count:
                return message_id(node, count)
        return NOTHING

    def _hold(self, held: Held, missing: MessageId) -> None:
        self._waiting.setdefault(missing, []).append(held)
        self._waits_for[held.publication.id] = missing

    def _count(self, publication: Publication) -> None:
        origin: NodeId = origin_of(publication.id)
        self.delivered[origin] = number_of(publication.id)
