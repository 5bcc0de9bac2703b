"""Joints that open and close while the system runs, as an operator commands.

What is known and what follows from it stands in `zone_knowledge`, how units cross in
`zone_crossing`. Here a server does what is due: it begins to keep, makes the cut, lets the
rest cross, closes; and every node says that it is done when its zone goes and it is in no group.
"""

from collections.abc import Iterator
from typing import final

from causalcast.core.command import Command
from causalcast.core.ids import GroupId, NodeId
from causalcast.core.outbox import Outbox
from causalcast.parts.addressed.reliable_links import ReliableLinks
from causalcast.parts.vector_clock import VectorClock
from causalcast.protocols.causal_separators import zone_crossing, zone_knowledge
from causalcast.protocols.causal_separators.crossing_messages import Closing, Opening
from causalcast.protocols.causal_separators.zone_crossing import ZoneCrossing
from causalcast.protocols.causal_separators.zone_knowledge import (
    JOINING,
    SHUT,
    WORDS,
    ZoneKnowledge,
)
from causalcast.protocols.causal_separators.zone_news import (
    CLOSED,
    CUT,
    DONE,
    DROPPED,
    JOIN,
    PART,
    READY,
    News,
    unpacked_news,
)
from causalcast.protocols.causal_separators.zone_unit import NEWS, Unit

# News to tell, and whether inside this node's zone alone.
ToTell = tuple[News, bool]


