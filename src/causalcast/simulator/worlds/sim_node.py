"""What the simulated world knows of one node: its stack, links, timers, and its disk."""

from typing import final

from causalcast.core.effects import Effect
from causalcast.core.ids import GroupId, LinkId, NodeId
from causalcast.core.message import Publication
from causalcast.core.stack import Stack
from causalcast.simulator.worlds.schedule import Event


@final
class Expiry(Event):
    """A timer runs out."""

    __slots__ = ("cancelled", "layer", "name", "node", "subject")

    def __init__(self, node: "SimNode", layer: int, name: str, subject: int) -> None:
        self.node = node
        self.layer = layer
        self.name = name
        self.subject = subject
        self.cancelled = False


@final
class Channel:
    """One direction of a link. `back` is the other direction."""

    __slots__ = (
        "back",
        "current",
        "cut",
        "early",
        "extra",
        "fixed",
        "free_at",
        "known",
        "last_arrival",
        "link",
        "multicast",
        "receiver",
        "smooth",
        "source",
        "target",
        "unread",
    )

    def __init__(self, source: NodeId, receiver: "SimNode", link: LinkId) -> None:
        self.smooth = False  # nothing special here: messages pass, arrive and are handled at once
        self.source = source
        self.multicast = receiver.stack.multicast  # of the receiver, as long as the link lives
        self.receiver = receiver
        self.target = receiver.me
        self.link = link
        self.back = self
        self.known = False  # the receiver knows the link
        self.current = True  # and has not lost or closed it
        self.cut = False
        self.fixed = 0  # microseconds that every message between these two takes
        self.extra = 0  # microseconds on top of the latency
        self.last_arrival = 0  # first in, first out
        self.free_at = 0  # when its share of the bandwidth is free again
        self.early: list[Event] = []  # what came before the receiver knew the link
        self.unread: list[Event] = []  # what came since the receiver last read from it

    def is_over(self) -> bool:
        """Whether nothing that comes on it counts any more."""
        return not self.current or not self.receiver.up

    def refresh(self) -> None:
        """Find out anew whether messages may take the short way."""
        self.smooth = (
            self.known
            and self.current
            and not self.cut
            and self.extra == 0
            and self.receiver.up
            and self.receiver.paused is None
        )


@final
class Entry:
    """One durable entry: a new publication, the encoded records of a step by layer, the groups that
    the node joined in it, and the one that it left."""

    def __init__(self, publication: Publication | None, records: list[tuple[int, bytes]]) -> None:
        self.publication = publication
        self.records = records
        self.joined: list[GroupId] = []
        self.left: GroupId | None = None


@final
class Disk:
    """What survives a crash, and what still waits to get there."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.published = 0  # the number of the last durable publication
        self.waiting: list[tuple[Entry | None, list[Effect]]] = []  # steps behind a sync
        self.flushed = 0  # how often it was waited for


@final
class SimNode:
    """One simulated node.

    Large because its attributes stay in one object with slots: at ten thousand nodes it decides the
    speed how close together in memory the things are that a message needs.
    """

    __slots__ = (
        "_cursor",
        "came",
        "channels",
        "crash_after",
        "degree",
        "dialling",
        "dials",
        "disk",
        "gone",
        "groups",
        "left",
        "lives",
        "me",
        "paused",
        "place",
        "published",
        "row",
        "stack",
        "timers",
        "up",
        "waiting_for_dial",
    )

    def __init__(self, me: NodeId, place: NodeId, stack: Stack) -> None:
        # What every message needs stands first, so that it shares a line of the cache.
        self.me = me
        self.crash_after: int | None = None  # effects that still happen in its next step
        self.groups: dict[GroupId, None] = {}  # survive a crash; replaced, never changed
        self.row: list[Channel] = []  # its channels in the order they came, see `channel_to`
        self._cursor = 0
        self.channels: dict[NodeId, Channel] = {}  # to the peers it knows a link to
        self.place = place  # whose place in the graph it has; its own unless it is reborn
        self.stack = stack
        self.up = False
        self.came = False  # was started, and may be up, down or gone
        self.left = False  # for good
        self.gone = False  # somebody was told that it never comes back
        self.lives = 0
        self.dials = 0
        self.degree = 0  # in the graph, for sharing bandwidth
        self.dialling: dict[NodeId, LinkId] = {}
        self.waiting_for_dial: dict[NodeId, list[Effect]] = {}
        self.timers: dict[tuple[int, str, int], Expiry] = {}
        self.disk = Disk()
        self.published = 0  # the number of the last publication, durable or not
        self.paused: list[Event] | None = None  # what happened to it while it stood still

    def channel_to(self, to: NodeId) -> Channel | None:
        """The channel to a peer.

        A node mostly sends to its neighbours one after the other, leaving one out; so the next in
        the row, or the one after, is tried before the dict is asked.
        """
        row = self.row
        at = self._cursor
        if at + 1 >= len(row):
            if at < len(row) and row[at].target == to:
                self._cursor = 0
                return row[at]
            at = 0
        if at + 1 < len(row):
            channel = row[at]
            if channel.target == to:
                self._cursor = at + 1
                return channel
            channel = row[at + 1]
            if channel.target == to:
                self._cursor = at + 2
                return channel
        return self.channels.get(to)

    def add_channel(self, peer: NodeId, channel: Channel) -> None:
        """From now on, this is the way to `peer`."""
        self.channels[peer] = channel
        self.row = list(self.channels.values())

    def drop_channel(self, peer: NodeId) -> Channel | None:
        """The way to `peer` is gone; what comes from there on the same link counts no longer."""
        channel = self.channels.pop(peer, None)
        if channel is not None:
            self.row = list(self.channels.values())
            channel.back.current = False
            channel.back.refresh()
        return channel

    def forget_volatile(self) -> None:
        """What a crash takes: links, timers, and steps that had not reached the disk."""
        for expiry in self.timers.values():
            expiry.cancelled = True
        self.timers = {}
        for peer in list(self.channels):
            self.drop_channel(peer)
        self.dialling = {}
        self.waiting_for_dial = {}
        self.disk.waiting = []
        self.published = self.disk.published
        self.crash_after = None
        self.paused = None
