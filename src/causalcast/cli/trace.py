"""`causalcast trace`: what can be done with traces."""

from typing import Any

from causalcast.cli.trace_gather import add_gather


def add_to(subparsers: Any) -> None:
    """Declare the command and its subcommands."""
    trace = subparsers.add_parser("trace", help="gather traces")
    commands = trace.add_subparsers(metavar="COMMAND", required=True)
    add_gather(commands)
