"""A newcomer's configuration, from what a node of the running cluster tells in its greeting."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from causalcast.core.ids import NODE_LIMIT, NodeId
from causalcast.core.spec import LayerSpec
from causalcast.errors import NodeError
from causalcast.registry import find_overlay, find_protocol
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.links.enrolment import ask, enrol
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.links.introductions import greeting_at
from causalcast.runtime.links.tcp import DIAL_TIMEOUT
from causalcast.runtime.node_config import CHANGING, toml_key


def ask_cluster(contact: Address, token: str, folder: Path) -> tuple[Greeting, NodeId]:
    """What the node at `contact` tells, and who the newcomer is from now on.

    With a token it gets an identity there, in a folder of its own below `folder`. NodeError if
    nobody there can be joined.
    """
    return asyncio.run(_ask(contact, token, folder))


async def _ask(contact: Address, token: str, folder: Path) -> tuple[Greeting, NodeId]:
    try:
        if token:
            theirs = await ask(contact, token, DIAL_TIMEOUT)
            _check_joinable(theirs, contact)  # before the token is used up
            node = await enrol(contact, token, lambda node: identity_of(folder, node), DIAL_TIMEOUT)
        else:
            stranger = first_greeting("", NodeId(0), 0, "", "", {})
            theirs = await greeting_at(contact, stranger, DIAL_TIMEOUT, None)
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
    contact: Address,
    node: NodeId,
    listen: Address,
    groups: list[str],
    protocol: str,
    trace_level: str,
    tls: bool,
) -> str:
    """The TOML of a node that joins through `contact`; `groups`: which it will be a member of."""
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
    return (
        f'[node]\nid = {node}\nlisten = "{listen}"\n\n'
        f'[cluster]\nname = {json.dumps(theirs.cluster)}\ncontact = ["{contact}"]\n\n'
        f"[protocol]\nname = {json.dumps(name)}\n{options}\n"
        f'[overlay]\nkind = "{overlay.name}"\n{overlay_options}\n'
        f'[detector]\nkind = "{facts["detector"]}"\n\n'
        f"[groups]\n{mine}\n"
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
