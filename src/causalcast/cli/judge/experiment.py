"""`causalcast experiment`: many real nodes, told to broadcast through one of them, and judged."""

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.errors import ConfigError, NodeError
from causalcast.experiments.experiment import CONTACT, Experiment
from causalcast.registry import find_protocol
from causalcast.runtime.operating.local_cluster import ClusterPlan
from causalcast.trace.kinds import LEVELS

DEFAULT_DIR = Path("experiment")
EPILOG = """
example:
  causalcast experiment bootstrap --processes 20 --broadcasters 5 &
  causalcast experiment trigger --broadcasts 100 --payload 32 --interval-ms 50
  causalcast experiment collect

or all of it:
  causalcast experiment run --processes 20 --broadcasters 5 --broadcasts 100
"""


def add_to(subparsers: Any) -> None:
    """Declare `experiment` and its parts."""
    parser = subparsers.add_parser(
        "experiment",
        description="Start many real nodes, tell one of them what all are to do, and gather, "
        "verify and measure what they logged.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(metavar="PART", required=True)
    bootstrap = parts.add_parser("bootstrap", help="start the nodes, and wait until they are ended")
    _add_bootstrap(bootstrap)
    bootstrap.set_defaults(run=run_bootstrap)
    trigger = parts.add_parser("trigger", help="tell one node, which tells the whole network")
    _add_trigger(trigger)
    trigger.set_defaults(run=run_trigger)
    collect = parts.add_parser("collect", help="wait for the end, stop, gather, verify and report")
    _add_collect(collect)
    collect.set_defaults(run=run_collect)
    whole = parts.add_parser("run", help="all three, one after the other")
    for add in (_add_bootstrap, _add_trigger, _add_collect):
        add(whole)
    whole.set_defaults(run=run_whole)
    for part in (bootstrap, trigger, collect, whole):
        part.add_argument("--dir", type=Path, default=DEFAULT_DIR, help="folder of the experiment")


def _add_bootstrap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", default="local", help="`local`, or a TOML that lists machines")
    parser.add_argument("--processes", type=int, default=10, help="nodes per machine")
    parser.add_argument("--broadcasters", type=int, default=1, help="nodes that broadcast")
    parser.add_argument("--protocol", default="cptcast", metavar="NAME_OR_FILE")
    parser.add_argument("--overlay", default="hyparview")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--trace", default="deliveries", choices=LEVELS)
    parser.add_argument("--no-tls", action="store_true", help="allowed on loopback only")


def _add_trigger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broadcasts", type=int, default=100, help="of each broadcaster")
    parser.add_argument("--payload", type=int, default=32, help="bytes of each")
    parser.add_argument("--interval-ms", type=float, default=100.0, help="between two of a node")
    parser.add_argument("--node", type=int, default=CONTACT, help="the node that is told")


def _add_collect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--patience", type=float, default=30.0, help="seconds without any progress before giving up"
    )
    parser.add_argument("--local", action="store_true", help="verify and report without Spark")


def run_bootstrap(options: argparse.Namespace) -> int:
    """Start all nodes, say when they are ready, and wait until they have ended."""
    console = _console()
    experiment = _prepare(options)
    running = experiment.start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with console.status("starting the nodes") as status:
            running.wait_ready(status.update)
        console.print(_started(experiment))
        running.wait()
    except KeyboardInterrupt:
        console.print("stopping the nodes")
    finally:
        running.close()
    return 0


def run_trigger(options: argparse.Namespace) -> int:
    """Wait until all nodes are ready, then tell the contact node to begin."""
    console = _console()
    experiment = Experiment(options.dir)
    with console.status("waiting for the nodes") as status:
        experiment.wait_ready(status.update)
    _trigger(experiment, options, console)
    return 0


def _trigger(experiment: Experiment, options: argparse.Namespace, console: Console) -> None:
    experiment.trigger(options.broadcasts, options.payload, options.interval_ms, options.node)
    console.print(f"node {options.node} tells everybody")


def run_collect(options: argparse.Namespace) -> int:
    """Wait, stop, gather, judge; the exit code of the verdict."""
    experiment = Experiment(options.dir)
    begun = time.monotonic()
    _wait_and_stop(experiment, options.patience)
    _console().print(f"everybody had everything after {time.monotonic() - begun:.1f} s of waiting")
    return _judge(options.dir, options.local)


def run_whole(options: argparse.Namespace) -> int:
    """The whole experiment."""
    console = _console()
    begun = time.monotonic()
    experiment = _prepare(options)
    running = experiment.start()
    try:
        with console.status("starting the nodes") as status:
            running.wait_ready(status.update)
        console.print(f"{_started(experiment)} ({time.monotonic() - begun:.1f} s)")
        begun = time.monotonic()
        _trigger(experiment, options, console)
        _wait_and_stop(experiment, options.patience)
        console.print(f"everybody had everything, and stopped ({time.monotonic() - begun:.1f} s)")
    finally:
        running.close()
    return _judge(options.dir, options.local)


def _prepare(options: argparse.Namespace) -> Experiment:
    find_protocol(options.protocol)  # a wrong name is one line, before anything is written
    settings = {}
    for item in options.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: expected option=value")
        settings[name] = value
    is_file = options.protocol.endswith(".py")
    cluster = ClusterPlan(
        protocol=str(Path(options.protocol).resolve()) if is_file else options.protocol,
        options=settings,
        overlay=options.overlay,
        trace_level=options.trace,
        name="experiment",
        tls=not options.no_tls,
    )
    return Experiment.prepare(
        options.dir, options.site, options.processes, options.broadcasters, cluster
    )


def _started(experiment: Experiment) -> str:
    plan = experiment.plan
    return (
        f"{len(plan.nodes)} nodes are up on {len(plan.machines)} machine(s) of {plan.site}, "
        f"{len(plan.broadcasters)} of them broadcasters: {plan.protocol} on {plan.overlay}"
    )


def _wait_and_stop(experiment: Experiment, patience: float) -> None:
    console = _console()
    with console.status("waiting until everybody has everything") as status:
        is_over = experiment.wait_until_over(patience, status.update)
    if not is_over:  # gathered and judged all the same by whoever wants to know why
        raise NodeError(f"nothing has moved for {patience:.0f} s: {experiment.progress()}")
    experiment.stop()


def _judge(folder: Path, local: bool) -> int:
    from causalcast.cli.main import main

    run, report = folder / "run", folder / "report.html"
    code = main(["trace", "gather", str(folder), "--out", str(run)])
    if code:
        return code
    where = ["--local"] if local else []
    code = main(["verify", str(run), *where])
    main(["metrics", str(run), *where])
    main(["report", str(run), "--out", str(report), *where])
    _console().print(f"the report: {report}")
    return code


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
