"""The trace log of a running node: how it begins, and how a restart completes it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from causalcast.errors import TraceError
from causalcast.runtime.machine import Machine
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.storage.durable_entry import TraceRows, in_full
from causalcast.trace.kinds import KIND_CODE
from causalcast.trace.node_log import SUFFIX, NodeLog, NodeLogHeader, pieces_of, put_aside
from causalcast.version import VERSION

PUBLISH: Final = KIND_CODE["publish"]
DELIVER: Final = KIND_CODE["deliver"]
SEND: Final = KIND_CODE["send"]
RECEIVE: Final = KIND_CODE["receive"]
DUPLICATE: Final = KIND_CODE["duplicate"]
HOLD: Final = KIND_CODE["hold"]
RELEASE: Final = KIND_CODE["release"]
DROP: Final = KIND_CODE["drop"]
CRASH: Final = KIND_CODE["crash"]
RECOVER: Final = KIND_CODE["recover"]
JOIN: Final = KIND_CODE["join"]
LEAVE: Final = KIND_CODE["leave"]
SUSPECT: Final = KIND_CODE["suspect"]
TRUST: Final = KIND_CODE["trust"]
NOTE: Final = KIND_CODE["note"]


def open_log(
    config: NodeConfig, has_all_rows: bool, on_trouble: Callable[[str], None], machine: Machine
) -> NodeLog | None:
    """Begin the node's log or go on with it; None if it is to leave no trace, or cannot.

    Whoever watches must not stop what is watched: a log that cannot be gone on with is put aside,
    and where none can be written the node runs without. `on_trouble` hears of both. A new log is
    whole if the journal `has_all_rows`.
    """
    if config.trace is None or config.trace_level == "none":
        return None
    protocol = config.blueprint.protocol
    header = NodeLogHeader(
        node=config.node,
        name=config.name,
        address=str(config.advertise),
        cluster=config.cluster,
        protocol=protocol.name,
        options=dict(config.blueprint.protocol_options),
        overlay=config.overlay,
        guarantees=list(protocol.guarantees),
        groups=config.founders(),
        level=config.trace_level,
        version=VERSION,
        started_at=datetime.fromtimestamp(machine.clock.wall_us() / 1e6, UTC).isoformat(),
        changing=config.is_changing(),
    )
    path = config.trace / f"node-{config.node}{SUFFIX}"
    disk, clock = machine.disk, machine.clock

    def begin() -> NodeLog:
        size = config.trace_bytes
        return NodeLog(path, header, size, on_trouble, disk, lambda: clock.monotonic_us() / 1e6)

    try:
        try:
            header.lost = not has_all_rows and not disk.exists(path) and not pieces_of(path, disk)
            return begin()
        except TraceError as error:
            on_trouble(f"{error}; it is put aside, and a new one begins")
            header.lost = not has_all_rows
            put_aside(path, disk, clock.wall_us())
            return begin()
    except (OSError, TraceError) as error:
        on_trouble(f"{path}: the trace cannot be written ({error}); the node leaves none")
        return None


def complete_log(log: NodeLog, durable: list[TraceRows], sequence: int, at_us: int) -> None:
    """Append the rows that durable entries owe, and say that the node was away.

    A crash can come between an entry and its rows, so the journal is ahead of the log by a few
    entries. `sequence` is the last entry of the journal. Nobody saw the node go down: its last
    sign of life is taken for the time of the crash.
    """
    last_us = log.last_us
    for rows in durable:
        if rows.sequence > log.sequence:
            _add_rows(log, rows)
            last_us = max(last_us, rows.at_us)
    if not log.ended_well:
        log.add(min(last_us, at_us), CRASH)
    log.add(at_us, RECOVER)
    log.write(sequence)


def _add_rows(log: NodeLog, rows: TraceRows) -> None:
    for joined in in_full(rows.joined):
        log.add(rows.at_us, JOIN, group=joined)
    for message, group, size in rows.published:
        log.add(rows.at_us, PUBLISH, message, group, payload_bytes=size)
    for message, group, size in rows.delivered:
        log.add(rows.at_us, DELIVER, message, group, payload_bytes=size)
    for left in in_full(rows.left):
        log.add(rows.at_us, LEAVE, group=left)
