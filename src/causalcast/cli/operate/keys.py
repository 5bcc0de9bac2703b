"""The keys of a cluster: its authority, identities of nodes, tokens for newcomers, revocations."""

import argparse
import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from causalcast.cli.shared.way_in import add_way_in, way_in
from causalcast.core.ids import NODE_LIMIT
from causalcast.errors import ConfigError, NodeError
from causalcast.runtime.links.enrolment import enrol
from causalcast.runtime.links.links import DIAL_TIMEOUT
from causalcast.runtime.operating.joining import WayIn, why_no_answer
from causalcast.runtime.security.authority import AUTHORITY_DAYS, NODE_DAYS, Authority
from causalcast.runtime.security.client_token import make_client_token
from causalcast.runtime.security.identity import Identity, parse_ids
from causalcast.runtime.security.join_token import make_token


def add_to(subparsers: Any) -> None:
    """Declare the commands."""
    keys = subparsers.add_parser("keys")
    commands: Any = keys.add_subparsers(metavar="WHAT", required=True)
    init = _add(commands, "init", "make the authority of a new cluster", run_init)
    init.add_argument("--cluster", required=True, help="its name, as in the TOML of its nodes")
    init.add_argument(
        "--days", type=_duration, default=AUTHORITY_DAYS, help="how long it is believed"
    )
    node = _add(commands, "node", "make the identity of a node", run_node)
    node.add_argument("--id", required=True, help="3, or 100-199 for a node whose id is new")
    node.add_argument("--out", type=Path, required=True, help="the folder of the identity")
    node.add_argument("--days", type=_duration, default=NODE_DAYS, help="how long it is believed")
    token = _add(commands, "token", "make a token with which one newcomer may join", run_token)
    token.add_argument("--id", default=f"1-{NODE_LIMIT - 1}", help="who it may be (default: any)")
    token.add_argument("--minutes", type=_duration, default=60.0, help="how long it can be used")
    _add_client(commands)
    enrolled = commands.add_parser("enrol", help="get an identity with a token, at a running node")
    add_way_in(enrolled, "of the node that has the authority")
    enrolled.add_argument("--token", required=True, help="of `causalcast keys token`")
    enrolled.add_argument("--out", type=Path, required=True, help="the folder of the identity")
    enrolled.add_argument("--json", action="store_true", help="print JSON")
    enrolled.set_defaults(run=run_enrol)
    rotate = _add(commands, "rotate", "give a node a new key; the old one is revoked", run_rotate)
    rotate.add_argument("--identity", type=Path, required=True, help="the folder of the identity")
    rotate.add_argument("--days", type=_duration, default=NODE_DAYS, help="how long it is believed")
    rotate.add_argument("--keep-old", action="store_true", help="do not revoke the old one")
    revoke = _add(commands, "revoke", "let nobody believe a node any more", run_revoke)
    chosen = revoke.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--id", type=int, help="the node: all its certificates")
    chosen.add_argument("--serial", type=int, help="one certificate or token, see `keys list`")
    renew = _add(commands, "renew", "give the authority a new key beside the old", run_renew)
    renew.add_argument(
        "--days", type=_duration, default=AUTHORITY_DAYS, help="how long it is believed"
    )
    renew.add_argument("--finish", action="store_true", help="believe the old one no longer")
    _add(commands, "list", "what was given out, used and revoked", run_list)


def _add_client(commands: Any) -> None:
    client = _add(commands, "client", "make a token for clients of the door", run_client)
    client.add_argument("--name", required=True, help="who it is; keys of publications go by it")
    for right, verb in (
        ("publish", "publish to"),
        ("subscribe", "read"),
        ("create", "make and remove while the cluster runs"),
    ):
        client.add_argument(
            f"--{right}",
            nargs="+",
            default=[],
            metavar="GROUP",
            help=f"groups it may {verb}; doc/* are all that begin with doc/ (default: none)",
        )
    client.add_argument("--hours", type=_duration, default=24.0, help="how long it is believed")


