"""What both orders of CPTCast have: links of the tree, who announced what, and who was asked."""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core import LinkId, Message, MessageId, NodeId, Outbox, Setup
from causalcast.parts.push_modes import ROOT, PushModes
from causalcast.parts.safe_links import link_setups
from causalcast.parts.safe_links.links import Delivery, Link, Tokens
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


@final
class Announcements:
    """Who announced what is missing here, and who was asked for it."""

    def __init__(self, settings: Settings, named: dict[LinkId, Link]) -> None:
        self.missing: dict[MessageId, dict[LinkId, int]] = {}  # announcers not asked -> hops
        self.grafted: dict[MessageId, dict[LinkId, None]] = {}  # announcers asked
        self.timed: dict[MessageId, None] = {}
        self._settings = settings
        self._named = named  # all links there are

    def note(self, link: TreeLink, message: MessageId, hops: int, out: Outbox) -> None:
        """Somebody has what is missing here: wait for it, then ask (Alg. 12, l. 6-8)."""
        self.missing.setdefault(message, {})[link.name] = hops
        link.announced[message] = None
        if message not in self.timed:
            self._wait(message, self._settings.graft_after, out)

    def wait_again(self, message: MessageId, out: Outbox) -> None:
        """Ask the next announcer of `message` if it is not here by then."""
        self._wait(message, self._settings.graft_again, out)

    def _wait(self, message: MessageId, after: int, out: Outbox) -> None:
        self.timed[message] = None
        out.start_timer(GRAFT, after, message)

    def ran_out(self, message: MessageId) -> TreeLink | None:
        """The time is over: whom to ask now; nobody if all are gone or were asked."""
        announcers = self.missing.get(message)
        if not announcers:
            return None
        link = self._named[next(iter(announcers))]
        assert isinstance(link, TreeLink)
        return link

    def forget(self, message: MessageId, out: Outbox) -> dict[LinkId, int]:
        """The message is here; who announced it and was not asked comes back."""
        if message in self.timed:
            del self.timed[message]
            out.cancel_timer(GRAFT, message)
        announcers = self.missing.pop(message, {})
        for name in announcers:
            link = self._named[name]
            assert isinstance(link, TreeLink)
            link.announced.pop(message, None)
        return announcers

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

    def link_gone(self, link: TreeLink) -> None:
        """Nobody is to be asked there any more."""
        for message in link.announced:
            announcers = self.missing[message]
            del announcers[link.name]
            if not announcers:
                del self.missing[message]
        for message in [m for m, asked in self.grafted.items() if link.name in asked]:
            self.unmark_grafted(link, message)


@mypyc_attr(allow_interpreted_subclasses=True)
class Order(Tokens):
    """One of the two ways to keep tokens in order, and what both of them have."""

    def __init__(self, setup: Setup, settings: Settings) -> None:
        self.settings = settings
        self.safe = link_setups.safe_links(setup, self)
        self.announcements = Announcements(settings, self.safe.named)

    @abstractmethod
    def on_token(self, link: TreeLink, message: Message, out: Outbox) -> None:
        """A token, or something about one, came (Alg. 11 to 13)."""

    @abstractmethod
    def ask_next(self, message: MessageId, out: Outbox) -> None:
        """An announced message did not come in time."""

    def new_link(self, peer: NodeId, name: LinkId) -> Link:
        return TreeLink(peer, name, PushModes(self.settings.tree, self.settings.most_origins))


def prune(link: TreeLink, message: MessageId, settings: Settings, out: Outbox) -> None:
    """It came twice: neither end pushes messages like it on this link any more."""
    out.duplicate(message)
    if settings.tree == ROOT:
        return  # the next beacon will tell
    if link.safe_out:
        link.modes.make_lazy(message)
    out.send(link.peer, Prune(message), link.name)


def say_that_it_is_here(link: TreeLink, message: MessageId, count: int, out: Outbox) -> None:
    """The peer announced what is here: see to it that it need not keep it for us."""
    if not link.safe_out or count <= link.safe_since:
        out.note("cptcast.have", message)
        out.send(link.peer, Have(message), link.name)
    # else our own token for it was or will be sent on this link, and is evidence enough
