"""`causalcast udp` and `causalcast udp-ptp`: the programs of Bosneag, Raicu, Ford and Zhang.

*Causal Multicast over a Reliable Point-to-Point Protocol* describes two: the final one, which
multicasts to the members of `members.dat` in causal order, and the first one, which speaks with one
peer over the point-to-point layer alone. Their flags are kept.
"""

import argparse
import asyncio
import socket
from pathlib import Path
from typing import Any

from causalcast.cli.udp.debug import counted, on_the_wire, told, told_of_leaving
from causalcast.cli.udp.endpoint import UdpEndpoint
from causalcast.cli.udp.member_message import (
    COUNTED_ON,
    LONGEST_TEXT,
    LOST,
    PASSED_ON,
    MemberMessage,
    decode,
    encode,
    encode_lost,
    encode_passed_on,
)
from causalcast.cli.udp.members_file import Member, find_member, read_members, resolve
from causalcast.cli.udp.prompt import Prompt
from causalcast.core.duration import SECOND
from causalcast.datagrams import point_to_point as ptp
from causalcast.datagrams.plain_bytes import LARGEST_BODY
from causalcast.datagrams.point_to_point import Datagram, Effect, PointToPointOptions
from causalcast.errors import ConfigError, WireError
from causalcast.protocols.member_multicast.members import Copy, MemberMulticast, Taken

# Messages of one member in the hold-back queue; it is asked to wait then. None is thrown away: the
# next may be what all of them wait for.
MOST_HELD = 1024
HELP = "type a message, or: @ada,bob a message for these alone; /members /clock /queue /quit"


def add_to(subparsers: Any) -> None:
    """Declare both commands."""
    udp = subparsers.add_parser(
        "udp",
        description="Causal multicast over reliable UDP: validity, integrity and causal order; "
        "no agreement when a sender dies half-way. " + HELP,
    )
    udp.add_argument(
        "-S",
        dest="local",
        required=True,
        metavar="LOCAL",
        help="which line of members.dat this is: its host, host:port or name",
    )
    udp.add_argument("--members", type=Path, default=Path("members.dat"), metavar="FILE")
    _add_common(udp)
    udp.add_argument(
        "-t",
        dest="ack_delay",
        type=_count,
        default=0,
        metavar="US",
        help="delay acknowledgements by so many microseconds",
    )
    udp.add_argument(
        "-T",
        dest="copy_delay",
        type=_count,
        default=0,
        metavar="US",
        help="delay the copy to the last active member by so many microseconds",
    )
    udp.add_argument(
        "-C",
        dest="causal_debug",
        type=_switch,
        default=False,
        metavar="0|1",
        help="tell what the causal layer does",
    )
    udp.set_defaults(run=_run_udp)

    single = subparsers.add_parser(
        "udp-ptp",
        description="Reliable messages to one peer over UDP: in order, once, or it is reported.",
    )
    single.add_argument("-H", dest="host", required=True, help="the peer's host")
    single.add_argument("-P", dest="port", type=_port, required=True, help="the peer's port")
    single.add_argument("-p", dest="receive", type=_port, required=True, help="our own port")
    _add_common(single)
    single.add_argument(
        "-t",
        dest="ask_delay",
        type=_switch,
        default=False,
        metavar="0|1",
        help="ask for each message by how many seconds to delay its acknowledgement",
    )
    single.set_defaults(run=_run_single)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        dest="retransmissions",
        type=_count,
        default=5,
        metavar="TIMES",
        help="how often to retransmit before a peer counts as failed (5)",
    )
    parser.add_argument(
        "-s",
        dest="ask_number",
        type=_switch,
        default=False,
        metavar="0|1",
        help="ask for each message which number to acknowledge instead",
    )
    parser.add_argument(
        "-D",
        dest="debug",
        type=_switch,
        default=False,
        metavar="0|1",
        help="tell what the point-to-point layer does",
    )


def _run_udp(options: argparse.Namespace) -> int:
    members = read_members(options.members)
    me = find_member(members, options.local, options.members)
    asyncio.run(_converse(lambda: MulticastSession(members, me, options)))
    return 0


def _run_single(options: argparse.Namespace) -> int:
    try:
        peer = (resolve(options.host), options.port)
    except ValueError as error:
        raise ConfigError(f"-H: {error}") from None
    asyncio.run(_converse(lambda: SingleSession(peer, options)))
    return 0


async def _converse(start: Any) -> None:
    session: Session = start()
    try:
        await session.prompt.ended.wait()
        while not session.is_settled():  # what was typed is brought over, or reported
            await asyncio.sleep(0.02)
    finally:
        session.close()


