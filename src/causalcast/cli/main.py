"""The entrance of the command line: finds the command, parses its options, runs it.

Each module named in `commands.py` has a function `add_to(subparsers)` that declares its commands
and sets `run`, a function from the parsed arguments to the exit code. A module is imported only
when its command is asked for: `causalcast simulate` never loads Spark, `--help` loads nothing.

Exit codes: 0 fine; 1 a property was violated, a run is incomplete, or the work failed; 2 wrong
usage, unusable input or environment, told in one line.
"""

import argparse
import difflib
import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from causalcast.cli.commands import COMMANDS, listing
from causalcast.errors import CausalcastError
from causalcast.printable import printable_lines
from causalcast.version import VERSION, build_kind

ABOUT = "Reliable causal multicast: simulate it, run it, and prove what it delivered."
HELP = f"""\
usage: causalcast [-h] [--version] COMMAND ...

{ABOUT}

{listing()}

`causalcast COMMAND --help` tells more of each.
"""
COMPLETING = "_ARGCOMPLETE"  # set by the shell when it asks what could follow


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors people can act on are one line on stderr."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if COMPLETING in os.environ:
            return _complete()
        options = build_parser(arguments).parse_args(arguments)
        code: int = options.run(options)
        return code
    except CausalcastError as error:
        print(f"causalcast: {printable_lines(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("causalcast: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone (`causalcast … | head`); that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Parser(argparse.ArgumentParser):
    """The parser of the word after `causalcast`; its help is the list of all commands."""

    def format_help(self) -> str:
        """The commands by what people want."""
        return HELP

    def error(self, message: str) -> Any:
        """For an unknown command, name the commands that look like it."""
        wrong = next((word for word in sys.argv[1:2] if word not in COMMANDS), "")
        near = difflib.get_close_matches(wrong, COMMANDS, 3)
        if wrong and not wrong.startswith("-"):
            hint = f"did you mean {' or '.join(near)}?" if near else "see causalcast --help"
            message = f"there is no command {wrong!r}; {hint}"
        self.exit(2, f"causalcast: {message}\n")


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that `arguments` names, or of `--help` and `--version` alone."""
    parser = _Parser(prog="causalcast")
    parser.add_argument(
        "--version", action="version", version=f"causalcast {VERSION} ({build_kind()})"
    )
    subparsers: Any = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    command = COMMANDS.get(arguments[0] if arguments else "")
    if command is not None:
        if command.needs:
            from causalcast.cli.shared.extras import require

            require(command.needs, f"`causalcast {command.name}`")
        importlib.import_module(f"causalcast.cli.{command.module}").add_to(subparsers)
    return parser


def _complete() -> int:
    """Complete a command line for the shell; see `causalcast completion`."""
    import argcomplete

    words = shlex.split(os.environ.get("COMP_LINE", ""), posix=False)[1:]
    parser = build_parser(words)
    if not words or words[0] not in COMMANDS:
        (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        for name in COMMANDS:
            subparsers.add_parser(name)
    argcomplete.autocomplete(parser)
    return 0
