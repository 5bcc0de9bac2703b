"""The words of a trace: kinds of events, which of them each level writes, guarantees, versions.

Apart from `schema`, so that a running node need not load pyarrow to write its log, nor a simulation
in memory or the judge of its rows.
"""

from typing import Final

KINDS: Final = (
    "publish",  # the node published `message` to `group`
    "deliver",  # the protocol delivered `message` here, once
    "send",  # a frame left for `peer`
    "receive",  # a frame arrived from `peer`
    "duplicate",  # a copy of `message` that was here already
    "hold",  # `message` must wait; `note` says for what
    "release",  # `message` waits no longer
    "drop",  # a frame was lost or refused; `note` says why
    "crash",  # the node went down; a real one's is written later, with the time of its last row
    "recover",  # it came back with what it had persisted
    "join",  # it became a member of `group` during the run
    "leave",  # it left `group`, or (no group) the run
    "suspect",  # the detector believes `peer` to be down
    "trust",  # and believes so no longer
    "note",  # anything else worth counting; `note` names it
)
KIND_CODE: Final = {name: code for code, name in enumerate(KINDS)}

# What is written at each level; each contains the one before.
LEVELS: Final = {
    "none": frozenset[str](),
    "deliveries": frozenset({"publish", "deliver", "crash", "recover", "join", "leave"}),
    "messages": frozenset(
        {"publish", "deliver", "crash", "recover", "join", "leave"}
        | {"send", "receive", "duplicate", "hold", "release"}
    ),
    "full": frozenset(KINDS),
}

NONE: Final = -1  # "no value" in a column of integers: ids are never negative

SCHEMA_VERSION: Final = 1
FOREIGN_VERSION: Final = 2

GUARANTEES: Final = (
    "no_creation",
    "no_duplication",
    "validity",
    "agreement",
    "fifo_order",
    "causal_order",
)
# Judged beside the six where publications declare their causes: like causal order, of those alone.
REPLY_ORDER: Final = "reply_order"
# Weaker forms of a guarantee that a protocol may promise instead, and the check that judges them.
WEAKER_FORMS: Final = {
    "agreement_after_recovery": "agreement",
    "agreement_per_part": "agreement",
}
