"""Real nodes: `up` a cluster, run one `node`; `pub`, `sub`, `status`, `explain`, `gone`."""

import argparse
import base64
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from causalcast.cli.operate.dashboard import DEFAULT_LISTEN, dashboard_of, serve_beside
from causalcast.cli.shared.node_client import DEFAULT_DIR, add_client, client_of
from causalcast.cli.shared.status_table import status_lines
from causalcast.cli.shared.way_in import add_way_in, way_in
from causalcast.errors import ConfigError
from causalcast.printable import printable
from causalcast.registry import find_protocol
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.node_config import CHANGING, GRAPHS, TRANSPORTS
from causalcast.runtime.observing.node_logging import FORMS, set_up_logging
from causalcast.runtime.operating.joining import ask_cluster, groups_told, newcomers_toml
from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster, free_addresses
from causalcast.runtime.operating.node_process import run_node
from causalcast.trace.kinds import LEVELS

OVERLAYS = [*(kind for kind in GRAPHS if kind != "edges"), *CHANGING]


def add_to(subparsers: Any) -> None:
    """Declare the commands."""
    _add_up(subparsers)
    node = subparsers.add_parser("node")
    node.add_argument("config", type=Path, metavar="CONFIG.toml")
    node.add_argument("--verbose", action="store_true", help="log notes of the protocol, too")
    node.add_argument("--log", default="text", choices=FORMS, help="how log lines look")
    node.add_argument(
        "--until-stdin-closes", action="store_true", help="stop when whoever started it has gone"
    )
    node.set_defaults(run=run_one_node)
    _add_join(subparsers)
    add_client(subparsers, "leave", "let a node leave its cluster in good order", run_leave)
    pub = add_client(
        subparsers, "pub", "publish a text, the lines of standard input, or a file", run_pub
    )
    pub.add_argument("group")
    pub.add_argument("text", nargs="?", help="default, or -: every line of standard input")
    pub.add_argument("--file", type=Path, help="publish the bytes of a file, as one message")
    pub.add_argument("--count", type=int, default=1, help="publish it so often (default: once)")
    pub.add_argument("--rate", type=float, help="at most so many messages a second")
    pub.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a text that travels with the message; may be repeated",
    )
    pub.add_argument("--content-type", default="", help="what kind of payload it is")
    sub = add_client(subparsers, "sub", "print what a group delivers at a node", run_sub)
    sub.add_argument("group")
    sub.add_argument("--count", type=int, help="stop after so many messages")
    sub.add_argument(
        "--reader",
        default="",
        metavar="NAME",
        help="read under a name: with acknowledgements of its own, beside whoever else reads",
    )
    status = add_client(subparsers, "status", "what a node is doing, in numbers", run_status)
    status.add_argument("--prometheus", action="store_true", help="print it for Prometheus")
    explain = add_client(subparsers, "explain", "what a held message waits for", run_explain)
    explain.add_argument("message", help="origin.number, such as 3.17")


def _add_up(subparsers: Any) -> None:
    up = subparsers.add_parser("up")
    up.add_argument("--nodes", type=int, default=5)
    up.add_argument("--protocol", default="vector_clock_broadcast", metavar="NAME_OR_FILE")
    up.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", dest="settings")
    up.add_argument("--overlay", default="ring", choices=OVERLAYS)
    up.add_argument("--transport", default="tcp", choices=TRANSPORTS)
    up.add_argument(
        "--groups",
        nargs="+",
        default=[],
        metavar="NAME=1,2,3",
        help="groups and their members (default: all=*)",
    )
    up.add_argument("--dir", type=Path, default=DEFAULT_DIR, help="a new folder for the nodes")
    up.add_argument("--trace", default="messages", choices=LEVELS)
    up.add_argument(
        "--insecure", action="store_true", help="no TLS: any process on this machine can connect"
    )
    up.add_argument(
        "--dashboard",
        nargs="?",
        const=DEFAULT_LISTEN,
        metavar="HOST:PORT",
        help=f"serve a live view, too (default address: {DEFAULT_LISTEN}; port 0: any)",
    )
    up.add_argument(
        "--clients", action="store_true", help="give every node a door for clients, on loopback"
    )
    up.set_defaults(run=run_up)


def _add_join(subparsers: Any) -> None:
    join = subparsers.add_parser(
        "join",
        description="Ask the node at ADDRESS what cluster it is in, write a TOML for a new node "
        "of that cluster, and run it until Ctrl-C. The overlay must be one that nodes can join.",
    )
    add_way_in(join, "of any node of the cluster")
    join.add_argument(
        "--token", default="", help="of `causalcast keys token`; without one: no TLS, on loopback"
    )
    join.add_argument("--dir", type=Path, default=DEFAULT_DIR, help="gets a folder for the node")
    join.add_argument("--listen", metavar="HOST:PORT", help="default: a free port on loopback")
    join.add_argument("--groups", nargs="+", metavar="NAME", help="default: all of them")
    join.add_argument("--protocol", default="", metavar="FILE", help="if the cluster runs a file")
    join.add_argument("--trace", default="messages", choices=LEVELS)
    join.set_defaults(run=run_join)


