"""What messages cost between real processes on this machine, beside others that carry messages.

`make bench-runtime`. Every round runs every system in turn, in processes of their own, so a ratio
compares what ran within the same minute; the median of the ratios counts. Rates are deliveries per
second of the wall clock; the cost is CPU time of all processes, a broker's included, per delivery.
On a machine that others use too, the cost is the steadier measure.

- fan-out: one publishes, four receive. All-to-all: four publish a quarter each and receive all.
- paced: 1,000 publications per second in all; from `publish` to the callback, median.
- durable: P coroutines publish 128 bytes and await each before the next, beside the raw log: the
  same bytes in the same groups, written and synced in a plain loop.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE / "runtime_peers"
SOURCE = HERE.parent / "src"
COMPILED = HERE.parent / "build" / "compiled"
PATIENCE = 300.0
SHAPES = {"fan-out": ([1], [2, 3, 4, 5]), "all-to-all": ([1, 2, 3, 4], [1, 2, 3, 4])}


@dataclass(frozen=True)
class System:
    """Something that carries messages: a script, and how to run it."""

    name: str
    script: str
    path: Path | None = None
    tls: bool = False
    iterate: bool = False
    uvloop: bool = False
    broker: bool = False
    hand_over: bool = False


def systems(wanted: list[str]) -> list[System]:
    """What is at hand here, the bare mesh first."""
    found = [
        System("bare mesh", "bare_mesh.py"),
        System("bare mesh, TLS", "bare_mesh.py", tls=True),
        System("causalcast", "causalcast_node.py", SOURCE),
        System("causalcast, TLS", "causalcast_node.py", SOURCE, tls=True),
        System("causalcast, iterator", "causalcast_node.py", SOURCE, iterate=True),
    ]
    if (COMPILED / "causalcast").is_dir():
        found += [
            System("compiled", "causalcast_node.py", COMPILED),
            System("compiled, TLS", "causalcast_node.py", COMPILED, tls=True),
            System("compiled, iterator", "causalcast_node.py", COMPILED, iterate=True),
            System("compiled, keeping", "causalcast_node.py", COMPILED, hand_over=True),
        ]
    if _has("uvloop"):
        found.append(System("causalcast, uvloop", "causalcast_node.py", SOURCE, uvloop=True))
    if _has("zenoh"):
        found.append(System("Zenoh", "zenoh_peer.py"))
    if _has("nats") and _nats_server():
        found.append(System("NATS", "nats_client.py", broker=True))
    return [system for system in found if not wanted or system.name in wanted]


def _has(module: str) -> bool:
    code = f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _nats_server() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server") or ""


class Broker:
    """A NATS server of our own; `cpu_seconds` is what it used so far."""

    def __init__(self, port: int, folder: Path, jetstream: bool = False) -> None:
        config = folder / "nats.conf"
        lines = [f"listen: 127.0.0.1:{port}", "max_pending: 1GB"]
        if jetstream:
            lines.append(f'jetstream {{ store_dir: "{folder}", sync_interval: always }}')
        config.write_text("\n".join(lines))
        self._process = subprocess.Popen(
            [_nats_server(), "-c", str(config)], stderr=subprocess.DEVNULL
        )
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def run(
    system: System, shape: str, size: int, publications: int, pace: float, tls: Path
) -> dict[str, float]:
    """One run of one system: deliveries per second, CPU per delivery, latency."""
    publishers, receivers = SHAPES[shape]
    members = sorted({*publishers, *receivers})
    ports = _free_ports([*map(str, members), "broker"])
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(ports["broker"], Path(folder)) if system.broker else None
        processes = []
        for me in members:
            work = {
                "me": me,
                "publishers": publishers,
                "receivers": receivers,
                "publications": publications,
                "size": size,
                "pace": pace,
                "ports": ports,
                "tls": str(tls) if system.tls else "",
                "iterate": system.iterate,
                "uvloop": system.uvloop,
                "hand_over": system.hand_over,
                "folder": folder,
            }
            processes.append(_start(system.script, system.path, json.dumps(work)))
        try:
            _await(processes, "ready")
            before = broker.cpu_seconds() if broker else 0.0
            _tell(processes)
            _await(processes, "received")
            _tell(processes)
            results = [json.loads(process.stdout.readline()) for process in processes]
            broker_cpu = broker.cpu_seconds() - before if broker else 0.0
            for process in processes:
                process.stdin.close()
            for process in processes:
                process.wait(PATIENCE)
        finally:
            for process in processes:
                process.kill()
                process.wait()
            if broker:
                broker.stop()
    deliveries = publications * len(receivers)
    started = min(result["started"] for result in results)
    ended = max(result["ended"] for result in results)
    latencies = [at for result in results for at in result["latencies"]]
    return {
        "rate": deliveries / (ended - started),
        "cpu_us": (sum(r["cpu_seconds"] for r in results) + broker_cpu) / deliveries * 1e6,
        "p50_us": statistics.median(latencies) / 1000 if latencies else 0.0,
    }


def _start(script: str, path: Path | None, argument: str) -> "subprocess.Popen[str]":
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.Popen(
        [sys.executable, str(PEERS / script), argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )


def _await(processes: "list[subprocess.Popen[str]]", word: str) -> None:
    for process in processes:
        line = process.stdout.readline().strip()
        if line != word:
            raise SystemExit(f"a member of {process.args} said {line!r}, not {word!r}")


def _tell(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def _free_ports(names: list[str]) -> dict[str, int]:
    sockets = [socket.socket() for _ in names]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


def make_certificate(folder: Path) -> None:
    """A throw-away P-256 certificate for 127.0.0.1."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def make_identities(folder: Path) -> None:
    """What the nodes need for TLS in both directions."""
    made = _start("make_identities.py", SOURCE, str(folder))
    made.communicate(timeout=PATIENCE)
    assert made.returncode == 0


