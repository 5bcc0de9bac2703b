"""`causalcast command`, `gone`: what an operator tells the protocol of a running node."""

import argparse
import json
from typing import Any

from causalcast.cli.shared.node_client import add_client, client_of


def add_to(subparsers: Any) -> None:
    """Declare the commands."""
    command = add_client(
        subparsers, "command", "tell a node's protocol to do something", run_command
    )
    command.description = (
        "Without words: which commands the protocol of the node has. With words, such as "
        "`gone 3`: do it, after showing what may be lost by it. Where something may be lost, it is "
        "done only with --yes."
    )
    command.add_argument("words", nargs="*", metavar="WORD", help="such as: gone 3")
    _add_yes(command)
    gone = add_client(subparsers, "gone", "give up a node that never comes back", run_gone)
    gone.add_argument("peer", type=int, help="the node that is gone")
    _add_yes(gone)


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do it; without, show what may be lost")


def run_command(options: argparse.Namespace) -> int:
    """`causalcast command`."""
    if options.words:
        return give(options, " ".join(options.words))
    with client_of(options) as client:
        commands: dict[str, str] = client.ask("commands")["commands"]
    if options.json:
        print(json.dumps(commands))
        return 0
    for usage, meaning in commands.items():
        print(f"{usage}  {meaning}")
    if not commands:
        print(f"the protocol of node {options.node} has no commands")
    return 0


def run_gone(options: argparse.Namespace) -> int:
    """`causalcast gone`."""
    return give(options, f"gone {options.peer}", "the nodes around it are being told")


def give(options: argparse.Namespace, words: str, and_then: str = "") -> int:
    """Show what may be lost by a command, and carry it out if that is nothing, or agreed to."""
    with client_of(options) as client:
        losses = client.ask("preview", words=words)["losses"]
        is_done = options.yes or not losses
        if is_done:
            client.ask("command", words=words)
    if options.json:
        print(json.dumps({"command": words, "losses": losses, "done": is_done}))
        return 0
    if losses:
        print(f"what may be lost by {words!r}, as far as node {options.node} can tell:")
    for loss in losses:
        print(f"  {loss}")
    if is_done:
        print(f"done: {words}" + (f"; {and_then}" if and_then else ""))
    else:
        print("nothing has been done; ask other nodes near it as well, then add --yes")
    return 0
