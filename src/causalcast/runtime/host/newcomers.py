"""State for newcomers: a member hands what its application knows to one that has just joined.

The newcomer joins, so that it gets what comes from then on, and publishes a *wish*: news to
everybody, in causal order. Whoever delivers the wish has delivered everything that the newcomer had
passed on before it was a member, and so will never be given. A member whose application has handled
all that was delivered before the wish makes a *cut*: for a moment it hands over nothing, lets the
application save its state, and notes by origin what that state contains. It publishes that the cut
was made, and the newcomer takes the state in pieces over the link between the two. When the
newcomer has delivered the news of the cut it has delivered all that the state contains, as far as
that reaches it at all. So what it publishes from its state comes behind the causes of that state.
What it was given and the state contains is struck out, and the rest follows.

Only a member that has the state itself gives it: from the beginning, because it made the group, or
because it took it. Nothing of a transfer is kept on disk until the application has the state: who
crashes before that asks anew.
"""

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, Protocol, final

import msgspec

from causalcast.any_node import Save
from causalcast.core.ids import GroupId, MessageId, NodeId
from causalcast.core.spec import ProtocolSpec
from causalcast.errors import NodeError
from causalcast.limits import Limit, Span
from causalcast.runtime.host.direct import Direct

STATE_BYTES = Limit(
    "runtime.host.newcomers.state_bytes",
    256 << 20,
    least=1 << 10,
    most=1 << 32,
    unit="bytes",
    about="the state of an application that is handed to a newcomer; both ends have it in memory",
)
PIECE = Limit(
    "runtime.host.newcomers.piece",
    1 << 17,
    least=1,
    most=1 << 24,
    unit="bytes",
    about="of such a state, in one answer",
)
LOOK_EVERY = Span(
    "runtime.host.newcomers.look_every",
    0.05,
    least=0.001,
    most=5.0,
    about="how often a newcomer asks, and a giver looks whether its application has got so far",
)
ANSWER_WITHIN = Span(
    "runtime.host.newcomers.answer_within",
    10.0,
    least=0.1,
    most=600.0,
    about="for one answer of a giver; then another member is asked",
)
NEXT_AFTER = Span(
    "runtime.host.newcomers.next_after",
    1.0,
    least=0.01,
    most=60.0,
    about="until a second member is asked for a state, if the first has not given it",
)
PATIENCE = Span(
    "runtime.host.newcomers.patience",
    10.0,
    least=0.1,
    most=600.0,
    about="without progress until a newcomer says once more what it wants; it doubles each time",
)
HOLD_FOR = Span(
    "runtime.host.newcomers.hold_for",
    2.0,
    least=0.01,
    most=60.0,
    about="how long a giver hands over nothing, until its application has acknowledged all it took",
)
KEPT_FOR = Span(
    "runtime.host.newcomers.kept_for",
    120.0,
    least=1.0,
    most=3600.0,
    about="how long a giver keeps a state, or the wish for one, that nobody asks for",
)

STATES: Final = "states"  # among what a protocol offers
WORD: Final = b"state "  # news that begin so are of states
STATE: Final = "state"  # kinds of requests
STATE_PIECE: Final = "state_piece"
NO: Final = "no"
LATER: Final = "later"
READY: Final = "ready"


def is_about_states(body: bytes) -> bool:
    """Whether news are of states, and not of groups."""
    return body.startswith(WORD)


def check_hands_over(protocol: ProtocolSpec, is_kept: bool) -> None:
    """Raise NodeError where no state can be handed over, with the reason."""
    if STATES not in protocol.offers:
        raise NodeError(
            f"{protocol.name} cannot hand a state to newcomers: not everything reaches every node "
            "in causal order, so nobody can tell which messages a newcomer will never get; choose "
            "a protocol that offers states (`causalcast protocols`)"
        )
    if not is_kept:
        raise NodeError(
            "a node that keeps nothing ([storage] durable = false) neither gives nor takes a "
            "state: it does not know what its application has handled"
        )


class Answered(msgspec.Struct, array_like=True, frozen=True):
    """What a member says to somebody who wants its state."""

    status: str  # NO, LATER or READY
    reason: str = ""
    size: int = 0
    check: bytes = b""  # a digest of the state
    position: dict[int, int] = {}  # by origin the number of the last message that is in it


@final
class Obtained:
    """A state, and what is in it."""

    def __init__(self, giver: NodeId, state: bytes, position: dict[int, int]) -> None:
        self.giver = giver
        self.state = state
        self.position = position


