"""How people call what a run speaks of: nodes, messages, groups, and rows of their own logs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from causalcast.printable import printable
from causalcast.trace.export import message_name
from causalcast.trace.run_folder import SmallTables, event_files
from causalcast.trace.run_header import RunHeader

COLUMNS = ("node", "pos", "kind", "message", "group", "note", "source", "at_us")


@dataclass
class Names:
    """How people call nodes and messages."""

    nodes: dict[int, str]
    messages: dict[int, str] = field(default_factory=dict)
    """Names that another system gave its messages, as far as they are spoken of."""
    groups: dict[int, str] = field(default_factory=dict)
    groups_of: dict[int, int] = field(default_factory=dict)
    """The group of each message that is spoken of."""
    rows: dict[tuple[int, int], str] = field(default_factory=dict)
    """What the user's own log calls a row, where that is not its `pos`."""

    def node(self, node: int) -> str:
        """The name of a node, or its number."""
        return self.nodes.get(node) or f"node {node}"

    def message(self, message: int) -> str:
        """The name of a message, or `origin.number`."""
        return self.messages.get(message) or message_name(message)

    def group(self, group: int) -> str:
        """The name of a group, or its number."""
        return self.groups.get(group) or f"group {group}"

    def group_of(self, message: int) -> str | None:
        """The name of a message's group; none where it is not known."""
        group = self.groups_of.get(message)
        return None if group is None else self.group(group)

    def message_in_group(self, message: int) -> str:
        """A message, with its group where there are several."""
        group = self.group_of(message) if len(self.groups) > 1 else None
        return self.message(message) if group is None else f"{self.message(message)} ({group})"

    def row(self, node: int, pos: int) -> str:
        """Where a row stands in the user's own log."""
        return self.rows.get((node, pos), str(pos))


def names_of(
    folder: Path, header: RunHeader, small: SmallTables, spoken_of: Iterable[int]
) -> Names:
    """The names of a run, with those of the messages that are spoken of."""
    names = Names(_named(small.nodes), groups=_named(small.groups))
    messages = sorted(set(spoken_of))
    if not messages:
        return names
    imported = header.world == "imported"
    for row in rows_about(folder, messages):
        message, place = row["message"], (row["node"], row["pos"])
        if row["kind"] == "publish" or message not in names.groups_of:
            names.groups_of[message] = row["group"]
        if not imported:
            continue
        if row["note"] is not None and row["kind"] in ("publish", "deliver"):
            names.messages[message] = printable(row["note"])
        if row.get("source") is not None:
            names.rows[place] = printable(row["source"])
        elif header.options.get("order") == "time":
            names.rows[place] = f"{row['at_us'] / 1e6:.6f} s"
    return names


def rows_about(folder: Path, messages: list[int]) -> list[dict[str, Any]]:
    """The rows of some messages, in the order of node and pos."""
    import pyarrow.dataset as ds  # loads pandas, which most verdicts do without

    events = ds.dataset([str(path) for path in event_files(folder)], format="parquet")
    columns = [name for name in COLUMNS if name in events.schema.names]
    wanted = ds.field("message").isin(pa.array(messages, pa.int64()))
    rows = events.to_table(columns=columns, filter=wanted).to_pylist()
    return sorted(rows, key=lambda row: (row["node"], row["pos"]))


def _named(table: pa.Table) -> dict[int, str]:
    names = (name and printable(name) for name in table["name"].to_pylist())
    return dict(zip(table.column(0).to_pylist(), names, strict=True))
