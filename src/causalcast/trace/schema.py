"""The columns of a trace, version 1: name, type, meaning. The only place that knows them.

A trace is one row per event, ordered by `node` and then `pos`. `pos` is the only order any
check trusts; `at_us` is for people and for latencies.
"""

from typing import Final

import pyarrow as pa

from causalcast.trace.kinds import KIND_CODE, KINDS, LEVELS

__all__ = [
    "EVENTS",
    "GROUPS",
    "GUARANTEES",
    "KINDS",
    "KIND_CODE",
    "LEVELS",
    "MEMBERS",
    "NODES",
    "SCHEMA_VERSION",
    "WEAKER_FORMS",
]

SCHEMA_VERSION: Final = 1

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

GUARANTEES: Final = (
    "no_creation",
    "no_duplication",
    "validity",
    "agreement",
    "fifo_order",
    "causal_order",
)
# Weaker forms of a guarantee that a protocol may promise instead, and the check that judges them.
WEAKER_FORMS: Final = {
    "agreement_after_recovery": "agreement",
    "agreement_per_part": "agreement",
}
