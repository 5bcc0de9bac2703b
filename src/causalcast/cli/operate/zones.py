"""`causalcast zones` and `causalcast group`: zones joined and parted, groups joined and left."""

import argparse
import json
from typing import Any

from causalcast.cli.operate.command import give
from causalcast.cli.shared.node_client import add_client, client_of
from causalcast.errors import CausalcastError, ConfigError
from causalcast.protocols.causal_separators.zone_knowledge import WORDS

VERBS = ("show", "join", "part", "drop")


def add_to(subparsers: Any) -> None:
    """Declare the commands."""
    zones = add_client(
        subparsers, "zones", "join and part zones of causal_separators while they run", run_zones
    )
    zones.description = (
        "show: which joints of zones are open. join: connect a separated zone; from then "
        "on its nodes join groups. part: let a zone go, once its nodes have left their groups; "
        "nothing is lost. drop: let a zone go that is dead, with whatever is lost."
    )
    zones.add_argument("verb", choices=VERBS)
    zones.add_argument(
        "zones", type=int, nargs="*", metavar="ZONE", help="the two zones that are joined"
    )
    zones.add_argument("--yes", action="store_true", help="drop: do it; without, show the losses")
    group = add_client(subparsers, "group", "let a node join or leave a group", run_group)
    group.add_argument("verb", choices=("join", "leave"))
    group.add_argument("group")


def run_zones(options: argparse.Namespace) -> int:
    """`causalcast zones`."""
    if options.verb == "show":
        return _show(options)
    if len(options.zones) != 2:
        raise ConfigError(f"zones {options.verb}: expected two zones, such as 0 1")
    words = f"{options.verb} {options.zones[0]} {options.zones[1]}"
    return give(options, words, "`causalcast zones show` says how far it is")


def _show(options: argparse.Namespace) -> int:
    with client_of(options) as client:
        conditions = client.ask("status")["conditions"]
    joints = {
        name.removeprefix("joint_").replace("_", "-"): WORDS[level]
        for name, level in conditions.items()
        if name.startswith("joint_")
    }
    if not joints:
        raise CausalcastError(f"node {options.node} is in no system of zones")
    if options.json:
        print(json.dumps(joints))
        return 0
    for joint, word in joints.items():
        print(f"zones {joint}  {word}")
    return 0


def run_group(options: argparse.Namespace) -> int:
    """`causalcast group`."""
    with client_of(options) as client:
        answer = client.ask(f"{options.verb}_group", group=options.group)
    changed, member = answer["changed"], answer.get("member", False)
    if options.json:
        print(json.dumps({"changed": changed, "member": member}))
    elif options.verb == "join" and not member:
        before = "" if changed else " before"
        print(f"node {options.node} has asked to join {options.group!r}{before}, and waits to be")
        print("admitted; `causalcast status` says when it is in")
    else:
        is_now = "is" if options.verb == "join" else "is not"
        print(
            f"node {options.node} {is_now} in {options.group!r}" + ("" if changed else " already")
        )
    return 0