def measure_messages(options: argparse.Namespace, tls: Path) -> dict[str, Any]:
    """All cells, all rounds; the medians, and ratios of each round to each yardstick."""
    found: dict[str, Any] = {}
    cells = [(shape, size) for shape in options.shapes for size in options.sizes]
    for round_ in range(1, options.rounds + 1):
        for shape, size in cells:
            for system in systems(options.systems):
                result = run(system, shape, size, options.publications, 0, tls)
                cell = found.setdefault(f"{shape}, {size} B", {})
                cell.setdefault(system.name, []).append(result)
                show(round_, f"{shape}, {size} B", system.name, result)
        if options.pace:
            for shape in options.shapes:
                for system in systems(options.systems):
                    seconds = options.paced_seconds
                    result = run(system, shape, 32, int(options.pace * seconds), options.pace, tls)
                    cell = found.setdefault(f"{shape}, paced", {})
                    cell.setdefault(system.name, []).append(result)
                    show(round_, f"{shape}, paced", system.name, result)
    return found


def show(round_: int, cell: str, name: str, result: dict[str, float]) -> None:
    """One line while it goes on."""
    latency = f"   p50 {result['p50_us']:,.0f} µs" if result["p50_us"] else ""
    print(
        f"round {round_}  {cell:18}  {name:21}  {result['rate']:>9,.0f}/s"
        f"   {result['cpu_us']:>6.2f} µs{latency}",
        flush=True,
    )


DURABLE = ("raw log", "causalcast", "compiled", "JetStream")


def measure_durable(options: argparse.Namespace) -> dict[str, Any]:
    """Records per second and CPU per record, by number of publishers."""
    found: dict[str, Any] = {}
    for round_ in range(1, options.rounds + 1):
        for publishers in options.publishers:
            for name in DURABLE:
                if name == "compiled" and not (COMPILED / "causalcast").is_dir():
                    continue
                if name == "JetStream" and not (_has("nats") and _nats_server()):
                    continue
                result = run_durable(name, publishers, options.durable_seconds)
                cell = found.setdefault(f"durable, {publishers} publishers", {})
                cell.setdefault(name, []).append(result)
                show(round_, f"durable, {publishers:>3}", name, result)
    return found


