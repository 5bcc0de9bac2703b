"""Messages on their way out: encoded once for all links, introduced, traced."""

from typing import Any, final

from causalcast.core.effects import Send
from causalcast.core.ids import LinkId, NodeId
from causalcast.core.message import Message
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.rows import Rows, row_about
from causalcast.runtime.host.step_state import StepState
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import Addresses
from causalcast.runtime.links.links import Links
from causalcast.runtime.node_trace import DROP, SEND
from causalcast.wire.codec import Codec
from causalcast.wire.forms import Description
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
        self._message: Message | None = None  # the last one: copies go to many links
        self._encoded = b""
        self._described: Description | None = None

    def send(self, effect: Send) -> None:
        """Let a message leave when its step's entry is durable."""
        message = effect.message
        if message is not self._message:
            self._encoded = self._codec.encode(message)
            self._message = message
            self._described = None
        if self._naming:
            self._name_strangers(effect.to, message)
        row: tuple[Any, ...] | None = None
        if self._rows.wants[SEND] and type(message) not in self._untraced:
            if self._described is None:
                self._described = self._codec.describe(message, len(self._encoded))
            row = row_about(self._state.at_us, SEND, effect.to, self._described)
        self._state.later(self._transmit, effect.to, self._encoded, effect.link, row)

    def send_at_once(self, effect: Send) -> None:
        """The same where nothing is kept and nothing is traced."""
        if self._naming:
            self._name_strangers(effect.to, effect.message)
        if not self._outlets.put(effect.to, effect.message, effect.link) and not self._links.send(
            effect.to, self._codec.encode(effect.message), effect.link
        ):
            self._observed.notes["send_on_lost_link"] += 1

    def _transmit(self, to: NodeId, data: bytes, link: LinkId, row: tuple[Any, ...] | None) -> None:
        if not self._links.send(to, data, link):
            self._observed.notes["send_on_lost_link"] += 1
            self._rows.add_now(DROP, peer=to, note="link is no longer current")
        elif row is not None:
            self._rows.add(*row)

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
