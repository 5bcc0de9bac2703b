"""Open mesh: everybody is linked with everybody, and nobody has to be listed anywhere.

A newcomer needs one contact. Two nodes that are linked tell one another whom they know, so names of
newcomers spread along the links that there are, and everybody dials everybody it has heard of. For
some ten or hundred nodes; each keeps a link to all others.

Not from a paper. The rules that are not plain:

- Names are told again until they are confirmed, for a message may be lost.
- Of two nodes that know one another the one with the greater id dials at once, the other one after
  a pause. So dials seldom cross, and a node whose name has not reached the other end is linked all
  the same.
- A name is only hearsay until there was a link. One that never answers is dialled ever more
  seldom: names are cheap to make up.
- Who was removed (`out.let_go`) is not dialled any more. It may dial, and is taken as a neighbour:
  somebody has to tell it that it was removed.
"""

from typing import Final, final

from causalcast.core import LinkId, Message, NodeId, Option, Outbox, Overlay, OverlaySpec, Setup
from causalcast.core.duration import MILLISECOND
from causalcast.core.message import Wire
from causalcast.limits import Limit

DIAL: Final = "dial"
TELL: Final = "tell"
MOST_NODES: Final = Limit(
    "overlays.open_mesh.most_nodes",
    1024,
    least=64,
    most=1 << 16,
    unit="nodes",
    about="nodes that one knows of; further names are not taken in",
)
LONGEST_PAUSE: Final = Limit(
    "overlays.open_mesh.longest_pause",
    32,
    least=1,
    most=1024,
    unit="times",
    about="the longest pause before a dial, or before names are told again, in first pauses",
)
LONGEST_ON_HEARSAY: Final = Limit(
    "overlays.open_mesh.longest_on_hearsay",
    1024,
    least=32,
    most=1 << 16,
    unit="times",
    about="the same before a dial to a node that there never was a link to",
)


class Known(Message):
    """Names of nodes that its sender knows: dial those that are new, and answer `Heard`.
    On disk: these are known."""

    wire = Wire("open_mesh.known", nodes=list[NodeId])

    def __init__(self, nodes: list[NodeId]) -> None:
        self.nodes = nodes


class Heard(Message):
    """These names have come."""

    wire = Wire("open_mesh.heard", nodes=list[NodeId])

    def __init__(self, nodes: list[NodeId]) -> None:
        self.nodes = nodes


@final
class Peer:
    """What is known of another node."""

    __slots__ = ("is_dialled", "link", "slowness", "told", "was_linked")

    def __init__(self) -> None:
        self.link: LinkId | None = None
        self.is_dialled = False  # the answer is not there yet
        self.was_linked = False
        self.slowness = 1  # how many first pauses the next one takes
        self.told: dict[NodeId, None] = {}  # names that it has, on this link


