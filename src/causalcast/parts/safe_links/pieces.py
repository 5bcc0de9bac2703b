"""A log of deliveries that may be longer than any message travels in pieces (sub-automaton).

Whoever sends a log sends all of it but the last piece ahead, and the message that the log belongs
to carries the last piece. Links keep order, so the receiver puts the pieces together when that
message comes, and its handler sees one log, as if it had travelled whole.
"""

from typing import Final, final

from causalcast.core.ids import LinkId
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.limits import Limit
from causalcast.parts.safe_links.links import Delivery, Link

# A piece fits a frame whatever the size of bodies: it ends with the body that reaches this.
PIECE_BYTES: Final = Limit(
    "parts.safe_links.pieces.piece_bytes",
    1 << 17,
    least=1,
    most=1 << 20,
    unit="bytes",
    about="a piece of a log that is longer than a message may be",
)
PIECE_COUNT: Final = Limit(
    "parts.safe_links.pieces.piece_count",
    4,
    least=1,
    most=1 << 16,
    unit="messages",
    about="publications in such a piece",
)
# Nobody honest sends this much at once; whoever does is not listened to.
MOST_BYTES: Final = Limit(
    "parts.safe_links.pieces.most_bytes",
    1 << 30,
    least=64 << 20,
    most=1 << 40,
    unit="bytes",
    about="pieces of one log: nobody honest sends more at once",
)


class Piece(Message):
    """Keep this, it belongs in front of what a later message on this link carries."""

    wire = Wire("pieces.piece", publications=list[Publication], hops=list[int])

    def __init__(self, publications: list[Publication], hops: list[int]) -> None:
        self.publications = publications
        self.hops = hops


MESSAGES: Final[list[type[Message]]] = [Piece]


@final
class Pieces:
    """What came ahead of its message, link by link."""

    def __init__(self) -> None:
        self._came: dict[LinkId, list[Delivery]] = {}
        self._bytes: dict[LinkId, int] = {}

    def send_ahead(self, link: Link, log: list[Delivery], out: Outbox) -> list[Delivery]:
        """Send all pieces but the last, which is returned: the message itself carries it."""
        piece: list[Delivery] = []
        size = 0
        for entry in log:
            if size >= PIECE_BYTES.value or len(piece) == PIECE_COUNT.value:
                publications = [one.publication for one in piece]
                out.send(link.peer, Piece(publications, [one.hops for one in piece]), link.name)
                piece, size = [], 0
            piece.append(entry)
            size += len(entry.publication.body)
        return piece

    def on_piece(self, link: Link, piece: Piece, out: Outbox) -> None:
        """Keep a piece until its message comes."""
        size = self._bytes.get(link.name, 0) + sum(len(one.body) for one in piece.publications)
        if size > MOST_BYTES.value:
            out.note("pieces.too_many", link.peer)
            return
        self._bytes[link.name] = size
        came = self._came.setdefault(link.name, [])
        came += entries_of(piece.publications, piece.hops)

    def whole(self, link: Link, publications: list[Publication], hops: list[int]) -> list[Delivery]:
        """The whole log, now that its last piece is here."""
        self._bytes.pop(link.name, None)
        return self._came.pop(link.name, []) + entries_of(publications, hops)

    def on_lost(self, link: Link) -> None:
        """The rest will not come."""
        self._bytes.pop(link.name, None)
        self._came.pop(link.name, None)

    def size(self) -> int:
        """Entries kept."""
        return sum(len(came) for came in self._came.values())


def entries_of(publications: list[Publication], hops: list[int]) -> list[Delivery]:
    """A log from two lists; what a peer sends may be of unequal length."""
    return [
        Delivery(publication, hop) for publication, hop in zip(publications, hops, strict=False)
    ]
