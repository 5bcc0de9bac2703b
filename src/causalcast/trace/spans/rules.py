"""How spans are read as a log: each decision has a name, a default, an option and a sentence.

Spans were made to time requests, not to judge orders. Several of these decisions can turn a verdict
round, so none is taken silently: `SpanRules.told` says them all.
"""

from dataclasses import dataclass, field
from typing import Final

INSTANCE: Final = "service.instance.id"
SERVICE: Final = "service.name"
HOST_AND_PID: Final = ("host.name", "process.pid")
OPERATIONS: Final = (
    "messaging.operation.type", "messaging.operation", "messaging.operation.name",
)  # fmt: skip
DESTINATIONS: Final = ("messaging.destination.name", "messaging.destination")
MESSAGE_IDS: Final = ("messaging.message.id", "messaging.message_id")
CONSUMER_GROUPS: Final = ("messaging.consumer.group.name", "messaging.kafka.consumer.group")
ATTEMPTS: Final = (
    "messaging.gcp_pubsub.message.delivery_attempt",
    "messaging.servicebus.message.delivery_count",
)
PUBLISHES: Final = ("send", "publish", "create")
PROCESSES: Final = ("process", "deliver")
RECEIVES: Final = ("receive",)

DELIVERED: Final = ("end", "start")
MESSAGES: Final = ("span", "id")
RETRIES: Final = ("failed", "all", "none")
STEADY: Final = "; who never fails or repeats gets each message once"


@dataclass(frozen=True)
class SpanRules:
    """The decisions; the defaults are those that raise no false alarm."""

    process: tuple[str, ...] = ()
    """Attributes that together name a process; none: the instance id, else host and pid."""
    message: str = "span"
    """`span`: a message is its producer span; `id`: it is `messaging.message.id`."""
    delivered: str = "end"
    """Whether a message is delivered when its processing ends, or when that starts."""
    retries: str = "failed"
    """Which repetitions are attempts: those after a failed one, all, or none."""
    key: str = ""
    """The attribute of a publication within whose values order is wanted; none: all of it."""
    subscriptions: dict[str, list[str]] = field(default_factory=dict)
    """Who is subscribed to what; none: whoever processes or publishes something there."""

    @property
    def wanted(self) -> frozenset[str]:
        """The attributes that anything is decided by."""
        names = {INSTANCE, SERVICE, *HOST_AND_PID, *OPERATIONS, *DESTINATIONS, *MESSAGE_IDS}
        names |= {*CONSUMER_GROUPS, *ATTEMPTS, *self.process, self.key}
        return frozenset(names - {""})

    def told(self, whole: bool | None = None) -> list[str]:
        """What was decided, a line each, with the option that decides otherwise."""
        process = (
            " and ".join(self.process)
            if self.process
            else f"{INSTANCE}, else {' and '.join(HOST_AND_PID)}"
        )
        message = {
            "span": "the producer span that a consumer span links to, else has as its parent",
            "id": f"{MESSAGE_IDS[0]}, whoever carries it",
        }[self.message]
        delivered = {
            "end": "when processing ends, or publishes something before that",
            "start": "when processing starts",
        }[self.delivered]
        retries = {
            "failed": f"processed again after a span that failed is a further attempt{STEADY}",
            "all": f"processed again is a further attempt{STEADY}",
            "none": "processed again is delivered twice",
        }[self.retries]
        subscribed = (
            "as declared" if self.subscriptions else "inferred: whoever processes something there"
        )
        rows = "all of them (--whole)" if whole else "some may be missing (sampled, lost, rotated)"
        return [
            f"process: {process} (--process)",
            f"message: {message} (--message)",
            f"delivered: {delivered} (--delivered)",
            "time: by nanoseconds, a parent before its children; equal times are not ordered",
            "batches: one delivery per link",
            f"subscriptions: {subscribed} (--subscriptions)",
            f"retries: {retries} (--retries)",
            "dead letters: publications of their own, caused by what was processed",
            "declared causes: what was being processed when it was published",
            f"order: wanted {f'among equal {self.key}' if self.key else 'of all messages'} (--key)",
            f"spans: {rows}",
        ]