class Session:
    """A prompt, an endpoint, and the two ways to disturb acknowledgements."""

    endpoint: UdpEndpoint
    names: list[str]

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.prompt = Prompt(self.on_line)
        self._asked: dict[tuple[int, int], Datagram] = {}  # acknowledgements that wait for a word
        self._loop = asyncio.get_running_loop()

    def on_line(self, line: str) -> None:
        """The user typed something."""
        raise NotImplementedError

    def is_settled(self) -> bool:
        """Whether nothing is under way any more."""
        return all(layer.queued() == 0 for layer in self.endpoint.layers)

    def close(self) -> None:
        """The end."""
        self.prompt.close()
        self.endpoint.close()

    # What the endpoint tells

    def may_leave(self, peer: int, datagram: Datagram) -> bool:
        """Let it leave, unless the user wants to be asked about it."""
        delays = getattr(self.options, "ask_delay", False)
        if datagram.kind == ptp.ACK and (delays or self.options.ask_number):
            self.endpoint.layers[peer].take_back_ack(datagram)
            self._ask(peer, datagram, delays)
            return False
        self.debug(peer, told_of_leaving(self.endpoint.layers[peer], datagram))
        return True

    def debug(self, peer: int, text: str) -> None:
        """Tell what the point-to-point layer does, if that is wanted."""
        if text and self.options.debug:
            self.prompt.say(f"[ptp] {self.names[peer]}: {text}")

    def _ask(self, peer: int, datagram: Datagram, delays: bool) -> None:
        key = (peer, datagram.number)
        is_asked = key in self._asked
        self._asked[key] = datagram  # the newest says all that an older one said
        if is_asked:
            return
        number = counted(self.endpoint.layers[peer], datagram.number, True)
        about = f"acknowledgement of {number} to {self.names[peer]}"
        if delays:
            question = f"delay the {about} by how many seconds? [0]"
            self.prompt.ask(question, lambda answer: self._delay(key, about, answer))
        else:
            self.prompt.ask(
                f"another number for the {about}? [{number}]",
                lambda answer: self._change(key, about, answer),
            )

    def _delay(self, key: tuple[int, int], about: str, answer: str) -> None:
        datagram = self._asked[key]
        seconds = _number(answer)
        if not self.options.ask_number:
            del self._asked[key]
            if seconds > 0:
                self.prompt.say(f"[ptp] {about} delayed by {seconds:g} s")
                self._loop.call_later(seconds, self.endpoint.transmit, key[0], datagram)
            else:
                self.prompt.say(f"[ptp] {about} sent")
                self.endpoint.transmit(key[0], datagram)
            return
        self.prompt.ask(
            f"another number for the {about}?",
            lambda number: self._change(key, about, number, seconds),
        )

    def _change(self, key: tuple[int, int], about: str, answer: str, seconds: float = 0.0) -> None:
        datagram = self._asked.pop(key)
        if answer.lstrip("-").isdecimal():
            number = on_the_wire(self.endpoint.layers[key[0]], int(answer))
            if number != datagram.number:
                datagram.ack = (datagram.number - 1) % ptp.NUMBERS
                datagram.early = 0
                datagram.answered_transmission = 0
                datagram.number = number
                about += f" modified to {answer}"
        self.prompt.say(f"[ptp] {about} sent" + (f" in {seconds:g} s" if seconds else ""))
        self._loop.call_later(seconds, self.endpoint.transmit, key[0], datagram)


class SingleSession(Session):
    """The first program: one peer, no order but the peer's own."""

    def __init__(self, peer: tuple[str, int], options: argparse.Namespace) -> None:
        super().__init__(options)
        self.names = [f"{options.host}:{options.port}"]
        listen = ("::" if ":" in peer[0] else _own_address_towards(peer), options.receive)
        layer = PointToPointOptions(options.retransmissions)
        self.endpoint = UdpEndpoint(listen, [peer], layer, self)
        self.prompt.say(f"listening at {listen[0]}:{listen[1]}; type a message, or /quit")

    def on_line(self, line: str) -> None:
        if line == "/quit":
            self.prompt.close()
        elif len(line.encode()) > LARGEST_BODY:
            self.prompt.say(f"not sent: longer than {LARGEST_BODY} bytes")
        elif not self.endpoint.send(0, line.encode()):
            self.prompt.say("not sent: the queue is full")

    def happened(self, peer: int, effect: Effect) -> None:
        """Print messages, failures, and what people want to watch."""
        if isinstance(effect, ptp.Deliver):
            self.prompt.say(f"{self.names[0]}: {effect.body.decode(errors='replace')}")
        elif isinstance(effect, ptp.Failed):
            lost = f"; {effect.lost} messages may not have come" if effect.lost else ""
            self.prompt.say(f"{self.names[0]} has failed: {effect.reason}{lost}")
        else:
            self.debug(peer, told(self.endpoint.layers[peer], effect))


