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

from causalcast.chaos.chaos_plan import FAULTS, NETWORK_FAULTS, TLS, ChaosPlan
from causalcast.chaos.packet_network import PacketNetwork, command_with_rights
from causalcast.cli.run.node import protocol_for_toml, settings_of
from causalcast.cli.shared.extras import require
from causalcast.errors import ConfigError
from causalcast.registry import find_protocol, protocol_names

ALL = "all"
WITHOUT_DISK = 200.0  # publications of a node per second
EPILOG = """
examples:
  causalcast chaos --protocol locamu --kills 200       a long look, in rounds of 40 kills
  causalcast chaos --protocol all --hours 8 --tls both --small-limits --watch
                                                       every protocol in turn, for a night
  causalcast chaos --protocol ./mine.py --kills 10     your own protocol, a quick look
  causalcast chaos --faults kill pause --seconds 30    only these, for half a minute
  causalcast chaos --rate 20 --kills 20                20 publications of a node per second

Kills hit nodes that are up; `kill_at_start` hits those that are still starting, and is counted
apart. A fault that was asked for and never fired is an error.

exit code: 0 nothing is wrong; 1 something is, and the folders are kept; 2 unusable input
"""


def add_to(subparsers: Any) -> None:
    """Declare the command."""
    usual = ChaosPlan()
    chaos = subparsers.add_parser(
        "chaos",
        description="Run clusters of real processes on this machine. Kill nodes with SIGKILL and "
        "start them again, stop them, shift their clocks, fill their disks; cut their network, and "
        "lose, double, delay and reorder its packets, while applications publish as fast as nodes "
        "let them. Then check the histories: no acknowledged publication lost, none doubled, none "
        "out of order.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chaos.add_argument(
        "--protocol",
        default=usual.protocol,
        metavar="NAME_OR_FILE",
        help=f"default: {usual.protocol}; all: every protocol that runs as nodes, in turn",
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
    duration = chaos.add_mutually_exclusive_group()
    duration.add_argument(
        "--seconds", type=float, default=0.0, help="faults for so long, however many kills it takes"
    )
    duration.add_argument("--hours", type=float, default=0.0, help="the same in hours")
    chaos.add_argument(
        "--rate",
        type=float,
        metavar="N",
        help="publications of each node per second; 0: as many as the node lets in. Default: 0, or "
        f"{WITHOUT_DISK:.0f} where nodes keep nothing: there no disk slows publishers down",
    )
    chaos.add_argument(
        "--tls", choices=TLS, default=usual.tls, help="both: every other round (default: on)"
    )
    chaos.add_argument(
        "--small-limits",
        action="store_true",
        help="draw sizes and counts that nodes are bound by, often the smallest, for each round",
    )
    chaos.add_argument(
        "--watch",
        action="store_true",
        help="let Spark judge while it goes on, too (`causalcast watch`)",
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
    if (options.rate or 0) < 0 or options.seconds < 0 or options.hours < 0:
        raise ConfigError("--rate, --seconds and --hours: expected numbers from 0 on")
    if options.watch:
        require("spark", "`causalcast chaos --watch`")
    names = _protocols(options)
    seconds = options.seconds or 3600 * options.hours
    out = options.out or Path(tempfile.mkdtemp(prefix="causalcast-chaos-"))
    console = Console(highlight=False, soft_wrap=True, stderr=options.json)
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        plan = ChaosPlan(
            protocol=name,
            options=settings_of(options.given) or _usual_options(name),
            overlay=options.overlay,
            nodes=options.nodes,
            kills=options.kills,
            seconds=seconds / len(names),
            rate=_rate(name) if options.rate is None else options.rate,
            tls=options.tls,
            small_limits=options.small_limits,
            watch=options.watch,
            faults=tuple(options.faults),
            seed=options.seed,
            patience=options.patience,
        )
        place = out if len(names) == 1 else out / name
        found[name] = run_campaign(plan, place, console.print).to_json()
        if not options.json:
            _show(console, name, found[name])
    if options.json:
        print(json.dumps(found if options.protocol == ALL else found[names[0]]))
    ok = all(one["ok"] for one in found.values())
    if not ok:
        console.print(f"everything of these rounds is kept in {out}")
    elif options.out is None:
        shutil.rmtree(out)
    return 0 if ok else 1


def _protocols(options: argparse.Namespace) -> list[str]:
    """The protocols to run: all that are about a cluster of nodes, or the one that is named."""
    if options.protocol != ALL:
        return [protocol_for_toml(options.protocol)]
    if options.given or options.overlay:
        raise ConfigError("--protocol all: --set and --overlay are for one protocol")
    return [name for name in protocol_names() if find_protocol(name).tolerates is not None]


def _rate(name: str) -> float:
    return 0.0 if find_protocol(name).restart == "resume" else WITHOUT_DISK


def _usual_options(name: str) -> dict[str, str]:
    """Two zones, for protocols that have zones."""
    return {"zone_size": "3"} if find_protocol(name).contains is not None else {}


def _same_command(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "causalcast", "chaos"]
    names = ("protocol", "overlay", "nodes", "kills", "seed", "patience", "tls")
    for name in (*names, "seconds" if options.seconds else "hours"):
        command.append(f"--{name}={getattr(options, name)}")
    command += [f"--set={setting}" for setting in options.given]
    command += [f"--out={options.out}"] if options.out else []
    command += ["--json"] if options.json else []
    command += [f"--rate={options.rate}"] if options.rate is not None else []
    command += ["--small-limits"] if options.small_limits else []
    command += ["--watch"] if options.watch else []
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
        f"{found['acknowledged']} acknowledged publications "
        f"({found['publications_per_second']} a second), {found['deliveries']} deliveries, "
        f"{found['seconds']} s"
    )
