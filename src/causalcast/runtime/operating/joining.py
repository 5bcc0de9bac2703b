"""A newcomer's configuration, from what a node of the running cluster tells in its greeting.

What came over the network is looked at before it is used: it has the form that it should have, it
is written as values of TOML and never as TOML, and it names no file that would be executed.
"""

import asyncio
import contextlib
import errno
import functools
import json
import random
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from causalcast.core.ids import NODE_LIMIT, NodeId
from causalcast.core.spec import LayerSpec
from causalcast.errors import NodeError
from causalcast.registry import find_detector, find_overlay, find_protocol
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.enrolment import ask, enrol
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.links.links import DIAL_TIMEOUT
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import membership
from causalcast.runtime.node_config import CHANGING, toml_key, toml_text

KINDS: Final = ("publish", "subscribe")


@dataclass(frozen=True)
class WayIn:
    """How a newcomer reaches the cluster: where, and over which transport."""

    contact: Address
    transport: str = "tcp"
    cluster: str = ""  # what members on UDP prove themselves with: its name, ...
    key_file: Path | None = None  # ... or the key in this file

    @contextlib.asynccontextmanager
    async def carrier(self) -> AsyncIterator[Carrier]:
        """Something to ask with; NodeError if the key cannot be read."""
        if self.transport == "tcp":
            yield TcpCarrier()
            return
        try:
            key = self.key_file.read_bytes() if self.key_file is not None else b""
        except OSError as error:
            raise NodeError(f"{self.key_file}: {error.strerror}") from None
        udp = UdpCarrier(membership(self.cluster, key))
        await udp.bind("::" if ":" in self.contact.host else "0.0.0.0", 0)
        try:
            yield udp
        finally:
            udp.close_when_empty()


def ask_cluster(way: WayIn, token: str, folder: Path) -> tuple[Greeting, NodeId]:
    """What the node at the contact tells, and who the newcomer is from now on.

    With a token it gets an identity there, in a folder of its own below `folder`. NodeError if
    nobody there can be joined.
    """
    return asyncio.run(_ask(way, token, folder))


async def _ask(way: WayIn, token: str, folder: Path) -> tuple[Greeting, NodeId]:
    contact = way.contact
    try:
        async with way.carrier() as carrier:
            if token:
                theirs = await ask(carrier, contact, token, DIAL_TIMEOUT.value)
                _check_joinable(theirs, contact)  # before the token is used up
                home = functools.partial(identity_of, folder)
                node = await enrol(carrier, contact, token, home, DIAL_TIMEOUT.value)
            else:
                stranger = first_greeting("", NodeId(0), 0, "", "", {})
                theirs = await greeting_at(carrier, contact, stranger, DIAL_TIMEOUT.value, None)
                node = random.SystemRandom().randrange(1, NODE_LIMIT)
    except (OSError, TimeoutError) as error:
        raise NodeError(why_no_answer(contact, error, bool(token))) from None
    _check_joinable(theirs, contact)
    return theirs, NodeId(node)


def why_no_answer(contact: Address, error: OSError | TimeoutError, has_token: bool) -> str:
    """What went wrong at a contact, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the node at {contact} is of another cluster than this token is for, or its "
            "certificate has lapsed; check the address, or ask there for a token"
        )
    if isinstance(error, ssl.SSLError) and has_token:
        return (
            f"the node at {contact} does not believe this token: it is of another cluster, was "
            "revoked, or has lapsed; ask for a new one (causalcast keys token)"
        )
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens at {contact}; is the node up, and is this its address?"
    if isinstance(error, socket.gaierror):
        return f"nobody knows the name {contact.host}"
    hint = "" if has_token else " (a cluster with TLS wants a --token)"
    if isinstance(error, TimeoutError):
        return (
            f"{contact} says nothing: is that the address of a node, and does the node answer "
            f"`causalcast status` there? A firewall looks like this, too{hint}"
        )
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no way leads to {contact}; check the address, and the network of both hosts"
    return f"nobody answers at {contact}: {error}{hint}"


def identity_of(folder: Path, node: int) -> Path:
    """Where a newcomer's identity is."""
    return folder / f"node-{node}" / "identity"


def _check_joinable(theirs: Greeting, contact: Address) -> None:
    overlay = theirs.facts.get("overlay")
    if overlay not in CHANGING:
        raise NodeError(
            f"the cluster at {contact} has a fixed overlay: nodes are added in its TOML files "
            f"([cluster] peers); only clusters on {' or '.join(CHANGING)} can be joined"
        )


