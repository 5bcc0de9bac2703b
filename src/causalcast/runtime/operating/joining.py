"""A newcomer's configuration, from what a node of the running cluster tells in its greeting."""

import asyncio
import contextlib
import functools
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causalcast.core.ids import NODE_LIMIT, NodeId
from causalcast.core.spec import LayerSpec
from causalcast.errors import NodeError
from causalcast.registry import find_overlay, find_protocol
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.carrier import Carrier, TcpCarrier
from causalcast.runtime.links.enrolment import ask, enrol
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.links.links import DIAL_TIMEOUT
from causalcast.runtime.links.udp.carrier import UdpCarrier
from causalcast.runtime.links.udp.sealing import membership
from causalcast.runtime.node_config import CHANGING, toml_key


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
        reason = str(error) or "no answer in time"
        hint = "" if token else " (a cluster with TLS wants a --token)"
        raise NodeError(f"nobody answers at {contact}: {reason}{hint}") from None
    _check_joinable(theirs, contact)
    return theirs, NodeId(node)


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
    """The TOML of a node that joins this way; `groups`: which it will be a member of."""
    facts = theirs.facts
    known = json.loads(facts["groups"])
    unknown = [name for name in groups if name not in known]
    if unknown:
        raise NodeError(f"no group {unknown[0]!r} (this cluster has: {', '.join(known)})")
    mine = "".join(
        f"{toml_key(name)} = {[int(node)] if name in groups else []}\n" for name in known
    )
    spec = find_protocol(protocol or facts["protocol"])
    name = str(Path(protocol).resolve()) if protocol.endswith(".py") else spec.name
    options = _options(spec, json.loads(facts["options"]))
    overlay = find_overlay(facts["overlay"])
    overlay_options = _options(overlay, json.loads(facts["overlay options"]))
    key = ""
    if way.key_file is not None:
        key = f"[udp]\ncluster_key = {json.dumps(str(way.key_file.resolve()))}\n\n"
    return (
        f'[node]\nid = {node}\nlisten = "{listen}"\ntransport = "{way.transport}"\n\n{key}'
        f'[cluster]\nname = {json.dumps(theirs.cluster)}\ncontact = ["{way.contact}"]\n\n'
        f"[protocol]\nname = {json.dumps(name)}\n{options}\n"
        f'[overlay]\nkind = "{overlay.name}"\n{overlay_options}\n'
        f'[detector]\nkind = "{facts["detector"]}"\n\n'
        f"[groups]\n{mine}\n"
        f"[limits]\nbody_bytes = {int(facts['body_bytes'])}\n\n"
        f"[security]\ntls = {json.dumps(tls)}\n"
        f"{'sign = true' if 'sign' in facts else ''}\n\n{_rights(facts)}"
        '[storage]\npath = "data"\n\n'
        f'[trace]\npath = "trace"\nlevel = "{trace_level}"\n'
    )


def _rights(facts: dict[str, str]) -> str:
    """The tables [rights.GROUP] that all nodes have."""
    tables: dict[str, str] = {}
    for kind, groups in json.loads(facts.get("rights", "{}")).items():
        for name, nodes in groups.items():
            tables[name] = tables.get(name, "") + f"{kind} = {nodes}\n"
    return "".join(f"[rights.{toml_key(name)}]\n{text}\n" for name, text in tables.items())


def _options(spec: LayerSpec, settings: dict[str, Any]) -> str:
    """What differs from the defaults; durations are microseconds there."""
    lines = ""
    for option in spec.options:
        value = settings.get(option.name, option.default)
        if value != option.default:
            written = f"{value}us" if option.unit else value
            lines += f"{toml_key(option.name)} = {json.dumps(written)}\n"
    return lines