# One node


def run_one_node(options: argparse.Namespace) -> int:
    """`causalcast node`: until a signal or a `stop` request ends it."""
    set_up_logging(options.verbose, options.log)
    run_node(options.config, until_stdin_closes=options.until_stdin_closes)
    return 0


def run_join(options: argparse.Namespace) -> int:
    """`causalcast join`: one more node of a running cluster."""
    way = way_in(options)
    try:
        listen = Address.parse(options.listen or free_addresses(1)[0])
    except ValueError as error:
        raise ConfigError(f"expected {error}") from None
    theirs, node = ask_cluster(way, options.token, options.dir)
    groups = options.groups or groups_told(theirs, way.contact)
    text = newcomers_toml(
        *(theirs, way, node, listen, groups, options.protocol, options.trace),
        tls=bool(options.token),
    )
    folder = options.dir / f"node-{node}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "node.toml"
    path.write_text(text)
    where = "" if options.dir == DEFAULT_DIR else f" --dir {options.dir}"
    cluster, told = printable(theirs.cluster), printable(theirs.facts["protocol"])
    print(f"node {node} joins {cluster} ({told}); Ctrl-C leaves")
    print(f"status: causalcast status --node {node}{where}", flush=True)
    set_up_logging()
    run_node(path)
    return 0


def run_leave(options: argparse.Namespace) -> int:
    """`causalcast leave`: returns when the node has agreed to leave."""
    with client_of(options) as client:
        answer = client.ask("stop")
    print(json.dumps(answer) if options.json else f"node {options.node} leaves")
    return 0


# A cluster


def run_up(options: argparse.Namespace) -> int:
    """`causalcast up`: start all, show them, wait for Ctrl-C, stop all."""
    plan = ClusterPlan(
        nodes=options.nodes,
        protocol=protocol_for_toml(options.protocol),
        options=settings_of(options.settings),
        overlay=options.overlay,
        transport=options.transport,
        groups=_groups(options.groups, options.nodes),
        trace_level=options.trace,
        tls=not options.insecure,
        clients=options.clients,
    )
    cluster = LocalCluster.made_or_found(options.dir, plan)
    # Whoever stops us, by Ctrl-C or by SIGTERM, wants the nodes stopped in good order. A script's
    # `up … &` starts with SIGINT ignored, so SIGTERM must not lean on it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    dashboard = None
    try:
        if options.dashboard is not None:  # first: a wrong address is told before nodes start
            dashboard = dashboard_of(options.dir, options.dashboard, "--dashboard")
            serve_beside(dashboard)
        with console.status("starting the nodes"):
            cluster.start_all()
            cluster.wait_linked()
        _show_cluster(cluster, console)
        if dashboard is not None:
            # On a line of its own, unwrapped: it is copied.
            print(f"the dashboard is at {dashboard.address}", flush=True)
        _wait_for_ctrl_c(cluster, console)
    finally:
        if dashboard is not None:
            dashboard.close()
        with console.status("stopping the nodes"):
            stubborn = cluster.stop_all()
        if stubborn:
            console.print(f"nodes {stubborn} had to be killed")
    run = options.dir.with_name(options.dir.name + "-run")
    console.print(f"stopped. The trace: causalcast trace gather {options.dir} --out {run}")
    return 0


def _show_cluster(cluster: LocalCluster, console: Console) -> None:
    table = Table(title=f"{cluster.plan.protocol} on a {cluster.plan.overlay}")
    for column in ("node", "address", "links to", "groups"):
        table.add_column(column)
    for node in cluster.ids:
        status = cluster.ask(node, "status")
        links = ", ".join(str(peer) for peer in sorted(status["links"]))
        table.add_row(str(node), cluster.addresses[node], links, ", ".join(status["groups"]))
    console.print(table)
    group = next(iter(cluster.plan.groups), "all")
    where = "" if cluster.folder == DEFAULT_DIR else f" --dir {cluster.folder}"
    console.print(f"listen:   causalcast sub {group} --node {cluster.ids[-1]}{where}")
    console.print(f"publish:  causalcast pub {group} 'hello' --node 1{where}")
    if cluster.plan.clients:
        _show_doors(cluster)
    console.print("[bold]Ctrl-C stops the cluster[/]")


