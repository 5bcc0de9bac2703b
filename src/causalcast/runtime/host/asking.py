"""Questions of applications to one another: `await group.ask(node, body)` and `group.on_ask`."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, final

from causalcast.core.ids import GroupId, NodeId
from causalcast.errors import NodeError
from causalcast.limits import Span
from causalcast.runtime.host.direct import Direct

ASK: Final = "ask"  # the kind of such a request
USUAL_TIMEOUT = Span(
    "runtime.host.asking.usual_timeout",
    10.0,
    least=0.01,
    most=600.0,
    about="how long an application waits for an answer unless it says",
)


@final
class Asked:
    """What another node's application asks; the handler of `on_ask` gets it."""

    __slots__ = ("group", "origin", "payload")

    def __init__(self, origin: NodeId, group: str, payload: bytes) -> None:
        self.origin = origin
        self.group = group
        self.payload = payload

    def __repr__(self) -> str:
        return f"<asked by node {self.origin} in {self.group!r}: {self.payload[:40]!r}>"


OnAsk = Callable[[Asked], bytes | Awaitable[bytes]]


class Circle(Protocol):
    """Who is in which group, and who may do what there."""

    def name_of(self, group: GroupId) -> str:
        """Its name; NodeError or an empty one if there is no such group."""

    def is_member(self, group: GroupId) -> bool:
        """Whether this node is in it."""

    def may_ask(self, peer: NodeId, group: GroupId) -> bool:
        """Whether `peer` has the right to."""


@final
class Asking:
    """Asks neighbours, and lets this node's application answer."""

    def __init__(self, me: NodeId, direct: Direct, circle: Circle, most_bytes: int) -> None:
        self._me = me
        self._most_bytes = most_bytes
        self._direct = direct
        self._circle = circle
        self._handlers: dict[GroupId, OnAsk] = {}
        direct.answers[ASK] = self._answer

    def on_ask(self, group: GroupId, handler: OnAsk | None) -> None:
        """Let `handler` answer what is asked in a group from now on; None: nobody."""
        if handler is None:
            self._handlers.pop(group, None)
        else:
            self._handlers[group] = handler

    async def ask(self, node: NodeId, group: GroupId, body: bytes, timeout: float | None) -> bytes:
        """What the application of `node` answers; NodeError if there is no answer."""
        if node == self._me:
            raise NodeError("a node does not ask itself")
        self._check_size(body, "a question")
        within = USUAL_TIMEOUT.value if timeout is None else timeout
        return await self._direct.ask(node, ASK, int(group), body, within)

    async def _answer(self, peer: NodeId, group_id: int, body: bytes) -> bytes:
        group = GroupId(group_id)
        if not self._circle.is_member(group):
            raise NodeError("it is no member of the group")
        name = self._circle.name_of(group)
        if not self._circle.may_ask(peer, group):
            raise NodeError(f"no right to ask in {name!r}: who may publish there may ask")
        self._check_size(body, "a question")
        handler = self._handlers.get(group)
        if handler is None:
            raise NodeError(f"its application answers nothing in {name!r} (`group.on_ask`)")
        found = handler(Asked(peer, name, body))
        answer = await found if inspect.isawaitable(found) else found
        self._check_size(answer, "its answer")
        return answer

    def _check_size(self, body: object, what: str) -> None:
        if not isinstance(body, bytes):
            raise NodeError(f"{what} is bytes, not {type(body).__name__}")
        if len(body) > self._most_bytes:
            raise NodeError(
                f"{what} has {len(body)} bytes; at most {self._most_bytes} are accepted "
                "([limits] body_bytes)"
            )
