"""Automata: state that changes only inside `on_...` methods.

Each input is a method with an outbox as its last argument; each may be left out. An automaton
knows no clock but `out.now`, no randomness but what its setup gave it, and nobody but its outbox.
"""

from mypy_extensions import mypyc_attr

from causalcast.core.command import Command
from causalcast.core.ids import GroupId, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication, Single
from causalcast.core.outbox import Outbox


@mypyc_attr(allow_interpreted_subclasses=True)
class Automaton:
    """One layer of a node."""

    def on_start(self, out: Outbox) -> None:
        """The node starts for the first time."""

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        """The node starts again, with what this layer had persisted (or its last snapshot)."""

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        """A message of this layer came from `sender` on the current link."""

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        """A timer of this layer ran out."""

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        """A link to `peer` is there; `dialled` if it was us who asked for it."""

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        """The link is gone: `refused` (never came up), `closed` by the peer, or `broken`."""

    def on_suspect(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes `peer` to be down."""

    def on_trust(self, peer: NodeId, out: Outbox) -> None:
        """The detector believes so no longer."""

    def on_neighbour_up(self, peer: NodeId, link: LinkId, newborn: bool, out: Outbox) -> None:
        """The overlay made `peer` a neighbour."""

    def on_neighbour_down(self, peer: NodeId, link: LinkId, out: Outbox) -> None:
        """`peer` is no neighbour any more."""

    def snapshot(self) -> list[Message] | None:
        """The records from which this layer can be rebuilt; None if all its records are needed."""
        return None

    def state_size(self) -> int:
        """How many entries this layer keeps, for the figures on memory."""
        return 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Detector(Automaton):
    """The lowest layer: says who seems to be down, by `out.suspect` and `out.trust`."""

    def on_heard(self, peer: NodeId, out: Outbox) -> None:
        """Something comes from `peer`, though no message for this layer. Real nodes tell this a few
        times a second while a link is busy: beats wait behind what was sent before them."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Overlay(Automaton):
    """The middle layer: says who is a neighbour, by `out.neighbour_up` and `neighbour_down`."""

    def on_join(self, contact: NodeId, out: Outbox) -> None:
        """Enter the overlay through `contact`."""

    def on_leave(self, out: Outbox) -> None:
        """Leave the overlay in good order."""

    def on_switch(self, link: LinkId, out: Outbox) -> None:
        """The multicast asks for another neighbour in place of the one on `link`."""

    def on_settled(self, link: LinkId, out: Outbox) -> None:
        """The multicast says that `link` may be relied on."""

    def on_let_go(self, peer: NodeId, out: Outbox) -> None:
        """The multicast says that `peer` was removed from the system."""

    def on_orphan(self, out: Outbox) -> None:
        """The multicast has no usable link left."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Multicast(Automaton):
    """The top layer: brings publications to the members of their group."""

    def on_publish(self, publication: Publication, out: Outbox) -> None:
        """The application publishes here; the world has numbered the publication."""

    def on_run(
        self, sender: NodeId, first: Single, publications: tuple[Publication, ...], out: Outbox
    ) -> None:
        """Messages came that each continue the one before: `first`, and the same around the other
        publications. Whoever can take them faster together must do what `on_message` does."""
        for publication in publications:
            self.on_message(sender, first.around(publication), out)

    def joins_at_once(self, group: GroupId) -> bool:
        """Whether a node is a member of `group` from the step in which it asks to join it.

        If not, somebody has to admit it. Then `on_join_group` asks for that and keeps over a crash
        that it did, and `out.joined(group)` says when the node is a member.
        """
        return True

    def on_join_group(self, group: GroupId, out: Outbox) -> None:
        """The application becomes a member of `group`, or asks to become one; durable with this
        step's records. What was asked for may be asked for again."""

    def asked_for(self) -> list[GroupId]:
        """The groups that this node has asked to join, and may still be admitted to."""
        return []

    def on_leave_group(self, group: GroupId, out: Outbox) -> None:
        """The application leaves `group`, or no longer wants to join it."""

    def on_command(self, command: Command, out: Outbox) -> None:
        """An operator commands something that the SPEC lists and that nothing speaks against."""

    def objection(self, command: Command) -> str:
        """Why a command cannot be carried out here and now; empty if it can."""
        return ""

    def preview(self, command: Command) -> list[str]:
        """In words what may be lost if it is carried out, as far as this node can tell."""
        return []

    def refusal(self, group: GroupId, joining: bool) -> str:
        """Why the application cannot publish to, or join, a group now; empty if it can."""
        return ""

    def conditions(self) -> dict[str, int]:
        """What an operator watches, as numbers: 1 and 0 for yes and no, or levels."""
        return {}

    def waiting_bytes(self) -> int:
        """Bytes that wait for the neighbour that is furthest behind, of those that are up.

        A real node lets its publishers wait while this is much.
        """
        return 0

    def crowded_by(self, now: int) -> str:
        """What publishers have to wait for, beside bytes, in words; empty if for nothing."""
        return ""

    def kept_bytes(self) -> int:
        """Bytes of messages that are kept because some neighbour lacks them, or may.

        A real node tells its operator when they are many, and lets its publishers wait when they
        are too many.
        """
        return 0

    def kept_for(self) -> dict[NodeId, int]:
        """How many messages each neighbour lacks as far as is known here, to show it to people;
        empty where a protocol cannot tell."""
        return {}

    def furthest(self, origin: NodeId) -> int:
        """The greatest number of `origin` that may come now; -1 if it may be any.

        Numbers are counted over all groups. Only a protocol that brings every publication to every
        node can say more than that.
        """
        return -1

    def agreed_members(self) -> list[NodeId] | None:
        """Who is a member, by the newest agreement that is known here; None where members agree on
        nothing of the kind."""
        return None

    def takes_part(self) -> bool:
        """Whether this node has found its place, and misses nothing from now on."""
        return True

    def explain(self, message: MessageId) -> list[MessageId]:
        """What a held message waits for, as far as ids are known; empty if it is not held here."""
        return []

    def reasons(self, message: MessageId) -> list[str]:
        """The same in words, also where no id says it: a path, an answer, an acknowledgement."""
        return [f"waits for {cause >> 32}.{cause & 0xFFFFFFFF}" for cause in self.explain(message)]