def run_durable(name: str, publishers: int, seconds: float) -> dict[str, float]:
    """One run of one way to make records durable."""
    port = _free_ports(["port"])["port"]
    # On the disk of the checkout: a folder for temporary files may be in memory.
    with tempfile.TemporaryDirectory(dir=HERE.parent) as folder:
        broker = Broker(port, Path(folder), jetstream=True) if name == "JetStream" else None
        work = {
            "system": "causalcast" if name == "compiled" else name,
            "publishers": publishers,
            "seconds": seconds,
            "folder": folder,
            "port": port,
        }
        path = COMPILED if name == "compiled" else SOURCE
        process = _start("durable_publishing.py", path, json.dumps(work))
        result = json.loads(process.communicate(timeout=PATIENCE)[0])
        if broker:
            result["cpu_seconds"] += broker.cpu_seconds()
            broker.stop()
    return {
        "rate": result["records"] / result["seconds"],
        "cpu_us": result["cpu_seconds"] / result["records"] * 1e6,
        "p50_us": 0.0,
    }


def summarize_durable(found: dict[str, Any]) -> None:
    """Rates beside one another, and beside the same with one publisher."""
    first = next(iter(found.values()))
    for cell, by_system in found.items():
        print(f"\n{cell}: records/s, CPU µs per record")
        for name, rounds in by_system.items():
            rate = statistics.median(result["rate"] for result in rounds)
            cpu = statistics.median(result["cpu_us"] for result in rounds)
            words = [f"{_ratio(rounds, first[name], 'rate'):.1f}x its rate with one publisher"]
            for other in ("raw log", "JetStream"):
                if other in by_system and other != name:
                    words.append(
                        f"{_ratio(rounds, by_system[other], 'rate'):.2f}x {other}"
                        f" (CPU per record {_ratio(rounds, by_system[other], 'cpu_us'):.1f}x)"
                    )
            print(f"  {name:21} {rate:>9,.0f} {cpu:>7.2f}   {'  '.join(words)}")


YARDSTICKS = ("bare mesh", "Zenoh", "NATS")


def summarize(found: dict[str, Any]) -> None:
    """Medians over the rounds, and each as a ratio to what it is measured against."""
    for cell, by_system in found.items():
        print(f"\n{cell}: deliveries/s, CPU µs per delivery, and how many times the rate of")
        for name, rounds in by_system.items():
            if cell.endswith("paced"):
                latency = statistics.median(result["p50_us"] for result in rounds)
                print(f"  {name:21} p50 {latency:>7,.0f} µs")
                continue
            rate = statistics.median(result["rate"] for result in rounds)
            cpu = statistics.median(result["cpu_us"] for result in rounds)
            words = [
                f"{_ratio(rounds, by_system[other], 'rate'):.2f}x {other}"
                f" (CPU {_ratio(by_system[other], rounds, 'cpu_us'):.2f}x)"
                for other in (*YARDSTICKS, name.partition(",")[0])
                if other in by_system and other != name
            ]
            print(f"  {name:21} {rate:>9,.0f} {cpu:>7.2f}   {'  '.join(dict.fromkeys(words))}")


def _ratio(rounds: list[dict[str, float]], others: list[dict[str, float]], key: str) -> float:
    return statistics.median(
        one[key] / other[key] for one, other in zip(rounds, others, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--publications", type=int, default=20_000)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--sizes", nargs="*", type=int, default=[32, 1000])
    parser.add_argument("--systems", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--pace", type=float, default=1000, help="per second; 0: not paced")
    parser.add_argument("--paced-seconds", type=float, default=2)
    parser.add_argument("--publishers", nargs="*", type=int, default=[1, 16, 256])
    parser.add_argument("--durable-seconds", type=float, default=0.8)
    parser.add_argument("--only", choices=["messages", "durable"])
    parser.add_argument("--json", type=Path, help="write all rounds to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_certificate(Path(folder))
        make_identities(Path(folder))
        found = measure_messages(options, Path(folder)) if options.only != "durable" else {}
    durable = measure_durable(options) if options.only != "messages" else {}
    summarize(found)
    if durable:
        summarize_durable(durable)
    if options.json:
        options.json.write_text(json.dumps({**found, **durable}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
