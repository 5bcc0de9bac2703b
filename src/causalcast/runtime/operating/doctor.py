"""Looks at everything a node needs, changes nothing, and says what to do about what is wrong."""

import contextlib
import fcntl
import os
import platform
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from causalcast.errors import CausalcastError, JournalError, NodeError
from causalcast.runtime.host.earlier_life import identity_of
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.control_client import ControlClient, control_path
from causalcast.runtime.storage.durable_entry import Memory
from causalcast.runtime.storage.journal_frames import MAGIC, Damage, OtherFormat, read_frames
from causalcast.trace.node_log import SUFFIX, count_rows, pieces_of
from causalcast.version import VERSION, build_kind

OK, WARNING, PROBLEM = "ok", "warning", "problem"
SLOW_SYNC: Final = 0.05  # seconds
REACH_WITHIN: Final = 1.0  # seconds per peer
FILES_PER_LINK: Final = 4  # and some more for everything else
SYNCS: Final = 5
LOOKS: Final = 3
OTHER_VERSION: Final = (
    "run the version of causalcast that wrote it, or choose another [storage] path"
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `advice` says what to do if it is not fine."""

    about: str
    state: str
    text: str
    advice: str = ""


def examine(path: Path) -> Iterator[Finding]:
    """Look at the node of a TOML file, running or not."""
    yield Finding(
        "version", OK, f"causalcast {VERSION} ({build_kind()}), Python {platform.python_version()}"
    )
    try:
        config = NodeConfig.read(path)
    except CausalcastError as error:
        yield Finding("configuration", PROBLEM, str(error), "correct the file, then look again")
        return
    protocol = config.blueprint.protocol.name
    yield Finding("configuration", OK, f"node {config.node} of {config.cluster!r}, {protocol}")
    running = _is_running(config)
    yield from _disk(config)
    yield _journal_at_rest(config) if running else _journal(config)
    yield from _trace(config)
    yield _clock(config)
    yield _open_files(config)
    yield _address("address", config.listen, running, "[node] listen")
    if config.metrics is not None:
        yield _address("metrics", config.metrics, running, "[metrics] listen")
    if running:
        yield from _status(config)
    else:
        yield Finding("process", OK, "not running", f"start it: causalcast node {path}")
    yield from _peers(config)


def _is_running(config: NodeConfig) -> bool:
    """Whether a process holds the node's journal."""
    path = config.storage / "journal"
    with contextlib.suppress(OSError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _disk(config: NodeConfig) -> Iterator[Finding]:
    folder = config.storage
    while not folder.exists():
        folder = folder.parent
    try:
        seconds = _sync_time(folder)
    except OSError as error:
        advice = "make it writable for this user, or choose another [storage] path"
        yield Finding("disk", PROBLEM, f"{folder}: cannot be written ({error.strerror})", advice)
        return
    free = shutil.disk_usage(folder).free
    said = f"{folder}: {_size(free)} free, a sync takes {1000 * seconds:.1f} ms"
    # A compaction writes a new journal beside the old one.
    if free < 2 * config.limits.compact_bytes:
        advice = "free some space, or lower [limits] compact_bytes: a full disk stops the node"
        yield Finding("disk", WARNING, said, advice)
    elif seconds > SLOW_SYNC:
        advice = "every publication waits for a sync: choose a faster disk if that is too slow"
        yield Finding("disk", WARNING, said, advice)
    else:
        yield Finding("disk", OK, said)


def _sync_time(folder: Path) -> float:
    """The median of a few, in seconds."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            began = time.monotonic()
            file.write(b"causalcast")
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - began)
    return sorted(times)[SYNCS // 2]


def _journal_at_rest(config: NodeConfig) -> Finding:
    """What is being written in this moment can look damaged: look again before saying so."""
    finding = _journal(config)
    for _ in range(LOOKS):
        if finding.state != PROBLEM:
            break
        time.sleep(0.1)
        finding = _journal(config)
    return finding


def _journal(config: NodeConfig) -> Finding:
    path = config.storage / "journal"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Finding("journal", OK, f"{path}: none yet; the node has never started here")
    except OSError as error:
        advice = "make it readable for the user of the node"
        return Finding("journal", PROBLEM, f"{path}: cannot be read ({error.strerror})", advice)
    if len(content) < len(MAGIC):
        return Finding("journal", OK, f"{path}: begun, and nothing in it")
    memory = Memory(config.node, config.blueprint.groups)
    try:
        reading = read_frames(content)
        memory.take_in(reading.entries)
        # Whether records can be read, only a start can tell.
        digest = memory.identity.digest if memory.identity else ""
        now = identity_of(config, lambda *_: digest, memory.groups_then())
        takes_new_groups = "new_groups" in config.blueprint.protocol.offers
        memory.check_identity(now, "resume", config.storage, takes_new_groups)
    except Damage as damage:
        advice = "give the node a new id and new storage; an older copy is no way back"
        if isinstance(damage, OtherFormat):
            advice = OTHER_VERSION
        return Finding("journal", PROBLEM, f"{path}: {damage}", advice)
    except JournalError as error:
        return Finding("journal", PROBLEM, f"{path}: {error}", OTHER_VERSION)
    except CausalcastError as error:
        return Finding("journal", PROBLEM, str(error), "put it back as it was, or begin anew")
    said = (
        f"{path}: {_size(len(content))}, {len(reading.entries)} entries intact, "
        f"{memory.starts} starts, {len(memory.inbox)} deliveries not acknowledged"
    )
    torn = len(content) - reading.end
    if torn:
        said += f"; {torn} bytes at its end are torn or being written"
    if config.blueprint.protocol.restart == "reborn" and memory.starts and not config.always_new:
        advice = f'{config.blueprint.protocol.name} keeps nothing: come back with id = "new"'
        return Finding("journal", WARNING, said, advice)
    return Finding("journal", OK, said)


def _trace(config: NodeConfig) -> Iterator[Finding]:
    if config.trace is None:
        return
    path = config.trace / f"node-{config.node}{SUFFIX}"
    if not path.exists():
        yield Finding("trace", OK, f"{path}: none yet")
        return
    try:
        rows = count_rows(path)
    except (CausalcastError, OSError) as error:
        advice = "nothing need be done: the node puts it aside and begins a new one"
        yield Finding("trace", WARNING, str(error), advice)
        return
    size = sum(piece.stat().st_size for piece in [*pieces_of(path), path])
    yield Finding("trace", OK, f"{path}: {rows} rows so far, {_size(size)} of them kept")


def _clock(config: NodeConfig) -> Finding:
    """It decides nothing, but people read it in traces and logs."""
    now = time.time()
    said = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    files = [config.storage / "journal", config.folder]
    newest = max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
    if newest > now + 1:
        advice = "set the clock (NTP): times in traces are wrong, order is not"
        return Finding("clock", WARNING, f"{said}, {newest - now:.0f} s behind its files", advice)
    return Finding("clock", OK, said)


def _open_files(config: NodeConfig) -> Finding:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted = 64 + FILES_PER_LINK * len(config.blueprint.topology.neighbours.get(config.node, []))
    if soft < wanted:
        advice = f"raise it to {wanted} (ulimit -n, or LimitNOFILE= of systemd)"
        return Finding("open files", PROBLEM, f"at most {soft}", advice)
    return Finding("open files", OK, f"at most {soft}")


def _address(about: str, address: Address, running: bool, key: str) -> Finding:
    if running:
        return Finding(about, OK, f"{address}: the node has it")
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address.host, address.port))
        except OSError as error:
            advice = f"stop whoever has it, or choose another {key}"
            return Finding(about, PROBLEM, f"{address}: {error.strerror}", advice)
    return Finding(about, OK, f"{address}: free")


def _status(config: NodeConfig) -> Iterator[Finding]:
    try:
        with ControlClient(config.folder, config.control_name(), timeout=5.0) as client:
            status = client.ask("status")
    except (NodeError, OSError) as error:
        if not control_path(config.folder, config.control_name()).exists():
            advice = "it was opened by a program without a control socket: ask that program"
            yield Finding("process", WARNING, "running, and cannot be asked", advice)
            return
        advice = "it runs and does not answer: look into its log, then stop it (SIGTERM)"
        yield Finding("process", PROBLEM, str(error), advice)
        return
    said = (
        f"running, start {status['starts']}, links to {status['links'] or 'nobody'}, "
        f"{status['waiting']} deliveries wait for the application"
    )
    if status["publishers_wait"]:
        said += f"; publishers wait: {', '.join(status['publishers_wait'])}"
        yield Finding("process", WARNING, said, "look at those nodes and disks")
    elif 2 * status["kept_bytes"] > config.limits.kept_bytes:
        said += f"; {_size(status['kept_bytes'])} are kept for neighbours that lack them"
        advice = "bring them back; publishers wait at [limits] kept_bytes"
        yield Finding("process", WARNING, said, advice)
    elif status["suspected"]:
        said += f"; nothing is heard of nodes {', '.join(map(str, status['suspected']))}"
        yield Finding("process", WARNING, said, "are they up, and can they be reached?")
    elif not status["takes_part"]:
        advice = "it has not found its place yet: are its peers up?"
        yield Finding("process", WARNING, said, advice)
    elif not status["links"] and (config.peers or config.contacts):
        yield Finding("process", WARNING, said, "nobody is linked to it: see the peers below")
    else:
        yield Finding("process", OK, said)


def _peers(config: NodeConfig) -> Iterator[Finding]:
    neighbours = config.blueprint.topology.neighbours.get(config.node, [])
    peers = {f"node {peer}": config.peers[peer] for peer in neighbours if peer in config.peers}
    peers |= {f"contact {number}": a for number, a in enumerate(config.contacts, 1)}
    for name, address in peers.items():
        try:
            socket.create_connection((address.host, address.port), REACH_WITHIN).close()
        except OSError as error:
            reason = error.strerror or "no answer in time"
            advice = "start it, or correct its address; a firewall may be between you"
            yield Finding(name, WARNING, f"{address}: {reason}", advice)
        else:
            yield Finding(name, OK, f"{address}: answers")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
