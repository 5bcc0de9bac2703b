"""The columns of a trace: name, type, meaning. The only place that knows them.

A trace is one row per event, ordered by `node` and then `pos`. `pos` is the only order any
check trusts; `at_us` is for people and for latencies.

Version 1 is what our own nodes write. Version 2 has, beside it, what only other systems know, in
columns that are there if anything stands in them; whoever does not know them would judge wrongly.
"""

from typing import Final

import pyarrow as pa

from causalcast.trace.kinds import (
    FOREIGN_VERSION,
    GUARANTEES,
    KIND_CODE,
    KINDS,
    LEVELS,
    REPLY_ORDER,
    SCHEMA_VERSION,
    WEAKER_FORMS,
)

__all__ = [
    "EVENTS",
    "FOREIGN_EVENTS",
    "FOREIGN_MEMBERS",
    "FOREIGN_VERSION",
    "GROUPS",
    "GUARANTEES",
    "KINDS",
    "KIND_CODE",
    "LEVELS",
    "MEMBERS",
    "NODES",
    "REPLY_ORDER",
    "SCHEMA_VERSION",
    "WEAKER_FORMS",
    "extended",
]

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

EVENTS: Final = pa.schema(
    [
        pa.field("node", pa.int32(), nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("at_us", pa.int64(), nullable=False),
        pa.field("kind", _TEXT, nullable=False),
        pa.field("message", pa.int64()),
        pa.field("group", pa.int32()),
        pa.field("peer", pa.int32()),
        pa.field("payload_bytes", pa.int32()),
        pa.field("metadata_bytes", pa.int32()),
        pa.field("value", pa.int64()),
        pa.field("note", _TEXT),
    ]
)
NODES: Final = pa.schema(
    [
        pa.field("node", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("address", pa.string()),
        pa.field("zone", pa.string()),
    ]
)
GROUPS: Final = pa.schema(
    [
        pa.field("group", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
    ]
)
MEMBERS: Final = pa.schema(
    [
        pa.field("group", pa.int32(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("from_pos", pa.int64(), nullable=False),
        pa.field("to_pos", pa.int64()),
    ]
)
FOREIGN_EVENTS: Final = (
    pa.field("source", pa.int64()),  # `pos` of the line in the other system's own log
    pa.field("key", _TEXT),  # publish: ordered only among equal keys
    pa.field("causes", pa.list_(pa.int64())),  # publish: messages it declares to follow
    pa.field("attempt", pa.int32()),  # deliver: 1 is the first, more are repetitions
    pa.field("tied", pa.bool_()),  # not ordered with the row before it: their times are equal
)
FOREIGN_MEMBERS: Final = (
    pa.field("share", pa.string()),  # each message goes to one of those who share this name
)


def extended(schema: pa.Schema, optional: tuple[pa.Field, ...], names: list[str]) -> pa.Schema:
    """A schema with those of the optional columns that are among `names`."""
    return pa.schema([*schema, *(field for field in optional if field.name in names)])