def _show_doors(cluster: LocalCluster) -> None:
    """On lines of their own, unwrapped: they are copied."""
    for node in cluster.ids:
        print(f"clients of node {node}: {cluster.door_of(node)}")
    if cluster.plan.tls:
        authority = cluster.folder / "authority"
        print(
            f"a token: causalcast keys client {authority} --name me --publish '*' --subscribe '*'"
        )


def _wait_for_ctrl_c(cluster: LocalCluster, console: Console) -> None:
    down: set[int] = set()
    try:
        while True:
            time.sleep(0.5)
            for node in cluster.ids:
                if node not in down and not cluster.is_running(node):
                    down.add(node)
                    said = escape(printable(cluster.last_words(node)))
                    console.print(f"node {node} has gone: {said}")
    except KeyboardInterrupt:
        console.print()


def protocol_for_toml(name: str) -> str:
    """The protocol for the nodes' TOML files, a file with its full path.

    It is checked here, so that a wrong name gives one error and not one per node.
    """
    find_protocol(name)
    return str(Path(name).resolve()) if name.endswith(".py") else name


def settings_of(given: list[str]) -> dict[str, str]:
    settings = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: expected option=value")
        settings[name] = value
    return settings


def _groups(given: list[str], nodes: int) -> dict[str, list[int]]:
    everybody = list(range(1, nodes + 1))
    groups = {}
    for item in given:
        name, _, members = item.partition("=")
        if members in ("", "*"):
            groups[name] = everybody
            continue
        try:
            groups[name] = [int(member) for member in members.split(",")]
        except ValueError:
            raise ConfigError(f"--groups {item}: expected name=1,2,3 or name=*") from None
        if not set(groups[name]) <= set(everybody):
            raise ConfigError(f"--groups {item}: the nodes are 1 to {nodes}")
    return groups


# Speaking with a running node


def run_pub(options: argparse.Namespace) -> int:
    """`causalcast pub`: returns when the message is durable at the node."""
    if options.count < 1 or (options.rate is not None and options.rate <= 0):
        raise ConfigError("--count, --rate: expected at least 1, and more than 0")
    said = {"headers": _headers(options.header), "content_type": options.content_type}
    begun = time.monotonic()
    with client_of(options) as client:
        for number, body in enumerate(_bodies(options)):
            if options.rate is not None:
                time.sleep(max(0.0, begun + number / options.rate - time.monotonic()))
            answer = client.ask("publish", group=options.group, **body, **said)
            words = f"published {answer['message']}"
            print(json.dumps(answer) if options.json else words, flush=True)
    return 0


def _headers(texts: list[str]) -> dict[str, str]:
    """What travels with a message, by name."""
    headers = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--header {text}: expected NAME=VALUE")
        headers[name] = value
    return headers


def _bodies(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    """What is to be published, one after the other."""
    if options.file is not None:
        if options.text is not None:
            raise ConfigError("expected a text or --file, not both")
        try:
            data = options.file.read_bytes()
        except OSError as error:
            raise ConfigError(f"--file {options.file}: {error.strerror}") from None
        yield from [{"base64": base64.b64encode(data).decode()}] * options.count
    elif options.text in (None, "-"):
        if options.count != 1:
            raise ConfigError("--count repeats a text or a file, not standard input")
        for line in sys.stdin:
            yield {"text": line.rstrip("\n")}
    else:
        yield from [{"text": options.text}] * options.count


def run_sub(options: argparse.Namespace) -> int:
    """`causalcast sub`: one line per message, until `--count` or the node's end."""
    with client_of(options) as client:
        for message in itertools.islice(
            client.messages(options.group, options.reader), options.count
        ):
            if options.json:
                print(json.dumps(message), flush=True)
            else:
                text = message.get("text", f"(binary) {message.get('base64')}")
                print(f"{message['message']:>8}  {printable(text)}", flush=True)
            client.acknowledge(message)  # it has left this process
    return 0


def run_status(options: argparse.Namespace) -> int:
    """`causalcast status`."""
    with client_of(options) as client:
        if options.prometheus:
            print(client.ask("metrics")["text"], end="")
            return 0
        status = client.ask("status")
    if options.json:
        print(json.dumps(status))
    else:
        print("\n".join(status_lines(status)))
    return 0


def run_explain(options: argparse.Namespace) -> int:
    """`causalcast explain`."""
    with client_of(options) as client:
        answer = client.ask("explain", message=options.message)
    waits_for = answer["waits_for"]
    if options.json:
        print(json.dumps(answer))
        return 0
    if waits_for:
        print(f"{options.message} is held at node {options.node}, for {', '.join(waits_for)}")
    elif answer["reasons"]:
        print(f"{options.message} is not finished at node {options.node}:")
    else:
        print(f"{options.message} is not held at node {options.node}")
    for reason in answer["reasons"]:
        print(f"  {printable(reason)}")
    return 0