class Desk(Protocol):
    """What the transfer needs of its node, real or virtual."""

    def neighbours(self) -> list[NodeId]:
        """Who has a link now."""

    def others(self) -> list[NodeId] | None:
        """All other nodes that there are; None if that cannot be told."""

    async def tell(self, body: bytes) -> None:
        """Publish news to everybody; returns when they are durable here."""

    def objection(self, group: GroupId) -> str:
        """Why this node cannot give the state of a group to anybody; empty if it can."""

    def may_have(self, peer: NodeId, group: GroupId) -> bool:
        """Whether `peer` may be a member of the group."""

    def unhandled(self, group: GroupId) -> set[MessageId]:
        """What was delivered and is not acknowledged."""

    def position(self, group: GroupId) -> dict[int, int] | None:
        """By origin the last message that the application has handled; None while it has one in
        its hands, or has handled one behind another that it has not."""

    def hold(self, group: GroupId) -> None:
        """Hand over nothing more of the group."""

    def let_go(self, group: GroupId) -> None:
        """Hand over again."""

    def cover(self, group: GroupId, position: dict[int, int]) -> Awaitable[None]:
        """The application has a state that contains all up to `position`; done when durable."""

    def name_of(self, group: GroupId) -> str:
        """For people."""

    def draw(self) -> str:
        """A name that nobody had before."""

    def check_alive(self) -> None:
        """Raise NodeError if the node has stopped."""


