"""`causalcast chat`: talk in a group through a node that runs."""

import argparse
import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

from causalcast.errors import NodeError
from causalcast.printable import printable
from causalcast.runtime.operating.control_client import ControlClient


def add_to(subparsers: Any) -> None:
    """Declare `chat`."""
    parser = subparsers.add_parser(
        "chat",
        description="What you type is published in the group, what others publish is printed. "
        "It begins with what the node has not handed to anybody yet. Ctrl-D or Ctrl-C ends it.",
    )
    parser.add_argument("group", nargs="?", help="default: the node's first group")
    parser.add_argument(
        "--node", type=int, required=True, metavar="N", help="which node you are at"
    )
    parser.add_argument("--name", help="how others see you (default: node-N)")
    parser.add_argument(
        "--dir", type=Path, default=Path("causalcast-cluster"), help="the folder given to `up`"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Publish what is typed and print what is delivered, until the input ends."""
    me: int = options.node
    name = options.name or f"node-{me}"
    folder = options.dir / f"node-{me}"
    with ControlClient(folder, me) as speaking:
        groups = speaking.ask("status")["groups"]
        group = options.group or next(iter(groups), None)
        if group is None:
            raise NodeError(f"node {me} is in no group")
        listening = ControlClient(folder, me)
        print(f"you are {name}, in {group!r} at node {me}; Ctrl-D ends it", flush=True)
        reader = threading.Thread(target=_show, args=(listening, group, me), daemon=True)
        reader.start()
        with contextlib.suppress(KeyboardInterrupt):
            for line in sys.stdin:
                if line.strip():
                    said = json.dumps({"name": name, "says": line.strip()}, ensure_ascii=False)
                    speaking.ask("publish", group=group, text=said)
        # A thread that is printing while the interpreter ends would end it with an error.
        listening.hang_up()
        reader.join()
    return 0


def _show(client: ControlClient, group: str, me: int) -> None:
    """Print what others publish; our own lines are on the screen already."""
    with contextlib.suppress(NodeError, OSError, ValueError):
        for message in client.messages(group):
            if message["origin"] != me:
                print(_line(message), flush=True)
            client.acknowledge(message)


def _line(message: dict[str, Any]) -> str:
    """Which node published it, what the sender calls itself, and the text.

    The node is known for certain, the name is what the message claims. Plain texts from other
    programs work, too.
    """
    text = message.get("text", f"(binary) {message.get('base64')}")
    node = f"node-{message['origin']}"
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        said = json.loads(text)
        name, text = printable(said["name"]), said["says"]
        return f"{node if name == node else f'{name} ({node})'}: {printable(text)}"
    return f"{node}: {printable(text)}"
