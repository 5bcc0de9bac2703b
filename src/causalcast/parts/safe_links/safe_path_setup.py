"""Makes a link safe by an exchange along a path of links that are safe already.

For each direction on its own. The origin X floods a discovery over safe links; the target Y
answers on the new link with the path it came. Then four messages go along safe paths, in the
stream of tokens, so that they are ordered like messages:

    X --- alpha ---> Y     Y notes what it delivers (before_pi)
    X <-- beta ----- Y     X buffers what it delivers
    X --- pi ------> Y     Y notes apart what it delivers from here on (since_pi)
    X <-- rho ------ Y     X sends its buffer on the new link: the direction is safe

What X delivered before beta, Y has or will have from others before pi. The buffer has what X
delivered between beta and rho. What Y delivered since pi and is not in the buffer, X has still to
deliver, and will send: that is what X owes. Every stale message dies on its attempt's number.

Between two nodes that had delivered nothing when the link came up, the buffer alone does: that is
how founders begin. A newcomer asks one neighbour to adopt it; that link is safe at once, because
the newcomer is born after all that neighbour had delivered.

Source: P. Dias, "Tree-based Decentralized and Robust Causal Dissemination", MSc thesis, NOVA, 2020,
Algorithms 2 to 10. Where we differ from it:

- A direction's state is its own, per connection and per attempt; buffers keep their order.
- The answer to a discovery needs no order, so it travels on the new link and not in a flood of its
  own. There is no rediscovery: an attempt whose path broke runs into its timer, which is started
  anew at every step and waits longer each time.
- Links are adopted by a question of the newcomer, one link only, instead of being declared safe by
  the overlay's word: so a newcomer whose contact dies can be taken in by anybody else.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from causalcast.core.duration import MILLISECOND
from causalcast.core.ids import ANY_LINK, LinkId, MessageId, NodeId
from causalcast.core.message import Message, Publication, Wire
from causalcast.core.outbox import Outbox
from causalcast.core.spec import Option
from causalcast.limits import Limit
from causalcast.parts.safe_links.links import Delivery, Link, LinkSetup, SafeLinks
from causalcast.parts.safe_links.pieces import Piece, Pieces

DISCOVER: Final = "safe_path.discover"
MOST_TRIES: Final = Limit(
    "parts.safe_links.safe_path_setup.most_tries",
    6,
    least=1,
    most=64,
    unit="times",
    about="attempts to find a path before the link is given back to the overlay",
)
FORGET: Final = "safe_path.forget"
REMEMBERED: Final = Limit(
    "parts.safe_links.safe_path_setup.remembered",
    10,
    least=2,
    most=1024,
    unit="times",
    about="the patience of a discovery, for which its flood is remembered",
)

ALPHA: Final = 1
BETA: Final = 2
PI: Final = 3
RHO: Final = 4

# My direction: nothing yet, a discovery is out, alpha is out, buffering.
IDLE: Final = 0
SEARCHING: Final = 1
GREETED: Final = 2
BUFFERING: Final = 3
# The peer's direction: alpha came, pi came.
NOTING: Final = 1
WAITING: Final = 2


class Hello(Message):
    """The sender knows this link; whether it is born, and had delivered nothing when it came up."""

    wire = Wire("safe_path.hello", born=bool, empty=bool)

    def __init__(self, born: bool, empty: bool) -> None:
        self.born = born
        self.empty = empty


class Adopt(Message):
    """A newcomer asks to be born after everything the receiver has delivered."""

    wire = Wire("safe_path.adopt")


class Adopted(Message):
    """So be it; `empty` if that is nothing at all."""

    wire = Wire("safe_path.adopted", empty=bool)

    def __init__(self, empty: bool) -> None:
        self.empty = empty


class Discover(Message):
    """Find a way to `target` over safe links: pass it on, or answer on the new link."""

    wire = Wire(
        "safe_path.discover",
        origin=NodeId,
        target=NodeId,
        link=LinkId,
        attempt=int,
        path=list[NodeId],
    )

    def __init__(
        self, origin: NodeId, target: NodeId, link: LinkId, attempt: int, path: list[NodeId]
    ) -> None:
        self.origin = origin
        self.target = target
        self.link = link
        self.attempt = attempt
        self.path = path


class Found(Message):
    """Your discovery reached me along this path."""

    wire = Wire("safe_path.found", attempt=int, path=list[NodeId])

    def __init__(self, attempt: int, path: list[NodeId]) -> None:
        self.attempt = attempt
        self.path = path


class Control(Message):
    """One of the four messages of the exchange, `hop` hops along its route."""

    wire = Wire(
        "safe_path.control",
        kind=int,
        origin=NodeId,
        target=NodeId,
        link=LinkId,
        attempt=int,
        route=list[NodeId],
        hop=int,
    )

    def __init__(
        self,
        kind: int,
        origin: NodeId,
        target: NodeId,
        link: LinkId,
        attempt: int,
        route: list[NodeId],
        hop: int,
    ) -> None:
        self.kind = kind
        self.origin = origin
        self.target = target
        self.link = link
        self.attempt = attempt
        self.route = route
        self.hop = hop


class Buffer(Message):
    """What I delivered during the exchange, in order, most of it ahead, in pieces; tokens follow
    from here on."""

    wire = Wire("safe_path.buffer", attempt=int, publications=list[Publication], hops=list[int])

    def __init__(self, attempt: int, publications: list[Publication], hops: list[int]) -> None:
        self.attempt = attempt
        self.publications = publications
        self.hops = hops


MESSAGES: Final[list[type[Message]]] = [Hello, Adopt, Adopted, Discover, Found, Control, Buffer]
OPTIONS: Final[list[Option]] = [
    Option(
        "discover_for",
        1500 * MILLISECOND,
        # Some ten round trips of a slow network; each further attempt takes twice as long.
        "safe_path: give up an attempt that makes no progress for so long",
        unit="ms",
        change_if="a path of safe links takes longer than ten slow round trips",
    ),
]


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """Where the two directions of one link stand on their way to being safe."""

    def __init__(self, link: Link, empty: bool) -> None:
        self.link = link
        # My direction
        self.state = IDLE
        self.attempt = 0  # never used again
        self.tries = 0
        self.path: list[NodeId] = []
        self.buffer: list[Delivery] | None = [] if empty else None
        # The peer's direction
        self.their_state = IDLE
        self.their_attempt = 0
        self.before_pi: dict[MessageId, None] | None = None
        self.since_pi: dict[MessageId, int] | None = {} if empty else None
        # Greetings
        self.was_empty = empty  # nothing was delivered here when the link came up
        self.peer_born = False
        self.peer_was_empty = False
        self.wants_adoption = False

    def forget_beginning(self) -> None:
        """This link begins in the middle of a history: what was noted from the start is void."""
        self.was_empty = False
        self.buffer = None
        self.since_pi = None


@final
class PassedFloods:
    """Discoveries that passed through here, and when each of them did."""

    def __init__(self) -> None:
        self._at: dict[tuple[LinkId, NodeId, int], int] = {}

    def __getstate__(self) -> object:
        """Which came first means nothing: whoever compares memories finds equal ones equal."""
        return {"_at": dict(sorted(self._at.items()))}

    def __len__(self) -> int:
        return len(self._at)

    def has(self, discover: Discover) -> bool:
        """Whether this one has passed before."""
        return (discover.link, discover.origin, discover.attempt) in self._at

    def add(self, discover: Discover, now: int) -> None:
        """It passes now."""
        self._at[discover.link, discover.origin, discover.attempt] = now

    def forget_until(self, then: int) -> None:
        """Floods of long ago do not come by any more."""
        self._at = {known: at for known, at in self._at.items() if at > then}


@final
class SafePathSetup(LinkSetup):
    """The exchanges of all links, and which discoveries passed through here.

    Large because greeting, adoption, discovery and the exchange are steps of one link's way to
    being safe, and each looks at where the others left it.
    """

    def __init__(self, owner: SafeLinks, patience: int) -> None:
        self.owner = owner
        self.exchanges: dict[LinkId, Exchange] = {}
        self.has_history = False
        self.adopter = ANY_LINK  # whom we asked to adopt us
        self._patience = patience
        self._floods = PassedFloods()
        self._pieces = Pieces()

    # Links come and go

    def on_up(self, link: Link, out: Outbox) -> None:
        exchange = Exchange(link, not self.has_history)
        self.exchanges[link.name] = exchange
        self._send(link, Hello(self.owner.born, exchange.was_empty), out)

    def on_lost(self, link: Link, out: Outbox) -> None:
        exchange = self.exchanges.pop(link.name)
        self._pieces.on_lost(link)
        if exchange.state != IDLE or exchange.tries > 0:
            out.cancel_timer(DISCOVER, link.name)
        if self.adopter == link.name:
            self.adopter = ANY_LINK
            self._ask_for_adoption(out)

    def on_delivery(self, publication: Publication, hops: int, out: Outbox) -> None:
        self.has_history = True
        for exchange in self.exchanges.values():
            if exchange.buffer is not None:
                exchange.buffer.append(Delivery(publication, hops))
            if exchange.before_pi is not None:
                exchange.before_pi[publication.id] = None
            if exchange.since_pi is not None:
                exchange.since_pi[publication.id] = self.owner.delivered

    def on_message(self, link: Link, message: Message, out: Outbox) -> None:
        exchange = self.exchanges[link.name]
        if isinstance(message, Control):
            self._on_control(message, out)
        elif isinstance(message, Discover):
            self._on_discover(link, message, out)
        elif isinstance(message, Piece):
            self._pieces.on_piece(link, message, out)
        elif isinstance(message, Buffer):
            self._on_buffer(exchange, message, out)
        elif isinstance(message, Found):
            self._on_found(exchange, message, out)
        elif isinstance(message, Hello):
            self._on_hello(exchange, message, out)
        elif isinstance(message, Adopt):
            exchange.wants_adoption = True
            if self.owner.born:
                self._adopt(exchange, out)
        elif isinstance(message, Adopted):
            self._on_adopted(exchange, message, out)
        else:
            out.note("safe_path.not_for_me", link.peer)  # of the other set-up

    # Greetings and adoption

    def _on_hello(self, exchange: Exchange, hello: Hello, out: Outbox) -> None:
        if not hello.born or exchange.peer_born:  # nobody is born twice
            return
        exchange.peer_born = True
        exchange.peer_was_empty = hello.empty
        if self.owner.born:
            self._begin(exchange, out)
        else:
            self._ask_for_adoption(out)

    def _begin(self, exchange: Exchange, out: Outbox) -> None:
        """Both ends are born and know the link."""
        if exchange.was_empty and exchange.peer_was_empty:
            exchange.their_state = WAITING
            self._send_buffer(exchange, out)
        else:
            exchange.forget_beginning()
            self._attempt(exchange, out)

    def _ask_for_adoption(self, out: Outbox) -> None:
        if self.owner.born or self.adopter != ANY_LINK:
            return
        for exchange in self.exchanges.values():
            if exchange.peer_born:
                self.adopter = exchange.link.name
                self._send(exchange.link, Adopt(), out)
                return

    def _adopt(self, exchange: Exchange, out: Outbox) -> None:
        exchange.wants_adoption = False
        exchange.forget_beginning()
        self._send(exchange.link, Adopted(not self.has_history), out)
        self.owner.make_in_safe(exchange.link, {}, out)
        self.owner.make_out_safe(exchange.link, out)
        for other in list(self.exchanges.values()):
            self._try_again(other, out)

    def _on_adopted(self, exchange: Exchange, adopted: Adopted, out: Outbox) -> None:
        if self.owner.born:
            return
        if not adopted.empty:
            self.has_history = True
            for other in self.exchanges.values():
                other.forget_beginning()
        exchange.forget_beginning()
        self.owner.make_in_safe(exchange.link, {}, out)
        self.owner.make_out_safe(exchange.link, out)
        for other in self.exchanges.values():
            if other is not exchange:
                self._send(other.link, Hello(True, other.was_empty), out)
        self.owner.be_born(out)
        for other in list(self.exchanges.values()):
            if other is exchange:
                continue
            if other.wants_adoption:
                self._adopt(other, out)
            elif other.peer_born:
                self._begin(other, out)

    # A path

    def _attempt(self, exchange: Exchange, out: Outbox) -> None:
        link = exchange.link
        exchange.tries += 1
        exchange.buffer = None
        exchange.path = []
        if exchange.tries > MOST_TRIES.value:
            exchange.tries = 0
            exchange.state = IDLE
            out.note("safe_path.given_up", link.peer)
            out.switch(link.name)
            return
        exchange.attempt += 1
        exchange.state = SEARCHING
        self._wait(exchange, out)
        me = self.owner.me
        self._pass_on(Discover(me, link.peer, link.name, exchange.attempt, []), None, out)

    def _try_again(self, exchange: Exchange, out: Outbox) -> None:
        """Something changed: a link that was given up may have a path now.

        Without a change there is none to come: links become safe only between nodes that are
        joined by safe links already.
        """
        resting = exchange.state == IDLE and exchange.tries == 0 and not exchange.link.safe_out
        if resting and exchange.peer_born and exchange.attempt > 0:
            self._attempt(exchange, out)

    def _wait(self, exchange: Exchange, out: Outbox) -> None:
        after = self._patience << min(exchange.tries - 1, 5)
        out.start_timer(DISCOVER, after, exchange.link.name)

    def on_timer(self, name: str, subject: int, out: Outbox) -> None:
        if name == FORGET:
            self._forget(out)
            return
        assert name == DISCOVER
        exchange = self.exchanges.get(LinkId(subject))
        if exchange is not None and not exchange.link.safe_out:
            self._attempt(exchange, out)

    def _on_discover(self, link: Link, discover: Discover, out: Outbox) -> None:
        me = self.owner.me
        if discover.origin == me or self._floods.has(discover):
            return
        self._remember(discover, out)
        path = [*discover.path, me]
        if discover.target == me:
            exchange = self.exchanges.get(discover.link)
            if exchange is not None and exchange.link.peer == discover.origin:
                self._send(exchange.link, Found(discover.attempt, path), out)
                self._try_again(exchange, out)  # where there is a way here, there may be one back
            return
        passed_on = Discover(
            discover.origin, discover.target, discover.link, discover.attempt, path
        )
        self._pass_on(passed_on, link, out)

    def _pass_on(self, discover: Discover, source: Link | None, out: Outbox) -> None:
        for link in self.owner.links.values():
            known = link is source or link.peer == discover.origin or link.peer in discover.path
            if link.safe_out and not known:
                self._send(link, discover, out)

    def _remember(self, discover: Discover, out: Outbox) -> None:
        if len(self._floods) == 0:
            out.start_timer(FORGET, REMEMBERED.value * self._patience)
        self._floods.add(discover, out.now)

    def _forget(self, out: Outbox) -> None:
        self._floods.forget_until(out.now - REMEMBERED.value * self._patience)
        if len(self._floods) > 0:
            out.start_timer(FORGET, REMEMBERED.value * self._patience)

    def _on_found(self, exchange: Exchange, found: Found, out: Outbox) -> None:
        if exchange.state != SEARCHING or found.attempt != exchange.attempt:
            return
        exchange.path = list(found.path)
        exchange.state = GREETED
        self._wait(exchange, out)
        self._speak(exchange, ALPHA, out)

    # The exchange

    def _speak(self, exchange: Exchange, kind: int, out: Outbox) -> None:
        """Alpha or pi, to the target."""
        me, link = self.owner.me, exchange.link
        self._route(
            Control(kind, me, link.peer, link.name, exchange.attempt, exchange.path, 0), out
        )

    def _answer(self, exchange: Exchange, kind: int, asked: Control, out: Outbox) -> None:
        """Beta or rho, back to the origin: whichever way is known to be safe."""
        link = exchange.link
        if link.safe_out:
            route = [link.peer]
        elif exchange.path:
            route = exchange.path
        else:
            route = [*reversed(asked.route[:-1]), asked.origin]
        self._route(
            Control(kind, asked.origin, asked.target, link.name, asked.attempt, route, 0), out
        )

    def _route(self, control: Control, out: Outbox) -> None:
        link = None
        if 0 <= control.hop < len(control.route):
            link = self.owner.links.get(control.route[control.hop])
        if link is not None and link.safe_out:
            self.owner.tokens.send_in_stream(link, control, out)
        else:
            out.note("safe_path.path_broken", control.origin)

    def _on_control(self, control: Control, out: Outbox) -> None:
        if control.hop + 1 < len(control.route):
            self._route(
                Control(
                    control.kind,
                    control.origin,
                    control.target,
                    control.link,
                    control.attempt,
                    control.route,
                    control.hop + 1,
                ),
                out,
            )
            return
        exchange = self.exchanges.get(control.link)
        if exchange is None:
            out.note("safe_path.link_gone", control.origin)
        elif control.kind == ALPHA or control.kind == PI:
            if control.target == self.owner.me and exchange.link.peer == control.origin:
                self._at_target(exchange, control, out)
        elif control.origin == self.owner.me and control.attempt == exchange.attempt:
            self._at_origin(exchange, control, out)

    def _at_target(self, exchange: Exchange, control: Control, out: Outbox) -> None:
        if exchange.link.safe_in:
            return
        if control.kind == ALPHA and control.attempt > exchange.their_attempt:
            exchange.their_attempt = control.attempt
            exchange.their_state = NOTING
            exchange.before_pi = {}
            exchange.since_pi = None
            self._answer(exchange, BETA, control, out)
        elif (
            control.kind == PI
            and exchange.their_state == NOTING
            and control.attempt == exchange.their_attempt
        ):
            exchange.their_state = WAITING
            exchange.since_pi = {}
            self._answer(exchange, RHO, control, out)

    def _at_origin(self, exchange: Exchange, control: Control, out: Outbox) -> None:
        if control.kind == BETA and exchange.state == GREETED:
            exchange.state = BUFFERING
            exchange.buffer = []
            self._wait(exchange, out)
            self._speak(exchange, PI, out)
        elif control.kind == RHO and exchange.state == BUFFERING:
            out.cancel_timer(DISCOVER, exchange.link.name)
            self._send_buffer(exchange, out)

    def _send_buffer(self, exchange: Exchange, out: Outbox) -> None:
        buffered = exchange.buffer
        assert buffered is not None
        rest = self._pieces.send_ahead(exchange.link, buffered, out)
        publications = [entry.publication for entry in rest]
        hops = [entry.hops for entry in rest]
        self._send(exchange.link, Buffer(exchange.attempt, publications, hops), out)
        exchange.buffer = None
        exchange.path = []
        exchange.state = IDLE
        exchange.tries = 0
        self.owner.make_out_safe(exchange.link, out)
        for other in list(self.exchanges.values()):
            self._try_again(other, out)

    def _on_buffer(self, exchange: Exchange, buffer: Buffer, out: Outbox) -> None:
        link = exchange.link
        buffered = self._pieces.whole(link, buffer.publications, buffer.hops)
        before, since = exchange.before_pi or {}, exchange.since_pi
        stale = exchange.their_state != WAITING or buffer.attempt != exchange.their_attempt
        if stale or since is None or link.safe_in:
            out.note("safe_path.stale_buffer", link.peer)
            return
        exchange.their_state = IDLE
        exchange.before_pi = exchange.since_pi = None
        sent = {entry.publication.id: None for entry in buffered}
        owed = {message: count for message, count in since.items() if message not in sent}
        self.owner.make_in_safe(link, owed, out)  # memory first, then deliveries
        for entry in buffered:
            publication = entry.publication
            self.owner.tokens.peer_has(link, publication.id, out)
            if publication.id not in before and publication.id not in since:
                self.owner.accept(publication, entry.hops, link, out)

    def size(self) -> int:
        buffered = 0
        for exchange in self.exchanges.values():
            buffered += len(exchange.buffer or []) + len(exchange.before_pi or {})
            buffered += len(exchange.since_pi or {})
        return buffered + len(self._floods) + self._pieces.size()

    def _send(self, link: Link, message: Message, out: Outbox) -> None:
        out.send(link.peer, message, link.name)