def newcomers_toml(
    theirs: Greeting,
    way: WayIn,
    node: NodeId,
    listen: Address,
    groups: list[str],
    protocol: str,
    trace_level: str,
    tls: bool,
) -> str:
    """The TOML of a node that joins this way; `groups`: which it will be a member of.

    NodeError if what the contact tells cannot be used.
    """
    told = _Told(theirs.facts, way.contact)
    known = told.names("groups")
    unknown = [name for name in groups if name not in known]
    if unknown:
        raise NodeError(f"no group {unknown[0]!r} (this cluster has: {', '.join(known)})")
    denied = [name for name in groups if not told.may_subscribe(int(node), name)]
    if denied:
        raise NodeError(
            f"node {node} has no right to be a member of {denied[0]!r} ([rights] of the cluster); "
            "say with --groups which it is to join, or ask for the right at all nodes"
        )
    mine = "".join(
        f"{toml_key(name)} = {[int(node)] if name in groups else []}\n" for name in known
    )
    spec = find_protocol(protocol) if protocol else find_protocol(told.name("protocol"))
    name = str(Path(protocol).resolve()) if protocol.endswith(".py") else spec.name
    options = told.options(spec, "options")
    overlay = find_overlay(told.name("overlay"))
    overlay_options = told.options(overlay, "overlay options")
    detector = find_detector(told.name("detector"))
    key = ""
    if way.key_file is not None:
        key = f"[udp]\ncluster_key = {toml_text(str(way.key_file.resolve()))}\n\n"
    return (
        f'[node]\nid = {node}\nlisten = "{listen}"\ntransport = "{way.transport}"\n\n{key}'
        f'[cluster]\nname = {toml_text(theirs.cluster)}\ncontact = ["{way.contact}"]\n\n'
        f"[protocol]\nname = {toml_text(name)}\n{options}\n"
        f'[overlay]\nkind = "{overlay.name}"\n{overlay_options}\n'
        f'[detector]\nkind = "{detector.name}"\n\n'
        f"[groups]\n{mine}\n"
        f"[limits]\nbody_bytes = {told.number('body_bytes')}\n\n"
        f"[security]\ntls = {json.dumps(tls)}\n"
        f"{'sign = true' if 'sign' in theirs.facts else ''}\n\n{told.rights(known)}"
        '[storage]\npath = "data"\n\n'
        f'[trace]\npath = "trace"\nlevel = "{trace_level}"\n'
    )


def groups_told(theirs: Greeting, contact: Address) -> list[str]:
    """The groups of the cluster; NodeError if what the contact tells cannot be used."""
    return _Told(theirs.facts, contact).names("groups")


class _Told:
    """What a contact tells of its cluster, of which nothing is believed to have the right form."""

    def __init__(self, facts: dict[str, str], contact: Address) -> None:
        self._facts = facts
        self._contact = contact

    def name(self, fact: str) -> str:
        """Of a protocol, overlay or detector that is installed here: never a file."""
        name = self._facts.get(fact, "")
        if name.endswith(".py"):
            raise self._unusable(fact, "a file; name one that you trust with --protocol")
        return name

    def number(self, fact: str) -> int:
        try:
            return int(self._facts.get(fact, ""))
        except ValueError:
            raise self._unusable(fact, "no whole number") from None

    def names(self, fact: str) -> list[str]:
        found = self._json(fact, "[]")
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise self._unusable(fact, "no list of names")
        return found

    def options(self, spec: LayerSpec, fact: str) -> str:
        """What differs from the defaults, as TOML; durations are microseconds there."""
        settings = self._json(fact, "{}")
        if not isinstance(settings, dict):
            raise self._unusable(fact, "no table of options")
        lines = ""
        for option in spec.options:
            value = settings.get(option.name, option.default)
            if value == option.default:
                continue
            if isinstance(value, str) and value.endswith(".py"):
                raise self._unusable(fact, f"a file as {option.name}, which is not run here")
            written = f"{value}us" if option.unit else value
            try:
                option.accept(written)
            except ValueError as error:
                raise self._unusable(fact, f"wrong: {error}") from None
            text = toml_text(written) if isinstance(written, str) else json.dumps(written)
            lines += f"{toml_key(option.name)} = {text}\n"
        return lines

    def rights(self, groups: list[str]) -> str:
        """The tables [rights.GROUP] that all nodes have."""
        tables: dict[str, str] = {}
        given = self._json("rights", "{}")
        if not isinstance(given, dict) or not all(
            isinstance(holders, dict) for holders in given.values()
        ):
            raise self._unusable("rights", "no table of rights")
        for kind, holders in given.items():
            for name, nodes in holders.items():
                is_list = isinstance(nodes, list) and all(type(node) is int for node in nodes)
                if kind not in KINDS or name not in groups or not is_list:
                    raise self._unusable("rights", f"no rights of a group: {kind!r}, {name!r}")
                tables[name] = tables.get(name, "") + f"{kind} = {json.dumps(nodes)}\n"
        return "".join(f"[rights.{toml_key(name)}]\n{text}\n" for name, text in tables.items())

    def may_subscribe(self, node: int, group: str) -> bool:
        """Whether all nodes would let `node` be a member."""
        given = self._json("rights", "{}")
        holders = given.get("subscribe") if isinstance(given, dict) else None
        nodes = holders.get(group) if isinstance(holders, dict) else None
        return not isinstance(nodes, list) or node in nodes

    def _json(self, fact: str, default: str) -> Any:
        try:
            return json.loads(self._facts.get(fact, default))
        except (ValueError, RecursionError):
            raise self._unusable(fact, "unreadable") from None

    def _unusable(self, fact: str, what: str) -> NodeError:
        return NodeError(
            f"the node at {self._contact} tells {fact!r} as {self._facts.get(fact)!r:.200}: {what}"
        )
