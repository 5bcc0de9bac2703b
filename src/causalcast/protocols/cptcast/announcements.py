"""What both orders of CPTCast share: links of the tree, who announced what, and who was asked."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core import LinkId, Message, MessageId, NodeId, Outbox, Setup
from causalcast.parts.push_modes import ROOT, PushModes
from causalcast.parts.safe_links.links import Delivery, Link, SafeLinkMulticast
from causalcast.parts.safe_links.safe_path_setup import Control
from causalcast.protocols.cptcast.messages import Have, Prune

GRAFT: Final = "graft"
BEST: Final = "best"  # a tree that depends on the order


@final
class Waiting:
    """What waits at the sender: a message for its graft, or a control message for its turn."""

    def __init__(self, delivery: Delivery | None, control: Message | None, told: bool) -> None:
        self.delivery = delivery
        self.control = control
        self.told = told  # announced already


@final
class Stalled:
    """A token that came before something it must follow: announced, with payload, or done."""

    def __init__(self, message: MessageId, delivery: Delivery | None, control: Control | None):
        self.message = message
        self.delivery = delivery
        self.control = control
        self.done = False


class TreeLink(Link):
    """A link and its place in the tree."""

    def __init__(self, peer: NodeId, name: LinkId, modes: PushModes) -> None:
        super().__init__(peer, name)
        self.modes = modes
        self.announced: dict[MessageId, None] = {}  # by the peer, not grafted
        # Order kept by the sender
        self.queue: list[Waiting] = []
        # Order kept by the receiver
        self.kept: dict[MessageId, Delivery] = {}  # announced to the peer, may be grafted
        self.stalled: list[Stalled] = []  # the peer's tokens from the first that cannot be taken
        self.lacking: dict[MessageId, Stalled] = {}  # those of them that are not done
        self.late: dict[MessageId, None] = {}  # grafted, then delivered from elsewhere

    def burden(self) -> int:
        return len(self.owed) + len(self.queue) + len(self.kept) + len(self.stalled)

    def idle(self) -> bool:
        """Nothing is on its way or kept back."""
        waiting = self.queue or self.kept or self.stalled or self.lacking
        return not (waiting or self.announced or self.late)


@final
class Settings:
    """The options of the protocol."""

    def __init__(self, setup: Setup) -> None:
        self.order = setup.text("order")
        self.tree = setup.text("tree")
        if self.tree == BEST:
            self.tree = ROOT if self.order == "receiver" else "shared"
        self.most_origins = setup.number("most_origins")
        self.graft_after = setup.number("graft_after")
        self.graft_again = setup.number("graft_again")
        self.beacon_every = setup.number("beacon_every")


@mypyc_attr(allow_interpreted_subclasses=True)
class CptCast(SafeLinkMulticast):
    """What both orders share: who announced what, and whom we asked for it."""

    def __init__(self, me: NodeId, newcomer: bool, settings: Settings) -> None:
        super().__init__(me, newcomer)
        self.settings = settings
        self.missing: dict[MessageId, dict[LinkId, int]] = {}  # announcers not asked -> hops
        self.grafted: dict[MessageId, dict[LinkId, None]] = {}  # announcers asked
        self.timed: dict[MessageId, None] = {}

    def new_link(self, peer: NodeId, name: LinkId) -> Link:
        return TreeLink(peer, name, PushModes(self.settings.tree, self.settings.most_origins))

    # Announcements

    def note_announcement(self, link: TreeLink, message: MessageId, hops: int, out: Outbox) -> None:
        """Somebody has what we lack: wait for it, then ask."""
        self.missing.setdefault(message, {})[link.name] = hops
        link.announced[message] = None
        if message not in self.timed:
            self.start_waiting(message, self.settings.graft_after, out)

    def start_waiting(self, message: MessageId, after: int, out: Outbox) -> None:
        """Ask for `message` if it is not here by then."""
        self.timed[message] = None
        out.start_timer(GRAFT, after, message)

    def forget_announcements(self, message: MessageId, out: Outbox) -> dict[LinkId, int]:
        """The message is here; who announced it and was not asked comes back."""
        if message in self.timed:
            del self.timed[message]
            out.cancel_timer(GRAFT, message)
        announcers = self.missing.pop(message, {})
        for name in announcers:
            link = self.named[name]
            assert isinstance(link, TreeLink)
            link.announced.pop(message, None)
        return announcers

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        # Alg. 12, l. 12-17: it ran out, ask the next announcer.
        if name == GRAFT:
            self._ask_next(MessageId(subject), out)
        else:
            super().on_timer(name, subject, out)

    def _ask_next(self, message: MessageId, out: Outbox) -> None:
        self.timed.pop(message, None)
        if self.has_payload(message):
            self.start_waiting(message, self.settings.graft_again, out)
            return
        announcers = self.missing.get(message)
        if not announcers:
            return  # all are gone or were asked
        link = self.named[next(iter(announcers))]
        assert isinstance(link, TreeLink)
        self.graft(link, message, out)
        self.start_waiting(message, self.settings.graft_again, out)

    def has_payload(self, message: MessageId) -> bool:
        """Whether the payload is here and only waits for its turn."""
        return False

    def graft(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """Ask an announcer for what it announced."""
        raise AssertionError("an order must know what a graft asks for")

    def mark_grafted(self, link: TreeLink, message: MessageId) -> None:
        """The announcer is asked, and no longer to be asked."""
        del link.announced[message]
        announcers = self.missing[message]
        del announcers[link.name]
        if not announcers:
            del self.missing[message]
        self.grafted.setdefault(message, {})[link.name] = None

    def unmark_grafted(self, link: TreeLink, message: MessageId) -> None:
        """The payload came from there."""
        asked = self.grafted.get(message)
        if asked is not None:
            asked.pop(link.name, None)
            if not asked:
                del self.grafted[message]

    def link_gone(self, link: Link, out: Outbox) -> None:
        assert isinstance(link, TreeLink)
        for message in link.announced:
            announcers = self.missing[message]
            del announcers[link.name]
            if not announcers:
                del self.missing[message]
        for message in [m for m, asked in self.grafted.items() if link.name in asked]:
            self.unmark_grafted(link, message)

    # What is common to the tokens of both orders

    def prune(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """It came twice: neither end pushes messages like it on this link any more."""
        out.duplicate(message)
        if self.settings.tree == ROOT:
            return  # the next beacon will tell
        if link.safe_out:
            link.modes.make_lazy(message)
        out.send(link.peer, Prune(message), link.name)

    def on_announced_known(
        self, link: TreeLink, message: MessageId, count: int, out: Outbox
    ) -> None:
        """The peer announced what is here: see to it that it need not keep it for us."""
        # Alg. 12, l. 9-11, and Alg. 14, l. 11; `Have` is not in the paper (E8, E15).
        if link.safe_out:
            self.peer_has(link, message, out)
        if not link.safe_out or count <= link.safe_since:
            out.note("cptcast.have", message)
            out.send(link.peer, Have(message), link.name)
        # else our own token for it was or will be sent on this link, and is evidence enough

    def on_skip(self, link: TreeLink, message: MessageId, out: Outbox) -> None:
        """The peer has it and will not send it."""
        # Alg. 13, l. 22-25: evidence, which the thesis sends as an announcement.
        link.owed.pop(message, None)
        if link.safe_out:
            self.peer_has(link, message, out)

    def state_size(self) -> int:
        kept = 0
        for link in self.links.values():
            assert isinstance(link, TreeLink)
            kept += len(link.queue) + len(link.kept) + len(link.stalled) + link.modes.size()
        return super().state_size() + kept + len(self.missing) + len(self.grafted)