@final
class ZoneJoining:
    """What a node does about joints. News to tell are returned: the protocol lets them travel as
    units."""

    def __init__(
        self,
        me: NodeId,
        knowledge: ZoneKnowledge,
        crossings: list[ZoneCrossing],
        links: ReliableLinks,
    ) -> None:
        self.me = me
        self.home = knowledge.home
        self.knowledge = knowledge
        self.crossings = crossings  # the joints that this node serves at
        self.links = links  # to the other servers

    # What an operator says

    def objection(self, command: Command) -> str:
        """Why a command cannot be carried out here and now; empty if it can."""
        joint = self._joint_of(command)
        if joint is None:
            one, other = command.arguments
            return f"the plan has no joint of zones {one} and {other}"
        if self.knowledge.map.is_daisy:
            return "the zones of a daisy share nodes, and cannot be parted"
        verb = command.name
        one, other = self.knowledge.map.joints[joint].zones
        known, far = self.knowledge.joints[joint], self.knowledge.map.far_side(joint)
        if self.home not in (one, other) or (verb == "part" and self.home != far):
            zones = [far] if verb == "part" else [one, other]
            nodes = [str(node) for z in zones for node in self.knowledge.map.zones[z].members]
            return f"say it to one of the nodes {', '.join(nodes)}"
        fits = {"join": known.level == SHUT, "drop": known.level != SHUT}
        if not fits.get(verb, known.level == zone_knowledge.OPEN):
            return f"the joint of zones {one} and {other} is {WORDS[known.level]}"
        return ""

    def news_of(self, command: Command) -> ToTell:
        """What to tell so that a command is carried out."""
        joint = self._joint_of(command)
        assert joint is not None
        epoch = self.knowledge.joints[joint].epoch
        if command.name == "join":
            return News(JOIN, joint, epoch + 1), True
        return News(PART if command.name == "part" else DROPPED, joint, epoch), False

    def _joint_of(self, command: Command) -> int | None:
        one, other = command.arguments
        return self.knowledge.map.joint_of((one, other))

    def preview(self, command: Command) -> list[str]:
        """What may be lost by a command, as far as this node can tell."""
        joint = self._joint_of(command)
        if command.name != "drop" or joint is None:
            return []
        zones = ", ".join(str(zone) for zone in self.knowledge.behind(joint))
        found = [f"nodes of zone {zones} miss what is published until they join groups again"]
        for crossing in self.crossings:
            if crossing.number == joint and crossing.outgoing.kept:
                many = len(crossing.outgoing.kept)
                found.append(f"{many} publications that servers of zone {crossing.there} may lack")
        return found

    # What is due

    def hear(self, origin: NodeId, news: News) -> None:
        """Something happened to a joint."""
        self.knowledge.hear(origin, news)
        for crossing in self.crossings:
            if (crossing.number, crossing.epoch) == (news.joint, news.epoch):
                if news.what == CLOSED and crossing.here == self._far_side(crossing):
                    crossing.sealed = True  # whoever closed had heard of all that they are done
                elif news.what == DROPPED:
                    crossing.dropped = True

    def _far_side(self, crossing: ZoneCrossing) -> int:
        return self.knowledge.map.far_side(crossing.number)

    def due(self, seen: VectorClock, groups: dict[GroupId, None], out: Outbox) -> Iterator[ToTell]:
        """Do what is due about joints, now that everything delivered is counted.

        What is to be told must be told before the next is asked for: more may follow from it.
        `seen`: what was delivered here; `groups`: those that the application is in.
        """
        for joint in self.knowledge.parting():
            known = self.knowledge.joints[joint]
            if not groups and self.me not in known.done:
                yield News(DONE, joint, known.epoch), False
        for crossing in self.crossings:
            self._seal(crossing)
            if crossing.dropped and crossing.phase != zone_crossing.CLOSED:
                yield from self._drop(crossing, out)
            elif crossing.is_emptied():
                yield from self._close(crossing, out)
            known = self.knowledge.joints[crossing.number]
            is_news = known.epoch > crossing.epoch and known.level != SHUT
            if is_news and crossing.phase == zone_crossing.CLOSED:
                yield self._prepare(crossing, known.epoch, out)
            yield from self._cut_if_all_are_ready(crossing, seen)

    def _seal(self, crossing: ZoneCrossing) -> None:
        known = self.knowledge.joints[crossing.number]
        parting = crossing.epoch == known.epoch and known.level == zone_knowledge.PARTING
        if parting and crossing.here == self._far_side(crossing):
            crossing.sealed = crossing.sealed or not self.knowledge.awaited(crossing.number)

    def _drop(self, crossing: ZoneCrossing, out: Outbox) -> list[ToTell]:
        """Close at once, and tell everybody who does not know."""
        out.note("causal_separators.dropped", crossing.there)
        self.links.give_up(crossing.partners, out)
        out.persist(crossing.close())
        self.links.send(crossing.partners, Closing(crossing.epoch, True), out)
        return self._if_news(DROPPED, crossing)

    def _close(self, crossing: ZoneCrossing, out: Outbox) -> list[ToTell]:
        """All that had to cross has."""
        out.note("causal_separators.parted", crossing.there)
        out.persist(crossing.close())
        self.links.send(crossing.partners, Closing(crossing.epoch, False), out)
        return self._if_news(CLOSED, crossing)

    def _if_news(self, what: int, crossing: ZoneCrossing) -> list[ToTell]:
        known = self.knowledge.joints[crossing.number]
        is_news = (known.epoch, known.level) < (crossing.epoch, SHUT)
        return [(News(what, crossing.number, crossing.epoch), False)] if is_news else []

    def _prepare(self, crossing: ZoneCrossing, epoch: int, out: Outbox) -> ToTell:
        """Keep what is to cross, and say so in this zone and over there."""
        out.note("causal_separators.joining", crossing.there)
        out.persist(crossing.begin(epoch))
        self.links.send(crossing.partners, Opening(epoch), out)
        return News(READY, crossing.number, epoch), True

    def _cut_if_all_are_ready(self, crossing: ZoneCrossing, seen: VectorClock) -> list[ToTell]:
        known = self.knowledge.joints[crossing.number]
        if crossing.phase != zone_crossing.KEEPING or crossing.epoch != known.epoch:
            return []
        if self.me == crossing.servers[-1] and all(s in known.ready for s in crossing.servers):
            return [(self.knowledge.cut(crossing.number, crossing.here, dict(seen)), False)]
        return []

    def let_leave(self, crossing: ZoneCrossing, unit: Unit) -> bool:
        """A unit is to cross; true if it is the cut with which crossing begins."""
        news = news_in(unit)
        if news is not None and news.what == CUT and news.side == crossing.here:
            awaited = crossing.phase == zone_crossing.KEEPING
            if awaited and (news.joint, news.epoch) == (crossing.number, crossing.epoch):
                crossing.open(unit, news.counts)
                return True
        if not self._is_done(crossing, unit, news):
            crossing.leave(unit)
        return False

    def _is_done(self, crossing: ZoneCrossing, unit: Unit, news: News | None) -> bool:
        """Whether a unit need not cross because its origin had said that it is done; all servers
        decide alike."""
        known = self.knowledge.joints[crossing.number]
        if unit.origin not in known.done or known.epoch != crossing.epoch:
            return False
        return news is None or (news.what, news.joint) != (DONE, crossing.number)

    def on_turn(self, crossing: ZoneCrossing, sender: NodeId, turn: Opening | Closing) -> None:
        """A server at the other side opened or closed."""
        # Not in the papers: joints that open and close.
        if isinstance(turn, Closing):
            crossing.on_closing(sender, turn)
        else:
            crossing.on_opening(sender, turn.epoch)
            self.knowledge.joints[crossing.number].rise(turn.epoch, JOINING)

    def refuse_if_dropped(
        self, crossing: ZoneCrossing, sender: NodeId, turn: Opening, out: Outbox
    ) -> None:
        """A server opens a joint that was dropped here before: tell it that it is closed."""
        known = self.knowledge.joints[crossing.number]
        is_over = (turn.epoch, SHUT) <= (known.epoch, known.level)
        if is_over and crossing.epoch != turn.epoch:  # else it was told when it was dropped
            self.links.send([sender], Closing(turn.epoch, True), out)

    # For people

    def refusal(self, group: GroupId, joining: bool) -> str:
        """Why the application cannot publish to, or join, a group now; empty if it can."""
        if joining and self.knowledge.parting():
            return "its zone is being parted, and whoever is in a group would keep it"
        return self.knowledge.refusal(group)

    def conditions(self) -> dict[str, int]:
        """The level of each joint: 0 joining, 1 open, 2 parting, 3 closed."""
        return {
            f"joint_{joint.zones[0]}_{joint.zones[1]}": known.level
            for joint, known in zip(self.knowledge.map.joints, self.knowledge.joints, strict=True)
        }


def news_in(unit: Unit) -> News | None:
    """The news of zones that a unit carries; none if it carries something else."""
    if unit.kind != NEWS:
        return None
    try:
        return unpacked_news(unit.publication.body)
    except (IndexError, ValueError):
        return None
