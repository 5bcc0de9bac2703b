"""`causalcast completion`: the lines that make a shell complete commands and options."""

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "fish", "powershell")
EPILOG = """
examples:
  eval "$(causalcast completion bash)"             for this shell; in ~/.bashrc for all
  causalcast completion fish > ~/.config/fish/completions/causalcast.fish
"""


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "completion",
        description="Print the lines that make a shell complete commands, options and files.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print them."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["causalcast"], shell=options.shell))
    return 0
