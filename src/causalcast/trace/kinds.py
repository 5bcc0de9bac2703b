"""The kinds of events in a trace, and which of them each level writes.

Apart from `schema`, so that a running node need not load pyarrow to write its log.
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
