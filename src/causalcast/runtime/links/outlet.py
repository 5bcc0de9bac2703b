"""What is to leave in this turn of the loop, link by link. Compiled: every message passes here.

Messages that follow one another and differ only in the number and the body of their publication
leave as one (`wire/runs.py`). Links that carry the same share its bytes.
"""

from collections.abc import Callable
from typing import final

from causalcast.core.ids import ANY_LINK, LinkId, NodeId
from causalcast.core.message import Message
from causalcast.runtime.links.traffic import Traffic
from causalcast.wire.runs import in_runs

# Makes the bytes of messages, each of which continues the one before.
EncodeRun = Callable[[list[Message]], bytes]


@final
class Outlet:
    """One link: messages that leave together at the end of the turn."""

    def __init__(self, link: LinkId, flush: Callable[[], None]) -> None:
        self.link = link
        self.peer = NodeId(-1)  # known once it has said who it is
        self.flush = flush  # writes them to the socket
        self.encoded: list[bytes] = []
        self.messages: list[Message] = []  # behind those
        self.is_planned = False  # a flush
        self.traffic = Traffic()  # of all links to the peer in this life, once it is known


@final
class Outlets:
    """All links on which messages may leave now, and which of them have some."""

    def __init__(self, encode_run: EncodeRun) -> None:
        self.of_peer: dict[NodeId, Outlet] = {}
        self.queued_bytes = 0  # encoded in this turn, on all links
        self.congested: dict[Outlet, None] = {}  # their sockets take nothing more for now
        # Hears of messages that leave as one, on each link: the first of them, and their bytes.
        self.on_encoded: Callable[[Outlet, list[Message], int], None] | None = None
        self._planned: list[Outlet] = []
        self._encode_run = encode_run
        self._last: list[Message] = []
        self._last_runs: list[list[Message]] = []
        self._last_encoded: list[bytes] = []

    def put(self, to: NodeId, message: Message, link: LinkId) -> bool:
        """Let a message leave on the current link; False if there is none, or another one."""
        outlet = self.of_peer.get(to)
        if outlet is None or (link != ANY_LINK and link != outlet.link):
            return False
        if not outlet.is_planned:
            self.plan(outlet)
        outlet.messages.append(message)
        outlet.traffic.sent_messages += 1
        return True

    def put_encoded(self, to: NodeId, data: bytes, link: LinkId) -> bool:
        """The same for the bytes of a message."""
        outlet = self.of_peer.get(to)
        if outlet is None or (link != ANY_LINK and link != outlet.link):
            return False
        if not outlet.is_planned:
            self.plan(outlet)
        if outlet.messages:
            self._encode(outlet)
        outlet.encoded.append(data)
        outlet.traffic.sent_messages += 1
        self.queued_bytes += len(data)
        return True

    def take(self, outlet: Outlet) -> list[bytes]:
        """All messages of a link, as bytes; those are gone from it."""
        if outlet.messages:
            self._encode(outlet)
        encoded, outlet.encoded = outlet.encoded, []
        return encoded

    def plan(self, outlet: Outlet) -> None:
        """Something is to be written to this link."""
        outlet.is_planned = True
        self._planned.append(outlet)

    def flush(self) -> None:
        """Let everything leave, one write per link."""
        if self._planned:
            planned, self._planned = self._planned, []
            for outlet in planned:
                outlet.is_planned = False
                outlet.flush()
            self._last, self._last_runs, self._last_encoded = [], [], []

    def encode(self) -> None:
        """Make bytes of everything that is to leave, so that `on_encoded` has heard of it."""
        for outlet in self._planned:
            if outlet.messages:
                self._encode(outlet)

    def _encode(self, outlet: Outlet) -> None:
        messages, outlet.messages = outlet.messages, []
        if messages != self._last:  # the same objects, as a rule
            self._last = messages
            self._last_runs = in_runs(messages)
            self._last_encoded = [self._encode_run(run) for run in self._last_runs]
        for data in self._last_encoded:
            outlet.encoded.append(data)
            self.queued_bytes += len(data)
        if self.on_encoded is not None:
            for run, data in zip(self._last_runs, self._last_encoded, strict=True):
                self.on_encoded(outlet, run, len(data))