class _Cut:
    """A state that was saved for somebody, or is about to be."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.used_at = 0.0
        self.state: bytes | None = None
        self.check = b""
        self.position: dict[int, int] = {}
        self.failure = ""
        self.waits_for = "its application has not handled yet what was delivered before"


class _Wish:
    """Somebody wants a state: what had been delivered before that was heard, and not handled."""

    def __init__(self, nonce: str, before: set[MessageId]) -> None:
        self.nonce = nonce
        self.before = before


class _Tried:
    """What came of one wish so far."""

    def __init__(self, now: float) -> None:
        self.moved_at = now  # when a piece came
        self.refused: dict[NodeId, str] = {}  # who cannot give it, and why
        self.said: dict[NodeId, str] = {}
        self.pieces: dict[NodeId, bytearray] = {}
        self.one_at_a_time = asyncio.Lock()  # they give; a second one only if the first does not


@final
class Newcomers:
    """Gives states to others, and takes one for this node."""

    def __init__(
        self,
        desk: Desk,
        direct: Direct,
        beside: Callable[[Coroutine[None, None, None]], None],
        me: NodeId,
    ) -> None:
        self.savers: dict[GroupId, Save] = {}
        self.taking: dict[GroupId, asyncio.Lock] = {}  # one handle at a time
        self.waits: dict[GroupId, str] = {}  # states that this node wants, and why it has none
        self._desk = desk
        self._direct = direct
        self._beside = beside
        self._me = me
        self._wishes: dict[tuple[NodeId, GroupId], _Wish] = {}
        self._cuts: dict[tuple[NodeId, GroupId], _Cut] = {}
        self._one_at_a_time: dict[GroupId, asyncio.Lock] = {}
        self._cut_by: dict[str, set[NodeId]] = {}  # by wish of this node who has cut a state
        direct.answers[STATE] = self._asked_for_state
        direct.answers[STATE_PIECE] = self._asked_for_piece

    # News

    def heard(self, origin: NodeId, body: bytes) -> None:
        """News of states were delivered, and everything before them is with the application."""
        words = body.decode(errors="replace").split(" ")
        if len(words) == 4 and words[1] == "want" and words[2].isdecimal():
            self._heard_wish(origin, GroupId(int(words[2])), words[3])
        elif len(words) == 4 and words[1] == "cut" and words[3] in self._cut_by:
            self._cut_by[words[3]].add(origin)

    def _heard_wish(self, origin: NodeId, group: GroupId, nonce: str) -> None:
        if origin == self._me or self._desk.objection(group):
            return
        self._wishes[origin, group] = wish = _Wish(nonce, self._desk.unhandled(group))

        def forget() -> None:
            if self._wishes.get((origin, group)) is wish:
                del self._wishes[origin, group]

        asyncio.get_running_loop().call_later(KEPT_FOR.value, forget)

    # Giving

    async def _asked_for_state(self, peer: NodeId, group_id: int, body: bytes) -> bytes:
        nonce = body.decode(errors="replace")
        return msgspec.msgpack.encode(self._answer(peer, GroupId(group_id), nonce))

    def _answer(self, peer: NodeId, group: GroupId, nonce: str) -> Answered:
        reason = self._desk.objection(group)
        if not reason and not self._desk.may_have(peer, group):
            reason = f"node {peer} has no right to be a member"
        if reason:
            return Answered(NO, reason)
        if group not in self.savers:
            return Answered(LATER, "its application has not said how to save its state (snapshot)")
        cut = self._cuts.get((peer, group))
        if cut is None or cut.nonce != nonce:
            wish = self._wishes.get((peer, group))
            if wish is None or wish.nonce != nonce:
                return Answered(LATER, "it has not heard of the wish yet")
            self._cuts[peer, group] = cut = _Cut(nonce)
            self._beside(self._make(cut, peer, group, wish))
        cut.used_at = asyncio.get_running_loop().time()
        if cut.failure:
            del self._cuts[peer, group]
            return Answered(NO, cut.failure)
        if cut.state is None:
            return Answered(LATER, cut.waits_for)
        return Answered(READY, "", len(cut.state), cut.check, cut.position)

    async def _asked_for_piece(self, peer: NodeId, group_id: int, body: bytes) -> bytes:
        nonce, _, start = body.decode(errors="replace").partition(" ")
        cut = self._cuts.get((peer, GroupId(group_id)))
        if cut is None or cut.nonce != nonce or cut.state is None or not start.isdecimal():
            raise NodeError("it has no such state any more; ask for another one")
        cut.used_at = asyncio.get_running_loop().time()
        return cut.state[int(start) : int(start) + PIECE.value]

    async def _make(self, cut: _Cut, peer: NodeId, group: GroupId, wish: _Wish) -> None:
        lock = self._one_at_a_time.setdefault(group, asyncio.Lock())
        try:
            async with lock:
                while cut.state is None and not cut.failure and self._is_wanted(cut, peer, group):
                    await self._try(cut, group, wish)
            if cut.state is not None:
                await self._desk.tell(WORD + f"cut {peer} {cut.nonce}".encode())
                while self._is_wanted(cut, peer, group):
                    await asyncio.sleep(1.0)
        except NodeError as error:  # the node stops
            cut.failure = str(error)
        if self._cuts.get((peer, group)) is cut and not cut.failure:
            del self._cuts[peer, group]

    def _is_wanted(self, cut: _Cut, peer: NodeId, group: GroupId) -> bool:
        unused = asyncio.get_running_loop().time() - cut.used_at
        return self._cuts.get((peer, group)) is cut and unused < KEPT_FOR.value

    async def _try(self, cut: _Cut, group: GroupId, wish: _Wish) -> None:
        """Save the state, if the application has got so far and lets go of what it took."""
        if wish.before & self._desk.unhandled(group):
            await asyncio.sleep(LOOK_EVERY.value)
            return
        self._desk.hold(group)
        try:
            position = await self._between_messages(group)
            if position is None:
                cut.waits_for = "its application does not acknowledge what it took"
            else:
                await self._save(cut, group, position)
        finally:
            self._desk.let_go(group)
        if position is None:
            await asyncio.sleep(LOOK_EVERY.value)  # it may need the next one to go on

    async def _between_messages(self, group: GroupId) -> dict[int, int] | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + HOLD_FOR.value
        while True:
            position = self._desk.position(group)
            if position is not None or loop.time() > until:
                return position
            await asyncio.sleep(min(LOOK_EVERY.value, HOLD_FOR.value))

    async def _save(self, cut: _Cut, group: GroupId, position: dict[int, int]) -> None:
        save = self.savers.get(group)
        if save is None:
            cut.waits_for = "its application has left the group"
            await asyncio.sleep(LOOK_EVERY.value)
            return
        try:
            saved = save()
            state: object = await saved if inspect.isawaitable(saved) else saved
        except Exception as error:
            cut.failure = f"its application failed to save its state: {error!r}"
            problem = {"message": "saving a state for a newcomer failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(problem)
            return
        if not isinstance(state, bytes):
            cut.failure = f"its snapshot is bytes, not {type(state).__name__}"
        elif len(state) > STATE_BYTES.value:
            cut.failure = f"its state has {len(state)} bytes; at most {STATE_BYTES.value} can go"
        else:
            cut.position = position
            cut.check = _digest(state)
            cut.state = state

    # Taking

    async def obtain(self, group: GroupId) -> Obtained:
        """The state of a group that this node has joined, from whoever gives it. Nothing of the
        group may be handed over meanwhile (`hold`). NodeError if nobody has it."""
        patience = PATIENCE.value
        try:
            while True:
                nonce = self._desk.draw()
                self._cut_by[nonce] = set()
                self.waits[group] = "nobody was asked yet"
                await self._desk.tell(WORD + f"want {int(group)} {nonce}".encode())
                try:
                    found = await self._ask_for_it(group, nonce, patience)
                finally:
                    del self._cut_by[nonce]
                if found is not None:
                    return found
                patience = min(2 * patience, 60 * PATIENCE.value)
        finally:
            self.waits.pop(group, None)

    async def _ask_for_it(self, group: GroupId, nonce: str, patience: float) -> Obtained | None:
        """Ask one neighbour, and another one if it says no, or nothing for a while."""
        loop = asyncio.get_running_loop()
        tried = _Tried(loop.time())
        tasks: dict[NodeId, asyncio.Task[Obtained]] = {}
        next_at = loop.time()
        try:
            while loop.time() < tried.moved_at + patience:
                self._desk.check_alive()
                others = [peer for peer in sorted(self._desk.neighbours()) if peer not in tasks]
                if others and (loop.time() >= next_at or tried.refused.keys() >= tasks.keys()):
                    asking = self._ask_until_it_gives(others[0], group, nonce, tried)
                    tasks[others[0]] = loop.create_task(asking)
                    next_at = loop.time() + NEXT_AFTER.value
                await _first_of(list(tasks.values()))
                for task in tasks.values():
                    if task.done():
                        return task.result()
                self.waits[group] = _in_words(tried.said) or "no member is linked"
                self._check_somebody_has_it(group, tried.refused)
            return None
        finally:
            for task in tasks.values():
                task.cancel()

    async def _ask_until_it_gives(
        self, peer: NodeId, group: GroupId, nonce: str, tried: "_Tried"
    ) -> Obtained:
        pause = LOOK_EVERY.value
        while True:
            answer = await self._ask(peer, group, nonce, tried.said)
            if answer is None or answer.status != NO:
                tried.refused.pop(peer, None)
            else:
                tried.refused[peer] = answer.reason
            if answer is not None and answer.status == READY:
                async with tried.one_at_a_time:
                    if await self._fetch(peer, group, nonce, answer, tried):
                        await self._cut_is_here(peer, nonce)
                        return Obtained(peer, bytes(tried.pieces[peer]), answer.position)
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 20 * LOOK_EVERY.value)

    async def _ask(
        self, peer: NodeId, group: GroupId, nonce: str, said: dict[NodeId, str]
    ) -> Answered | None:
        body = nonce.encode()
        try:
            reply = await self._direct.ask(peer, STATE, group, body, ANSWER_WITHIN.value)
            answer = msgspec.msgpack.decode(reply, type=Answered)
        except (NodeError, msgspec.DecodeError, ValueError) as error:
            said[peer] = str(error)
            return None
        said[peer] = f"node {peer}: {answer.reason or 'it gives it'}"
        return answer

    async def _fetch(
        self,
        peer: NodeId,
        group: GroupId,
        nonce: str,
        answer: Answered,
        tried: "_Tried",
    ) -> bool:
        """Whether all of a state is there; what is there stays if the link is lost."""
        if answer.size > STATE_BYTES.value:
            return False
        there = tried.pieces.setdefault(peer, bytearray())
        while len(there) < answer.size:
            body = f"{nonce} {len(there)}".encode()
            try:
                piece = await self._direct.ask(peer, STATE_PIECE, group, body, ANSWER_WITHIN.value)
            except NodeError:
                return False
            if not piece or len(there) + len(piece) > answer.size:
                break
            there += piece
            tried.moved_at = asyncio.get_running_loop().time()
        if len(there) == answer.size and _digest(bytes(there)) == answer.check:
            return True
        del tried.pieces[peer]  # it is of no use
        return False

    async def _cut_is_here(self, giver: NodeId, nonce: str) -> None:
        """Wait for the news of the cut: all that is in the state was delivered when they are."""
        while giver not in self._cut_by[nonce]:
            await asyncio.sleep(LOOK_EVERY.value)

    def _check_somebody_has_it(self, group: GroupId, refused: dict[NodeId, str]) -> None:
        others = self._desk.others()
        if others is None or any(node not in refused for node in others):
            return
        reasons = "; ".join(f"node {node}: {refused[node]}" for node in sorted(others))
        raise NodeError(
            f"nobody gives the state of {self._desk.name_of(group)!r} "
            f"({reasons or 'there is no other node'}); if there is none, say that this node's own "
            "is the first: `await group.begin_empty()`"
        )


def _digest(state: bytes) -> bytes:
    return hashlib.blake2b(state, digest_size=16).digest()


async def _first_of(tasks: "list[asyncio.Task[Obtained]]") -> None:
    """Wait a little, or until one of them is done."""
    if tasks:
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait(tasks, timeout=LOOK_EVERY.value, return_when=first)
    else:
        await asyncio.sleep(LOOK_EVERY.value)


def _in_words(said: dict[NodeId, str]) -> str:
    return "; ".join(said[node] for node in sorted(said))