def _add(commands: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    parser.add_argument("authority", type=Path, metavar="AUTHORITY", help="its folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def run_init(options: argparse.Namespace) -> int:
    """`causalcast keys init`."""
    Authority.found(options.authority, options.cluster, options.days)
    _tell(
        options,
        {"authority": str(options.authority), "cluster": options.cluster},
        f"{options.authority} holds the authority of {options.cluster}; keep its key to yourself",
    )
    return 0


def run_node(options: argparse.Namespace) -> int:
    """`causalcast keys node`."""
    if (options.out / "key.pem").exists():
        raise ConfigError(f"{options.out}: there is an identity; `causalcast keys rotate` renews")
    identity = Authority.open(options.authority).make_identity(
        options.out, *_ids(options.id), days=options.days
    )
    _tell_identity(options, identity)
    return 0


def run_token(options: argparse.Namespace) -> int:
    """`causalcast keys token`: prints the token alone, for pipes."""
    lifetime = timedelta(minutes=options.minutes)
    token = make_token(Authority.open(options.authority), *_ids(options.id), lifetime)
    _tell(options, {"token": token}, token)
    return 0


def run_client(options: argparse.Namespace) -> int:
    """`causalcast keys client`: prints the token alone, for pipes."""
    token = make_client_token(
        Authority.open(options.authority),
        options.name,
        options.publish,
        options.subscribe,
        timedelta(hours=options.hours),
        options.create,
    )
    _tell(options, {"token": token}, token)
    return 0


def run_enrol(options: argparse.Namespace) -> int:
    """`causalcast keys enrol`: the key is made here and never leaves this machine."""
    asyncio.run(_enrol(way_in(options), options.token, options.out))
    _tell_identity(options, Identity.read(options.out))
    return 0


async def _enrol(way: WayIn, token: str, out: Path) -> None:
    try:
        async with way.carrier() as carrier:
            await enrol(carrier, way.contact, token, lambda _: out, DIAL_TIMEOUT.value)
    except (OSError, TimeoutError) as error:
        raise NodeError(why_no_answer(way.contact, error, has_token=True)) from None


def run_rotate(options: argparse.Namespace) -> int:
    """`causalcast keys rotate`: a running node uses the new key within seconds."""
    authority = Authority.open(options.authority)
    old = Identity.read(options.identity).passport
    identity = authority.make_identity(options.identity, old.first, old.last, options.days)
    if not options.keep_old:
        authority.revoke(serial=old.serial)
    _tell_identity(options, identity)
    return 0


def run_revoke(options: argparse.Namespace) -> int:
    """`causalcast keys revoke`."""
    authority = Authority.open(options.authority)
    serials = authority.revoke(options.id, options.serial)
    number = authority.revocations().number
    _tell(
        options,
        {"revoked": serials, "list": number},
        f"revoked {_counted(len(serials))}; list {number} is {options.authority}/revoked.pem. "
        "A node with this authority tells the others; else put it into any identity folder",
    )
    return 0


def run_renew(options: argparse.Namespace) -> int:
    """`causalcast keys renew`: first beside the old key, then, with --finish, instead of it."""
    authority = Authority.open(options.authority)
    if options.finish:
        authority.forget_earlier()
        text = "only the newest key is believed"
    else:
        authority.renew(options.days)
        text = "the new key is believed beside the old one"
    _tell(
        options,
        {"keys": len(authority.certificates)},
        f"{text}; copy {options.authority}/authority.pem to the identity folder of every node",
    )
    return 0


def run_list(options: argparse.Namespace) -> int:
    """`causalcast keys list`."""
    authority = Authority.open(options.authority)
    lines = authority.issued()
    used = {line["used"]: line["node"] for line in lines if "used" in line}
    revoked = authority.revocations().serials
    now = datetime.now(UTC).timestamp()
    shown = []
    for line in lines:
        if "serial" in line:
            serial = line["serial"]
            state = "lapsed" if line["until"] < now else "valid"
            state = f"used by node {used[serial]}" if serial in used else state
            state = "revoked" if serial in revoked else state
            shown.append({**line, "state": state})
    if options.json:
        print(json.dumps(shown))
        return 0
    for line in shown:
        first, last = line["ids"]
        ids = line.get("client") or (str(first) if first == last else f"{first}-{last}")
        until = datetime.fromtimestamp(line["until"], UTC).date()
        print(f"{line['for']:>6} {ids:<14} until {until}  {line['state']:<14} {line['serial']}")
    return 0


def _counted(certificates: int) -> str:
    return "1 certificate" if certificates == 1 else f"{certificates} certificates"


def _duration(text: str) -> float:
    given = float(text)
    if not 0 < given < 1e5:
        raise ValueError(text)
    return given


def _ids(text: str) -> tuple[int, int]:
    try:
        return parse_ids(text)
    except ValueError as error:
        raise ConfigError(f"--id {text}: expected {error}") from None


def _tell_identity(options: argparse.Namespace, identity: Identity) -> None:
    passport = identity.passport
    until = identity.certificate.not_valid_after_utc
    facts = {"identity": str(identity.folder), "ids": passport.ids(), "serial": passport.serial}
    text = f"{identity.folder} makes whoever holds it node {passport.ids()} of {passport.cluster}"
    _tell(options, {**facts, "until": until.isoformat()}, f"{text}, until {until.date()}")


def _tell(options: argparse.Namespace, facts: dict[str, Any], text: str) -> None:
    print(json.dumps(facts) if options.json else text)
