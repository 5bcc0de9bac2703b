"""What the few distinct places of spans (service, process, topic, share) are numbered by."""

from collections.abc import Iterable
from dataclasses import dataclass

from causalcast.pipeline.foreign.span_columns import parts_of
from causalcast.trace.spans.operations import PROCESS, RECEIVE
from causalcast.trace.spans.span_log import process_names


@dataclass
class PlaceFacts:
    """Numbers of one place."""

    node: int
    topic: int
    share: int
    """0: it gets everything."""
    reader: int
    """Who counts attempts together: a process, or all that share."""
    is_processed: bool
    """Receiving there does not count: processing is told."""


class Places:
    """The places of all moments that name a message, with the roles they have there."""

    def __init__(self, told: Iterable[tuple[str, str]]) -> None:
        told = list(told)
        parts = {place: parts_of(place) for place, _ in told}
        processed = {parts[place][:3] for place, role in told if role == PROCESS}
        self.names = process_names({part[:2] for part in parts.values()})
        self.nodes = sorted(set(self.names.values()))
        self.topics = sorted({topic for _, _, topic, _ in parts.values()})
        self.shares = ["", *sorted({share for *_, share in parts.values()} - {""})]
        topic_number = {topic: n for n, topic in enumerate(self.topics)}
        share_number = {share: n for n, share in enumerate(self.shares)}
        readers: dict[str, int] = {}
        self._number = {name: n for n, name in enumerate(self.nodes)}
        self.facts = {
            place: PlaceFacts(
                self.process(service, process), topic_number[topic],
                share_number[share],
                readers.setdefault(share or f"{service}/{process}", len(readers)),
                (service, process, topic) in processed,
            )
            for place, (service, process, topic, share) in parts.items()
        }  # fmt: skip
        self.readers = len(readers)

    def process(self, service: str, process: str) -> int:
        """The number of the node that a process is."""
        return self._number[self.names[service, process]]

    def counts(self, place: str, role: str) -> bool:
        """Whether a moment of that role counts there."""
        return role != RECEIVE or not self.facts[place].is_processed