class OpenMesh(Overlay):
    """All others that I know of, and the links to them."""

    def __init__(self, me: NodeId, retry_after: int) -> None:
        self._me = me
        self._retry_after = retry_after
        self._peers: dict[NodeId, Peer] = {}
        self._let_go: dict[NodeId, None] = {}  # removed: not dialled
        self._tells = False  # the timer runs
        self._slowness = 1  # of that timer
        self._has_left = False

    # Life

    def on_recover(self, records: list[Message], out: Outbox) -> None:
        for record in records:
            if isinstance(record, Known):
                for node in record.nodes:
                    self._peers[node] = Peer()
        for node in self._peers:
            self._dial(node, out)

    def on_join(self, contact: NodeId, out: Outbox) -> None:
        if contact == self._me:
            return
        self._has_left = False
        self._learn([contact], out)
        self._dial(contact, out)

    def on_leave(self, out: Outbox) -> None:
        self._has_left = True
        out.cancel_timer(TELL)
        self._tells = False
        for node, peer in self._peers.items():
            out.cancel_timer(DIAL, node)
            if peer.link is not None:
                out.neighbour_down(node, peer.link)
                out.close_link(node)
                peer.link = None

    def snapshot(self) -> list[Message]:
        nodes = [node for node in self._peers if node not in self._let_go]
        return [Known(nodes)] if nodes else []

    def on_let_go(self, peer: NodeId, out: Outbox) -> None:
        self._let_go[peer] = None
        out.cancel_timer(DIAL, peer)

    # Links

    def on_link_up(self, peer: NodeId, link: LinkId, dialled: bool, out: Outbox) -> None:
        is_news = self._take_in(peer, out)
        state = self._peers.get(peer)
        if state is None:
            if peer not in self._let_go:
                out.close_link(peer)  # there are too many
                return
            state = self._peers[peer] = Peer()  # it has to be told, and is remembered by nobody
        if state.link is not None:
            out.neighbour_down(peer, state.link)
        state.link = link
        state.was_linked = True
        state.is_dialled = False
        state.slowness = 1
        state.told = {}
        out.cancel_timer(DIAL, peer)
        out.neighbour_up(peer, link, False)
        if is_news:
            self._tell_all(out)
        else:
            self._tell(peer, state, out)

    def on_link_lost(self, peer: NodeId, link: LinkId, reason: str, out: Outbox) -> None:
        state = self._peers.get(peer)
        if state is None:
            return
        state.is_dialled = False
        if state.link == link:
            state.link = None
            out.neighbour_down(peer, link)
        if state.link is None:
            self._dial_later(peer, state, out)

    def _dial(self, node: NodeId, out: Outbox) -> None:
        state = self._peers.get(node)
        if state is None or self._has_left or node in self._let_go:
            return
        if state.link is None and not state.is_dialled:
            state.is_dialled = True
            out.open_link(node)

    def _dial_later(self, node: NodeId, state: Peer, out: Outbox) -> None:
        if self._has_left or node in self._let_go:
            return
        out.start_timer(DIAL, self._retry_after * state.slowness, node)
        most = LONGEST_PAUSE.value if state.was_linked else LONGEST_ON_HEARSAY.value
        state.slowness = min(2 * state.slowness, most)

    # Names

    def on_message(self, sender: NodeId, message: Message, out: Outbox) -> None:
        state = self._peers.get(sender)
        if state is None or state.link is None:
            return
        if isinstance(message, Known):
            out.send(sender, Heard(list(message.nodes)), state.link)
            self._learn(message.nodes, out)
        else:
            assert isinstance(message, Heard)
        for node in message.nodes:
            if node in self._peers:
                state.told[node] = None

    def _learn(self, nodes: list[NodeId], out: Outbox) -> None:
        """Take in names: dial them, and tell others of them."""
        news = [node for node in nodes if self._take_in(node, out)]
        for node in news:
            if node < self._me:
                self._dial(node, out)
            else:
                self._dial_later(node, self._peers[node], out)
        if news:
            self._tell_all(out)

    def _take_in(self, node: NodeId, out: Outbox) -> bool:
        """Whether it is somebody new, and is known from now on."""
        if node == self._me or node in self._peers or node in self._let_go:
            return False
        if len(self._peers) >= MOST_NODES.value:
            out.note("open_mesh.too_many", node)
            return False
        self._peers[node] = Peer()
        out.persist(Known([node]))
        return True

    def _tell_all(self, out: Outbox) -> None:
        for node, state in self._peers.items():
            self._tell(node, state, out)

    def _tell(self, node: NodeId, state: Peer, out: Outbox) -> None:
        """Say whom a neighbour seems not to know."""
        names = self._lacks(node, state)
        if names and state.link is not None:
            out.send(node, Known(names), state.link)
            self._tell_again(out)

    def _lacks(self, node: NodeId, state: Peer) -> list[NodeId]:
        return [
            name
            for name in self._peers
            if name != node and name not in state.told and name not in self._let_go
        ]

    def _tell_again(self, out: Outbox) -> None:
        if not self._tells:
            self._tells = True
            out.start_timer(TELL, self._retry_after * self._slowness)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == DIAL:
            self._dial(NodeId(subject), out)
            return
        assert name == TELL
        self._tells = False
        self._slowness = min(2 * self._slowness, LONGEST_PAUSE.value)
        self._tell_all(out)
        if not self._tells:
            self._slowness = 1


def build(setup: Setup) -> OpenMesh:
    return OpenMesh(setup.me, setup.number("retry_after"))


SPEC = OverlaySpec(
    name="open_mesh",
    summary="Everybody is linked with everybody; who comes needs one contact.",
    build=build,
    messages=[Known, Heard],
    options=[
        Option(
            "retry_after",
            200 * MILLISECOND,
            # Above a round trip across a continent, so that what is told twice was lost.
            "dial a lost neighbour, or tell names again that were not confirmed, after this long; "
            "each further time takes twice as long",
            unit="ms",
            change_if="a round trip takes longer than a fifth of a second",
        ),
    ],
    complete=True,
)
