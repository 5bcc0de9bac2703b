"""Happens-before on publications: z before m iff whoever published m had published or delivered z
before, or m declares to follow z, or there is a publication between them. Time plays no part.
"""

import itertools
from collections import deque

from causalcast.judge.run_facts import Publication, RunFacts


class HappensBefore:
    """Direct causes and the whole past of every publication, as bit sets.

    With `declared` only what publications declare counts, not what their publishers had seen.
    """

    def __init__(self, facts: RunFacts, declared: bool = False) -> None:
        self.facts = facts
        self.direct: dict[int, int] = dict.fromkeys(facts.publications, 0)
        if not declared:
            self._walk_logs()
        self._add_declared()
        self.past = dict(self.direct)
        self._close()
        self.on_a_cycle = 0
        """Publications that precede themselves: somebody delivered what could not exist yet."""
        for message, publication in facts.publications.items():
            if self.past[message] & publication.bit:
                self.on_a_cycle |= publication.bit

    def _walk_logs(self) -> None:
        """Direct causes: what the publisher saw since its previous publication, and that one."""
        for log in self.facts.logs.values():
            seen = 0
            for _, rows in itertools.groupby(log, key=lambda row: row.instant):
                here = 0
                published = False
                for row in rows:
                    publication = self.facts.publications.get(row.message or 0)
                    if publication is None or row.kind not in ("publish", "deliver"):
                        continue
                    here |= publication.bit
                    if row.kind == "publish":
                        self.direct[publication.id] = seen & ~publication.bit
                        published = True
                seen = here if published else seen | here

    def _add_declared(self) -> None:
        for publication in self.facts.by_place:
            for message in publication.causes:
                cause = self.facts.publications.get(message)
                if cause is not None and cause is not publication:
                    self.direct[publication.id] |= cause.bit

    def _close(self) -> None:
        """Add the past of each cause until nothing changes."""
        changed = True
        while changed:
            changed = False
            for message in self.facts.publications:
                past = self.past[message]
                for cause in self.facts.in_bits(self.direct[message]):
                    past |= self.past[cause.id]
                if past != self.past[message]:
                    self.past[message] = past
                    changed = True

    def shortest_chain(self, effect: Publication, causes: int) -> tuple[int, ...]:
        """The nearest of `causes` and the way from it to `effect`, by direct causes."""
        reached_from: dict[int, int] = {}
        queue = deque([effect])
        while queue:
            later = queue.popleft()
            for earlier in self.facts.in_bits(self.direct[later.id]):
                if earlier.id in reached_from or earlier.id == effect.id:
                    continue
                reached_from[earlier.id] = later.id
                if earlier.bit & causes:
                    chain = [earlier.id]
                    while chain[-1] != effect.id:
                        chain.append(reached_from[chain[-1]])
                    return tuple(chain)
                queue.append(earlier)
        raise AssertionError("a cause is always in the past of its effect")
