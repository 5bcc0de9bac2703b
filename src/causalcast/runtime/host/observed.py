"""What people see of a node: counts per group, notes of its protocol, events."""

import collections
import logging
from typing import final

from causalcast.runtime.machine import NodeClock
from causalcast.runtime.metadata import metadata_in
from causalcast.runtime.observing.events import Event, Events
from causalcast.runtime.observing.histogram import Histogram

log = logging.getLogger(__name__)


@final
class Observed:
    """Everything that is counted and told."""

    def __init__(self, clock: NodeClock) -> None:
        self.published_in: dict[int, int] = {}  # per group, over all lives
        self.delivered_in: dict[int, int] = {}
        self.late_groups: dict[int, None] = {}  # that were joined after the beginning, in any life
        self.notes: collections.Counter[str] = collections.Counter()
        self.events = Events()
        self.took = Histogram()  # from the arrival of a message here to its delivery, in this life
        self.since_published = Histogram()  # the same from its publication, where it says when
        self.from_the_future = 0  # messages published after their delivery: two clocks differ
        self._clock = clock
        self._told: set[tuple[str, int]] = set()

    def now_us(self) -> int:
        """The time of day as rows and steps have it."""
        return self._clock.wall_us()

    def measure(self, body: bytes) -> None:
        """A message that says when it was published is delivered now."""
        published_us = metadata_in(body).published_us
        if published_us:
            took_us = self._clock.wall_us() - published_us
            if took_us < 0:
                self.from_the_future += 1
            else:
                self.since_published.observe(took_us)

    def tell(self, name: str, subject: int, meaning: str) -> None:
        """Let operators hear of something."""
        log.warning("%s (%s, node %d)", meaning, name, subject)
        self.events.add(Event(name, subject, self._clock.wall_us(), meaning))

    def tell_once(self, name: str, subject: int, meaning: str) -> None:
        """Let operators hear of something that goes on, and would be told again and again."""
        if (name, subject) not in self._told:
            self._told.add((name, subject))
            self.notes[name] += 1
            self.events.add(Event(name, subject, self._clock.wall_us(), meaning))
