"""The command and its subcommands.

Each module named in `COMMANDS` has a function `add_to(subparsers)` that declares its commands and
sets `run`, a function from the parsed arguments to the exit code. Modules are imported only when
their command is asked for (or for `--help`), so that `causalcast simulate` never loads Spark.

Exit codes: 0 fine; 1 a property was violated, a run is incomplete, or the work failed; 2 wrong
usage, unusable input or environment, told in one line.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from causalcast.errors import CausalcastError
from causalcast.version import VERSION

# Which module declares which commands.
COMMANDS: dict[str, str] = {
    "simulate": "causalcast.cli.simulate",
    "swarm": "causalcast.cli.swarm",
    "explore": "causalcast.cli.explore",
    "protocols": "causalcast.cli.list_protocols",
    "compare": "causalcast.cli.compare",
    "demo": "causalcast.cli.demo",
    "up": "causalcast.cli.node",
    "node": "causalcast.cli.node",
    "chat": "causalcast.cli.chat",
    "experiment": "causalcast.cli.experiment",
    "join": "causalcast.cli.node",
    "leave": "causalcast.cli.node",
    "keys": "causalcast.cli.keys",
    "pub": "causalcast.cli.node",
    "sub": "causalcast.cli.node",
    "status": "causalcast.cli.node",
    "explain": "causalcast.cli.node",
    "gone": "causalcast.cli.node",
    "zones": "causalcast.cli.zones",
    "group": "causalcast.cli.zones",
    "doctor": "causalcast.cli.doctor",
    "verify": "causalcast.cli.verify",
    "report": "causalcast.cli.report",
    "metrics": "causalcast.cli.report",
    "trace": "causalcast.cli.trace",
    "sweep": "causalcast.cli.sweep",
    "watch": "causalcast.cli.watch",
    "chaos": "causalcast.cli.chaos",
    "udp": "causalcast.cli.udp",
    "udp-ptp": "causalcast.cli.udp",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors people can act on are one line on stderr."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = build_parser(arguments).parse_args(arguments)
        code: int = options.run(options)
        return code
    except CausalcastError as error:
        print(f"causalcast: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("causalcast: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone (`causalcast … | head`); that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that `arguments` names, or of all commands."""
    parser = argparse.ArgumentParser(
        prog="causalcast",
        description="Reliable causal multicast: simulate it, run it, and prove what it delivered.",
    )
    parser.add_argument("--version", action="version", version=f"causalcast {VERSION}")
    subparsers: Any = parser.add_subparsers(metavar="COMMAND", required=True)
    asked_for = arguments[0] if arguments else ""
    modules = [COMMANDS[asked_for]] if asked_for in COMMANDS else dict.fromkeys(COMMANDS.values())
    for module in modules:
        importlib.import_module(module).add_to(subparsers)
    return parser
