"""`causalcast chat`: talk in a group through a node that runs."""

import argparse
import contextlib
import json
import readline
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

from causalcast.cli.shared.node_client import add_node, client_of
from causalcast.errors import NodeError
from causalcast.printable import printable
from causalcast.runtime.operating.control_client import ControlClient

PROMPT: Final = "> "


def add_to(subparsers: Any) -> None:
    """Declare `chat`."""
    parser = subparsers.add_parser(
        "chat",
        description="What you type is published in the group, what others publish is printed. "
        "It begins with what the node has not handed to anybody yet. Ctrl-D or Ctrl-C ends it.",
    )
    parser.add_argument("group", nargs="?", help="default: the node's first group")
    add_node(parser, "which node you are at")
    parser.add_argument("--name", help="how others see you (default: node-N)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Publish what is typed and print what is delivered, until the input ends."""
    with client_of(options) as speaking:
        status = speaking.ask("status")
        me: int = status["node"]
        groups = status["groups"]
        name = options.name or f"node-{me}"
        group = options.group or next(iter(groups), None)
        if group is None:
            raise NodeError(f"node {me} is in no group")
        listening = client_of(options)
        print(f"you are {name}, in {group!r} at node {me}; Ctrl-D ends it", flush=True)
        reader = threading.Thread(target=_show, args=(listening, group, me), daemon=True)
        reader.start()
        with contextlib.suppress(KeyboardInterrupt):
            for line in _typed():
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
                _print_above(_line(message))
            client.acknowledge(message)


def _typed() -> Iterator[str]:
    """What is typed, line by line; in a terminal behind a prompt, with the keys of readline."""
    if not _is_terminal():
        yield from sys.stdin
        return
    with contextlib.suppress(EOFError):
        while True:
            yield input(PROMPT)
    print()


def _print_above(line: str) -> None:
    """A line of somebody else; what is being typed stays, below it."""
    if _is_terminal():
        begun = readline.get_line_buffer()
        sys.stdout.write(f"\r\x1b[K{line}\n{PROMPT}{begun}")
        sys.stdout.flush()
    else:
        print(line, flush=True)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


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
