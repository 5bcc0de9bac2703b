"""Who may come in at the doors of a node, and who is inside.

What strangers may cost is bounded before they have shown a token: how many there are, how long they
may take, how much they may say. All ways in share what is counted here.
"""

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, final

from causalcast.clients import protocol
from causalcast.clients.kept_log import KeptLog
from causalcast.clients.protocol import Position
from causalcast.clients.publications import Publications
from causalcast.clients.session import NOT_YET_AFTER, Allowances, Carrier, Ended, Session
from causalcast.errors import WireError
from causalcast.limits import Limit, Span
from causalcast.printable import printable
from causalcast.runtime.node import Node
from causalcast.runtime.node_config import ClientDoor
from causalcast.runtime.security.client_token import (
    LONGEST_NAME,
    ClientPass,
    check_client_token,
    objection,
)
from causalcast.runtime.security.tls import Tls

CONNECTIONS: Final = Limit(
    "clients.admission.connections",
    2000,
    least=1,
    most=1 << 20,
    unit="connections",
    about="of all clients together",
)
CONNECTIONS_OF_ONE: Final = Limit(
    "clients.admission.connections_of_one",
    1000,
    least=1,
    most=1 << 20,
    unit="connections",
    about="of clients with the same name",
)
HELLO_BYTES: Final = Limit(
    "clients.admission.hello_bytes",
    256 << 10,
    least=32 << 10,
    most=16 << 20,
    unit="bytes",
    about="the first words of a client, which have its token and its past",
)
HELLO_WITHIN: Final = Span(
    "clients.admission.hello_within",
    5.0,
    least=0.05,
    most=60.0,
    about="a client says who it is within this",
)
ALIVE_EVERY: Final = Span(
    "clients.admission.alive_every",
    20.0,
    least=0.05,
    most=600.0,
    about="between pings; a client that answers none for as long is let go",
)
CLOSED_WITHIN: Final = Span(
    "clients.admission.closed_within",
    1.0,
    least=0.01,
    most=60.0,
    about="a client that was let go takes that in within this, or the socket is closed",
)
UNTIL_FOR_EVER: Final = 1 << 40
FRAME_OVERHEAD: Final = 1 << 15  # what a frame has beside a body; JSON can be six times as long

HangUp = Callable[[Ended], Awaitable[None]]


@final
class Admission:
    """Everybody who is inside, and what was counted."""

    def __init__(self, node: Node, config: ClientDoor) -> None:
        self.node = node
        self.host = node.host()
        self.tls: Tls | None = self.host.links.tls
        self.log = KeptLog(self.host, config)
        self.publications = Publications(self.host, self.log.groups)
        self.counts: collections.Counter[str] = collections.Counter()
        body = node.config.limits.body_bytes
        self.frame_bytes = body * 4 // 3 + FRAME_OVERHEAD  # as base64 it is a third longer
        self._sessions: dict[Session, HangUp] = {}
        self._connections: dict[object, None] = {}

    def numbers(self) -> dict[str, Any]:
        """What `status` shows of it."""
        messages, size = self.log.size()
        return {
            "connections": len(self._sessions),
            "unacknowledged": sum(session.unacknowledged() for session in self._sessions),
            "kept_messages": messages,
            "kept_bytes": size,
            "let_go": dict(self.counts),
        }

    def count(self, what: str) -> None:
        """Something was refused, or somebody let go."""
        self.counts[what] += 1

    # Strangers

    def lets_in(self, connection: object) -> bool:
        """Whether there is room for one more connection; it is counted if there is."""
        if len(self._connections) >= CONNECTIONS.value:
            self.counts["turned_away"] += 1
            return False
        self._connections[connection] = None
        return True

    def connections(self) -> list[object]:
        """All that there are, in the order in which they came."""
        return list(self._connections)

    def forget_connection(self, connection: object) -> None:
        """A connection has ended."""
        self._connections.pop(connection, None)

    def holder(self, token: str, name: str) -> ClientPass:
        """Who it is. Where nodes have no certificates everybody on this machine may everything."""
        cluster = self.node.config.cluster
        if self.tls is None:
            return ClientPass(0, cluster, name[:LONGEST_NAME], ["*"], ["*"], UNTIL_FOR_EVER, ["*"])
        try:
            authorities = self.tls.identity.authorities
            return check_client_token(
                token, cluster, authorities, self._revoked(), datetime.now(UTC)
            )
        except WireError as error:
            raise Ended(protocol.NO_TOKEN, str(error)) from None

    async def wait_for_past(self, past: Position) -> None:
        """What the client has seen or published elsewhere comes first."""
        was_removed = self.host.parts.directory.made.was_removed
        past = {group: seen for group, seen in past.items() if not was_removed(group)}
        for group, by_origin in past.items():
            if {*by_origin} <= {self.host.me}:
                continue  # own publications are in the own past
            known = group in self.publications.groups
            if not known and self.log.may_come(group):
                continue  # it was made elsewhere, and the news are on their way
            if not known or not self.node.group(group).is_member():
                raise Ended(
                    protocol.ELSEWHERE,
                    f"node {self.host.me} does not serve {printable(group)!r}, so it cannot tell "
                    "whether it has what this client has seen there",
                )
        try:
            async with asyncio.timeout(NOT_YET_AFTER.value):
                await self.log.wait_for(past)
        except TimeoutError:
            lacks = self.log.lacks(past)
            raise Ended(
                protocol.NOT_YET,
                f"after {NOT_YET_AFTER.value:g} s {lacks[0]} is not here, which this client has "
                "seen or published elsewhere; try again, or another node",
            ) from None

    # Clients

    @contextlib.contextmanager
    def session(
        self,
        carrier: Carrier,
        holder: ClientPass,
        binary: bool,
        hang_up: HangUp,
        allowances: Allowances | None = None,
    ) -> Iterator[Session]:
        """One client, while it is inside; `hang_up` lets it go."""
        alike = sum(session.holder.name == holder.name for session in self._sessions)
        if alike >= CONNECTIONS_OF_ONE.value:
            raise Ended(
                protocol.TOO_MANY,
                f"a client of this name has {alike} connections, and no more are allowed",
            )
        session = Session(
            carrier, self.node, self.log, self.publications, holder, binary, self.count, allowances
        )
        self._sessions[session] = hang_up
        try:
            yield session
        finally:
            del self._sessions[session]

    async def let_go_without_token(self) -> None:
        """Whose token has lapsed or was revoked."""
        for session, hang_up in list(self._sessions.items()):
            why = objection(session.holder, self._revoked())
            if why:
                self.count(protocol.NO_TOKEN)
                await hang_up(Ended(protocol.NO_TOKEN, why))

    def _revoked(self) -> frozenset[int]:
        return frozenset() if self.tls is None else self.tls.revocations.serials
