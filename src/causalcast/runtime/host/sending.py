"""Messages on their way out: introduced, traced, and encoded once for all links."""

from typing import final

from causalcast.core.effects import Send
from causalcast.core.ids import NodeId
from causalcast.core.message import Message, Single
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows, beside_bodies, row_about, run_row
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import Addresses
from causalcast.runtime.links.links import Links
from causalcast.runtime.links.outlet import Outlet
from causalcast.runtime.machine import NodeClock
from causalcast.runtime.node_trace import DROP, SEND
from causalcast.wire.codec import Codec
from causalcast.wire.framing import frame


@final
class Sending:
    """What happens to a message that the stack sends."""

    def __init__(
        self,
        me: NodeId,
        links: Links,
        codec: Codec,
        book: AddressBook,
        state: StepState,
        rows: Rows,
        observed: Observed,
        untraced: set[type[Message]],  # beats of detectors, where few want to see them
        naming: set[type[Message]],  # messages that name nodes which their receiver may dial
        clock: NodeClock,
    ) -> None:
        self._me = me
        self._links = links
        self._outlets = links.outlets
        self._codec = codec
        self._book = book
        self._state = state
        self._rows = rows
        self._observed = observed
        self._untraced = untraced
        self._naming = naming
        self._clock = clock
        if rows.wants[SEND]:
            self._outlets.on_encoded = self._left

    def send(self, effect: Send) -> None:
        """Let a message leave when its step's entry is durable."""
        if self._naming:
            self._name_strangers(effect.to, effect.message)
        self._state.later(self._transmit, effect)

    def send_at_once(self, effect: Send) -> None:
        """The same where nothing is kept and nothing is traced."""
        if self._naming:
            self._name_strangers(effect.to, effect.message)
        if not self._outlets.put(effect.to, effect.message, effect.link) and not self._links.send(
            effect.to, self._codec.encode(effect.message), effect.link
        ):
            self._observed.notes["send_on_lost_link"] += 1

    def _transmit(self, effect: Send) -> None:
        to, message = effect.to, effect.message
        if self._outlets.put(to, message, effect.link):
            return
        data = self._codec.encode(message)
        if not self._links.send(to, data, effect.link):
            self._observed.notes["send_on_lost_link"] += 1
            self._rows.add_now(DROP, peer=to, note="link is no longer current")
        elif self._rows.wants[SEND] and type(message) not in self._untraced:  # it waits for a dial
            about = self._codec.describe(message, len(data))
            self._rows.happened([row_about(self._clock.wall_us(), SEND, to, about)])

    def _left(self, outlet: Outlet, run: list[Message], size: int) -> None:
        """Messages leave as one, in `size` bytes: tell of each."""
        first = run[0]
        if type(first) in self._untraced:
            return
        at_us, to = self._clock.wall_us(), outlet.peer
        about = self._codec.describe(first, size)
        if len(run) == 1:
            self._rows.happened([row_about(at_us, SEND, to, about)])
            return
        publications = [one.publication for one in run if isinstance(one, Single)]
        beside = beside_bodies(about, publications)
        self._rows.happened(
            [run_row(at_us, SEND, to, about, one, beside.pop()) for one in publications]
        )

    def _name_strangers(self, to: NodeId, message: Message) -> None:
        if type(message) in self._naming:
            named = self._codec.nodes_named(message)
            if named:
                self._state.later(self._introduce, to, named)

    def _introduce(self, to: NodeId, named: list[NodeId]) -> None:
        """Tell `to` where those it is about to hear of can be reached."""
        link = self._links.current_link(to)
        if link is not None:
            strangers = [node for node in named if node not in (to, self._me)]
            addresses = link.introduced.of_strangers(strangers, self._book)
            if addresses:
                link.write(frame(self._codec.encode(Addresses(addresses))))
