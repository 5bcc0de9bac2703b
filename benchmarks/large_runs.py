"""Writes large runs that keep every promise, file by file: a run never has to fit in memory.

Publication m happens at m × 100 µs; every member delivers it between one and two latencies later.
A cause was delivered by the publisher of its effect before that was published, so it was published
at least one latency earlier, and no jitter of up to one latency can turn the two round. An origin
publishes its next message only when the one before has been everywhere.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from causalcast.trace.run_folder import write_events
from causalcast.trace.run_header import RunHeader
from causalcast.trace.schema import EVENTS, GROUPS, GUARANTEES, KIND_CODE, KINDS, MEMBERS, NODES

INTERVAL_US = 100
LATENCY_US = 3_000
SPACING = 100  # turns between two publications of one node: longer than a message spreads
ROWS_PER_FILE = 1_000_000
GROUP_SIZE = 50
PUBLISH, DELIVER = KIND_CODE["publish"], KIND_CODE["deliver"]


class Plan:
    """Who publishes what to which group, and who is in it; everything follows from the sizes."""

    def __init__(self, nodes: int, publications: int, groups: int) -> None:
        random = np.random.default_rng(7)
        self.nodes = nodes
        rounds = -(-publications // nodes)
        turns = [random.permutation(nodes) for _ in range(rounds)]
        assert nodes >= 2 * SPACING, f"at least {2 * SPACING} nodes: else turns follow too fast"
        self.origin = _spaced(turns)[:publications].astype(np.int64)
        order = np.argsort(self.origin, kind="stable")
        firsts = np.searchsorted(self.origin[order], np.arange(nodes))
        self.number = np.empty(publications, np.int64)
        self.number[order] = np.arange(publications) - firsts[self.origin[order]] + 1
        self.message = self.origin << 32 | self.number
        self.members = [
            np.arange(nodes) if groups == 1 else np.sort(random.choice(nodes, GROUP_SIZE, False))
            for _ in range(groups)
        ]
        self.group = self._groups(random)
        self.is_member = np.zeros((nodes, groups), np.bool_)
        for group, members in enumerate(self.members):
            self.is_member[members, group] = True

    def _groups(self, random: np.random.Generator) -> np.ndarray:
        """Each publication goes to a group of its origin, or to any if that has none."""
        of_node: list[list[int]] = [[] for _ in range(self.nodes)]
        for group, members in enumerate(self.members):
            for node in members.tolist():
                of_node[node].append(group)
        everything = list(range(len(self.members)))
        draws = random.integers(0, 1 << 30, len(self.origin))
        choices = [of_node[node] or everything for node in self.origin.tolist()]
        return np.array([c[d % len(c)] for c, d in zip(choices, draws.tolist(), strict=True)])


def _spaced(turns: list[np.ndarray]) -> np.ndarray:
    """Whoever came last in a round goes to the end of the next: turns of one node stay apart."""
    spaced = [turns[0]]
    for turn in turns[1:]:
        late = np.isin(turn, spaced[-1][-SPACING:])
        spaced.append(np.concatenate([turn[~late], turn[late]]))
    return np.concatenate(spaced)


def write_large_run(folder: Path, nodes: int, publications: int, groups: int = 1) -> int:
    """Write the run unless it is there; how many rows its event files have."""
    if not (folder / "run.json").exists():
        (folder / "events").mkdir(parents=True, exist_ok=True)
        plan = Plan(nodes, publications, groups)
        _write_small_tables(folder, plan)
        for number, table in enumerate(_files(plan)):
            write_events(folder / "events" / f"part-{number:05d}.parquet", table)
        header = RunHeader(folder.name, "imported", guarantees=list(GUARANTEES))
        (folder / "run.json").write_text(header.to_json())
    return sum(pq.read_metadata(path).num_rows for path in (folder / "events").iterdir())


def _write_small_tables(folder: Path, plan: Plan) -> None:
    names = [f"n{node}" for node in range(plan.nodes)]
    nothing = [None] * plan.nodes
    groups = list(range(len(plan.members)))
    group = np.concatenate([np.full(len(m), g) for g, m in enumerate(plan.members)])
    node = np.concatenate(plan.members)
    tables = {
        "nodes": pa.table([range(plan.nodes), names, nothing, nothing], schema=NODES),
        "groups": pa.table([groups, [f"g{g}" for g in groups]], schema=GROUPS),
        "members": pa.table([group, node, [0] * len(node), [None] * len(node)], schema=MEMBERS),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def _files(plan: Plan) -> Iterator[pa.Table]:
    logs: list[pa.Table] = []
    rows = 0
    for node in range(plan.nodes):
        logs.append(_log(plan, node))
        rows += len(logs[-1])
        if rows >= ROWS_PER_FILE or node == plan.nodes - 1:
            yield pa.concat_tables(logs)
            logs, rows = [], 0


def _log(plan: Plan, node: int) -> pa.Table:
    random = np.random.default_rng(node)
    published_us = np.arange(len(plan.message)) * INTERVAL_US
    due = np.flatnonzero(plan.is_member[node, plan.group])
    own = np.flatnonzero(plan.origin == node)
    delay = LATENCY_US + random.integers(0, LATENCY_US, len(due))
    delay[plan.origin[due] == node] = 1
    at = np.concatenate([published_us[own], published_us[due] + delay])
    what = np.concatenate([own, due])
    kind = np.repeat(np.array([PUBLISH, DELIVER], np.int32), [len(own), len(due)])
    order = np.argsort(at, kind="stable")
    rows = len(order)
    columns = {
        "node": np.full(rows, node, np.int32),
        "pos": np.arange(rows),
        "at_us": at[order],
        "message": plan.message[what[order]],
        "group": plan.group[what[order]].astype(np.int32),
    }
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array(kind[order]), pa.array(KINDS))
        if field.name == "kind"
        else pa.array(columns[field.name])
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in EVENTS
    ]
    return pa.Table.from_arrays(arrays, schema=EVENTS)