class MulticastSession(Session):
    """The final program: everybody in members.dat, in causal order."""

    def __init__(self, members: list[Member], me: int, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.names = [member.name for member in members]
        self.multicast = MemberMulticast(me, len(members))
        senders = [(member.ip, member.port) for member in members]
        layer = PointToPointOptions(options.retransmissions, options.ack_delay)
        self.endpoint = UdpEndpoint(senders[me], senders, layer, self)
        self._delayed = [0] * len(members)  # copies that have not reached the layer below
        self._next_copy_at = [0.0] * len(members)
        self._unsent: list[list[bytes]] = [[] for _ in members]  # passed on, not accepted below
        self._is_full = [False] * len(members)
        self.prompt.say(f"{self.names[me]} at {senders[me][0]}:{senders[me][1]}; {HELP}")

    def is_settled(self) -> bool:
        return not any(self._delayed) and not self._passes_on() and super().is_settled()

    def _passes_on(self) -> bool:
        return any(self._unsent[member] for member in self.multicast.others())

    # What the user does

    def on_line(self, line: str) -> None:
        if line == "/quit":
            self.prompt.close()
        elif line == "/members":
            for name, active in zip(self.names, self.multicast.active, strict=True):
                self.prompt.say(f"{name}: {'active' if active else 'failed'}")
        elif line == "/clock":
            self.prompt.say(f"clock {self.multicast.clock()}")
        elif line == "/queue":
            self._tell_queue()
        elif line.startswith("/"):
            self.prompt.say(HELP)
        else:
            self._multicast(line)

    def _multicast(self, line: str) -> None:
        to = list(range(len(self.names)))
        text = line
        if line.startswith("@"):
            chosen, _, text = line[1:].partition(" ")
            unknown = [name for name in chosen.split(",") if name not in self.names]
            if unknown or not text:
                self.prompt.say(
                    f"not sent: {f'no member {unknown[0]!r}' if unknown else 'no text'}"
                )
                return
            to = [self.names.index(name) for name in chosen.split(",")]
        if len(text.encode()) > LONGEST_TEXT:
            self.prompt.say(f"not sent: longer than {LONGEST_TEXT} bytes")
            return
        for member in self.multicast.others():
            if not self._has_room(member):
                # With a copy missing, that member would wait for this number for ever.
                self.prompt.say(f"not sent: the queue for {self.names[member]} is full")
                return
        own, copies = self.multicast.multicast(text.encode(), to)
        self._tell_delivery(own)
        for copy in copies:
            self._send_copy(copy)

    def _has_room(self, member: int) -> bool:
        """Whether the layer below would take one message more, behind those that are delayed."""
        layer = self.endpoint.layers[member]
        return layer.queued() + self._delayed[member] < layer.options.queue

    def _send_copy(self, copy: Copy) -> None:
        """Hand a copy to the layer below, the last active member's later if that is wanted."""
        now = self._loop.time()
        is_last = copy.to == self.multicast.others()[-1]
        due = now + (self.options.copy_delay / SECOND if is_last else 0.0)
        due = self._next_copy_at[copy.to] = max(due, self._next_copy_at[copy.to])  # in order
        if due <= now:
            self._hand_down(copy)
            return
        self._delayed[copy.to] += 1
        self.causal_debug(f"copy to {self.names[copy.to]} delayed by {due - now:.1f} s")
        self._loop.call_at(due, self._hand_down_later, copy)

    def _hand_down_later(self, copy: Copy) -> None:
        self._delayed[copy.to] -= 1
        self._hand_down(copy)

    def _hand_down(self, copy: Copy) -> None:
        if self.multicast.active[copy.to]:
            accepted = self.endpoint.send(copy.to, encode(copy.stamped))
            assert accepted  # there was room when the message was stamped

    # What the layer below tells

    def happened(self, peer: int, effect: Effect) -> None:
        """Messages go to the causal layer; a peer that failed leaves the group for good."""
        if isinstance(effect, ptp.Deliver):
            self._take(peer, effect.body)
        elif isinstance(effect, ptp.Failed):
            self._drop(peer, effect.reason)
        else:
            self.debug(peer, told(self.endpoint.layers[peer], effect))

    def _take(self, peer: int, body: bytes) -> None:
        try:
            message = decode(body)
        except WireError as error:
            self.prompt.say(f"{self.names[peer]} sent {error}")
            return
        if message.member >= len(self.names):
            self.prompt.say(f"{self.names[peer]} sent something about a member that is not there")
            return
        if message.kind == LOST:
            self._pass_on_later(peer, message)
        else:
            self._receive(peer, message)
        self._pass_on()
        self._tell_queue(debug=True)

    def _receive(self, peer: int, message: MemberMessage) -> None:
        is_passed_on = message.kind in (PASSED_ON, COUNTED_ON)
        origin = message.member if is_passed_on else peer
        vector = message.stamped.vector[: len(self.names)]
        through = f" through {self.names[peer]}" if is_passed_on else ""
        self.causal_debug(
            f"message {vector[origin]} of {self.names[origin]} came{through}, clock {vector}"
        )
        if is_passed_on:
            taken = self.multicast.passed_on(origin, message.stamped)
        else:
            taken = self.multicast.receive(origin, message.stamped)
        for one in taken:
            self._tell_delivery(one)
        for member in {origin, *(one.sender for one in taken)}:
            self._make_room(member)

    def _make_room(self, member: int) -> None:
        """Ask a member to wait while too many of its messages are held back, or no longer."""
        is_full = self.multicast.held_of[member] >= MOST_HELD
        if is_full != self._is_full[member]:
            self._is_full[member] = is_full
            words = "is asked to wait: too many of its messages are held back"
            self.prompt.say(f"{self.names[member]} {words if is_full else 'may go on'}")
            self.endpoint.make_room(member, not is_full)

    def _drop(self, peer: int, reason: str) -> None:
        """Leave a member out for good; others may have more of its messages."""
        has = self.multicast.drop(peer)
        self.endpoint.forget(peer)
        self.prompt.say(f"{self.names[peer]} has failed ({reason}) and is dropped")
        for other in self.multicast.others():
            self._send_later(other, encode_lost(peer, has))

    def _pass_on_later(self, peer: int, message: MemberMessage) -> None:
        has = message.stamped.vector[message.member]
        self.causal_debug(
            f"{self.names[peer]} has lost {self.names[message.member]} after message {has}"
        )
        self.multicast.lost(peer, message.member, has)

    def _pass_on(self) -> None:
        for one in self.multicast.take_to_pass_on():
            self._send_later(one.to, encode_passed_on(one.origin, one.stamped))

    def _send_later(self, member: int, body: bytes) -> None:
        """Send as soon as the queue of the layer below has room, behind what waits already."""
        self._unsent[member].append(body)
        self._send_what_waits(member)

    def _send_what_waits(self, member: int) -> None:
        waiting = self._unsent[member]
        while waiting and self.multicast.active[member] and self._has_room(member):
            self.endpoint.send(member, waiting.pop(0))
        if waiting and self.multicast.active[member]:
            self._loop.call_later(0.1, self._send_what_waits, member)

    def _tell_delivery(self, one: Taken) -> None:
        name = self.names[one.sender]
        if one.stamped.addressed:
            self.prompt.say(f"{name}: {one.stamped.text.decode(errors='replace')}")
        vector = one.stamped.vector[: len(self.names)]
        what = "delivered" if one.stamped.addressed else "counted, it is not for us"
        self.causal_debug(f"message {one.number} of {name}, clock {vector}: {what}")

    def _tell_queue(self, debug: bool = False) -> None:
        lines = [
            f"hold-back queue: {len(self.multicast.held())} messages, clock here "
            f"{self.multicast.clock()}"
        ]
        for held in self.multicast.held():
            vector = held.stamped.vector[: len(self.names)]
            lines.append(
                f"held back: message {vector[held.sender]} of {self.names[held.sender]}, clock "
                f"{vector}, waits for message {held.cause_number} of {self.names[held.cause_of]}"
            )
        for line in lines:
            if debug:
                self.causal_debug(line)
            else:
                self.prompt.say(line)

    def causal_debug(self, text: str) -> None:
        """Tell what the causal layer does, if that is wanted."""
        if self.options.causal_debug:
            self.prompt.say(f"[causal] {text}")


def _own_address_towards(peer: tuple[str, int]) -> str:
    """The address of ours that the peer sees."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(peer)  # sends nothing
        return str(probe.getsockname()[0])


def _number(answer: str) -> float:
    try:
        return max(0.0, float(answer))
    except ValueError:
        return 0.0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, found {text!r}")
    return int(text)


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"expected 0 or 1, found {text!r}")
    return text == "1"
