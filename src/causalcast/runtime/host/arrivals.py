"""What comes on links: decoded, admitted, and given to the stack, all of one read in one step."""

from typing import final

from causalcast.core.ids import NUMBER_BITS, NUMBER_MASK, NodeId
from causalcast.core.message import Message, Single
from causalcast.core.stack import MULTICAST, Stack
from causalcast.errors import WireError
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.rows import Rows, beside_bodies, row_about, run_row
from causalcast.runtime.host.steps import Fail, Steps
from causalcast.runtime.links.address_book import AddressBook
from causalcast.runtime.links.introductions import Addresses, take_in
from causalcast.runtime.links.links import Connection
from causalcast.runtime.node_trace import RECEIVE
from causalcast.runtime.security.admission import Admission
from causalcast.runtime.security.waiting import Waiting
from causalcast.wire.codec import Codec
from causalcast.wire.forms import Description
from causalcast.wire.runs import Arrived, one_by_one


@final
class Arrivals:
    """The way of a frame from a link to the stack."""

    def __init__(
        self,
        stack: Stack,
        steps: Steps,
        codec: Codec,
        admission: Admission,
        waiting: Waiting,
        inbox: Inbox,
        rows: Rows,
        acquaintances: Acquaintances,
        book: AddressBook,
        naming_layer: int,  # of messages that say where nodes are; -1 if there are none
        over_tls: bool,
        untraced: set[type[Message]],
        protocol: str,
        fail: Fail,
    ) -> None:
        self.unproven = 0  # messages that declare nodes gone whom nobody has revoked
        self.runs = 0  # publications that travelled together, so often
        self._stack = stack
        self._steps = steps
        self._codec = codec
        self._admission = admission
        self._waiting = waiting
        self._inbox = inbox
        self._rows = rows
        self._acquaintances = acquaintances
        self._book = book
        self._naming_layer = naming_layer
        self._over_tls = over_tls
        self._untraced = untraced
        self._protocol = protocol
        self._fail = fail

    def take(self, link: Connection, frames: list[memoryview], now: float) -> None:
        """All frames of one read, with one `now`; raises WireError for one that is no message."""
        self._steps.start()
        sizes: list[int] | None = [] if self._rows.wants[RECEIVE] else None
        messages, error = self._codec.decode_all(frames, sizes)
        link.outlet.traffic.received_messages += len(messages)
        self._inbox.gather()
        try:
            control = self._receive_in_one_step(link, messages, sizes)
        finally:
            self._inbox.hand_over()
        if control:
            pause = link.control.take(control, now)
            if pause and link.current:
                link.rest(pause)
        if error is not None and link.current:
            raise error

    def _receive_in_one_step(
        self, link: Connection, messages: list[Arrived], sizes: list[int] | None
    ) -> int:
        """How many of them were for the layers below the multicast.

        `sizes`: the bytes of each, where rows tell what came.
        """
        peer, steps, stack, admission = link.peer, self._steps, self._stack, self._admission
        out = steps.out
        control = number = 0
        message: Message | None = None
        codec, waiting = self._codec, self._waiting
        waiting.arriving(messages)
        try:
            for place, (layer, message, carried) in enumerate(messages):
                if not link.current:  # a message before it ended the link
                    break
                if layer != MULTICAST:
                    control += 1
                    if layer == self._naming_layer:
                        assert isinstance(message, Addresses)
                        take_in(message, self._book, self._over_tls)
                        continue
                is_run = len(carried) > 1 and isinstance(message, Single)
                if is_run:
                    self.runs += 1
                    link.outlet.traffic.received_messages += len(carried) - 1
                    admission.check_run(peer, carried)
                elif carried:
                    admission.check(peer, carried)
                if carried and waiting.by_message:
                    waiting.check(peer, carried)
                admission.check_spoken_of(
                    codec.nodes_spoken_of(message), codec.groups_spoken_of(message)
                )
                if self._over_tls:
                    gone = codec.declared_gone(message)
                    if gone and not admission.are_proven_gone(peer, gone):
                        self.unproven += 1  # not a lie for certain: the proof may be on its way
                        continue
                if admission.looks_at_members:
                    admission.check_members(peer, message)
                if carried and carried[-1].id >> NUMBER_BITS == peer:
                    number = max(number, carried[-1].id & NUMBER_MASK)
                if sizes is not None and type(message) not in self._untraced:
                    about = codec.describe(message, sizes[place])
                    if is_run:
                        self._receive_traced_run(peer, messages[place], about)
                    else:
                        self._rows.of_step(row_about(steps.state.at_us, RECEIVE, peer, about))
                        stack.receive(layer, peer, message, out)
                        steps.act()  # so that the rows of a message follow one another
                elif is_run and isinstance(message, Single):
                    stack.receive_run(peer, message, carried, out)
                else:
                    stack.receive(layer, peer, message, out)
                if out.closes_link:
                    steps.settle()
            steps.settle()
            if number:
                self._acquaintances.hear(peer, number)
        except WireError:
            steps.finish(_nothing_more)  # what came before it counts
            raise
        except Exception as error:  # a bug in a protocol stops this node and nobody else
            self._fail(error, f"a bug in {self._protocol}, at {message!r}")
        return control

    def _receive_traced_run(self, peer: NodeId, arrived: Arrived, about: Description) -> None:
        """Publications that travelled as one: each has rows of its own. `about` tells of the first,
        with the bytes of all."""
        steps = self._steps
        beside = beside_bodies(about, arrived[2])
        for layer, message, (publication,) in one_by_one(arrived):
            row = run_row(steps.state.at_us, RECEIVE, peer, about, publication, beside.pop())
            self._rows.of_step(row)
            self._stack.receive(layer, peer, message, steps.out)
            steps.act()


def _nothing_more() -> None:
    """The stack has acted already."""
