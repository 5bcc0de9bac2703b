"""`causalcast chaos`: faults on real processes and their network; each round is judged."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.chaos.chaos_plan import FAULTS, NETWORK_FAULTS, ChaosPlan
from causalcast.chaos.packet_network import PacketNetwork, command_with_rights
from causalcast.cli.run.node import protocol_for_toml, settings_of
from causalcast.errors import ConfigError

EPILOG = """
examples:
  causalcast chaos --protocol locamu --kills 200       a long look, in rounds of 40 kills
  causalcast chaos --protocol ./mine.py --kills 10     your own protocol, a quick look
  causalcast chaos --faults kill pause --kills 20      only these

exit code: 0 nothing is wrong; 1 something is, and the folders are kept; 2 unusable input
"""


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    usual = ChaosPlan()
    chaos = subparsers.add_parser(
        "chaos",
        description="Run clusters of real processes on this machine. Kill nodes with SIGKILL and "
        "start them again, stop them, shift their clocks, fill their disks; cut their network, and "
        "lose, double, delay and reorder its packets. Then check the histories: no acknowledged "
        "publication lost, none doubled, none out of order.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chaos.add_argument(
        "--protocol",
        default=usual.protocol,
        metavar="NAME_OR_FILE",
        help=f"default: {usual.protocol}",
    )
    chaos.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        dest="given",
        help="an option of the protocol",
    )
    chaos.add_argument("--overlay", default="", help="default: the first that fits the protocol")
    chaos.add_argument("--nodes", type=int, default=usual.nodes, help=f"default: {usual.nodes}")
    chaos.add_argument(
        "--kills", type=int, default=usual.kills, help="how often to kill a node, over all rounds"
    )
    chaos.add_argument(
        "--faults",
        nargs="+",
        default=list(FAULTS),
        choices=FAULTS,
        metavar="FAULT",
        help=f"some of: {', '.join(FAULTS)} (default: all)",
    )
    chaos.add_argument(
        "--patience",
        type=float,
        default=usual.patience,
        metavar="SECONDS",
        help="how long nodes may take after the last fault until all have all messages",
    )
    chaos.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the faults; real processes still run differently each time",
    )
    chaos.add_argument(
        "--out", type=Path, help="a new folder, which is kept (default: a temporary one)"
    )
    chaos.add_argument("--json", action="store_true", help="print one JSON object")
    chaos.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run all rounds and print what was found."""
    from causalcast.chaos.campaign import run_campaign

    outside = command_with_rights() if set(options.faults) & set(NETWORK_FAULTS) else []
    if outside and PacketNetwork.objection():
        # Again where we may make networks; there we are root, and come here no more.
        return subprocess.run([*outside, *_same_command(options)]).returncode
    if options.kills < 1 or options.nodes < 3:
        raise ConfigError("chaos needs at least 3 nodes (--nodes) and 1 kill (--kills)")
    plan = ChaosPlan(
        protocol=protocol_for_toml(options.protocol),
        options=settings_of(options.given),
        overlay=options.overlay,
        nodes=options.nodes,
        kills=options.kills,
        faults=tuple(options.faults),
        seed=options.seed,
        patience=options.patience,
    )
    out = options.out or Path(tempfile.mkdtemp(prefix="causalcast-chaos-"))
    console = Console(highlight=False, soft_wrap=True, stderr=options.json)
    outcome = run_campaign(plan, out, console.print)
    found = outcome.to_json()
    if options.json:
        print(json.dumps(found))
    else:
        _show(console, plan.protocol, found)
    if outcome.wrong:
        console.print(f"everything of these rounds is kept in {out}")
    elif options.out is None:
        shutil.rmtree(out)
    return 1 if outcome.wrong else 0


def _same_command(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "causalcast", "chaos"]
    for name in ("protocol", "overlay", "nodes", "kills", "seed", "patience"):
        command.append(f"--{name}={getattr(options, name)}")
    command += [f"--set={setting}" for setting in options.given]
    command += [f"--out={options.out}"] if options.out else []
    command += ["--json"] if options.json else []
    return [*command, "--faults", *options.faults]


def _show(console: Console, protocol: str, found: dict[str, Any]) -> None:
    for fault, reason in found["left_out"].items():
        console.print(f"[yellow]left out[/]: {fault}: {reason}")
    fired = ", ".join(f"{count} {fault}" for fault, count in found["fired"].items())
    console.print(f"fired: {fired}")
    if found["never_fired"]:
        console.print(f"[yellow]never fired[/]: {', '.join(found['never_fired'])}")
    for line in found["wrong"]:
        console.print(f"[red]wrong[/]: {line}")
    verdict = "[bold green]nothing is wrong[/]" if found["ok"] else "[bold red]violated[/]"
    console.print(
        f"{protocol}: {verdict}: {found['kills']} kills in {found['rounds']} rounds, "
        f"{found['acknowledged']} acknowledged publications, {found['deliveries']} deliveries, "
        f"{found['seconds']} s"
    )
