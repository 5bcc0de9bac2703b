"""Keeps the journal short: a snapshot takes its place when it has grown large."""

import logging

from causalcast.core.ids import NodeId
from causalcast.core.made_groups import MadeGroups
from causalcast.core.stack import Stack
from causalcast.runtime.host.acknowledgements import Acknowledgements
from causalcast.runtime.host.acquaintances import Acquaintances
from causalcast.runtime.host.compaction import Compaction
from causalcast.runtime.host.earlier_life import EarlierLife
from causalcast.runtime.host.inbox import Inbox
from causalcast.runtime.host.observed import Observed
from causalcast.runtime.host.publishing import Publishing
from causalcast.runtime.host.rows import Rows
from causalcast.runtime.host.steps import Steps
from causalcast.runtime.storage.durable_entry import Snapshot, count
from causalcast.runtime.storage.journal import Journal
from causalcast.runtime.storage.journal_frames import Place
from causalcast.runtime.storage.stored_bodies import StoredBodies
from causalcast.wire.codec import Codec

log = logging.getLogger(__name__)


class JournalKeeper:
    """Knows everything that a snapshot has to say, and when to take one."""

    def __init__(
        self,
        me: NodeId,
        journal: Journal,
        bodies: StoredBodies,
        stack: Stack,
        steps: Steps,
        codec: Codec,
        inbox: Inbox,
        rows: Rows,
        observed: Observed,
        publishing: Publishing,
        acknowledgements: Acknowledgements,
        acquaintances: Acquaintances,
        earlier: EarlierLife,
        made: MadeGroups,
        compact_bytes: int,
        nodes: list[NodeId],  # those of the cluster's plan
    ) -> None:
        self._me = me
        self._journal = journal
        self._bodies = bodies
        self._stack = stack
        self._steps = steps
        self._codec = codec
        self._inbox = inbox
        self._rows = rows
        self._observed = observed
        self._publishing = publishing
        self._acknowledgements = acknowledgements
        self._acquaintances = acquaintances
        self._earlier = earlier
        self._made = made
        self._compact_bytes = compact_bytes
        self._nodes = nodes
        self._compact_at = compact_bytes
        self._is_compacting = False
        self.compactions = 0

    def compact_soon(self) -> None:
        """Compact the journal between the next two steps, however short it is."""
        self._compact_at = 0

    def keep_short(self) -> None:
        """Compact the journal if it has grown large; called between two steps."""
        journal = self._journal
        if journal.size < self._compact_at or self._is_compacting:
            return
        if self._rows.trace is not None and self._rows.trace.waits():
            return  # after a crash the rows that wait would come from the entries
        records = self._records()
        if records is None:
            self._compact_at = 2 * journal.size  # all its records are needed: ask again later
            return
        bodies = StoredBodies(journal.read, self._me)  # another thread uses these
        held = self._steps.held
        snapshot = self._snapshot(records)
        made = self._made.standing()
        compaction = Compaction(snapshot, self._inbox, held.deliveries(), bodies.load, made)
        # They are no longer in the inbox that is written.
        handled = self._acknowledgements.take()
        self._is_compacting = True
        size_before = journal.size

        def replaced(places: list[Place] | None) -> None:
            self._is_compacting = False
            if places is None:
                self._compact_at = 2 * size_before  # there was no room: try again later
                self._acknowledgements.give_back(handled)
                return
            self.compactions += 1
            compaction.replaced(places)
            self._bodies.forget()
            self._acknowledgements.are_durable(handled[2])
            self._compact_at = max(self._compact_bytes, 2 * journal.size)
            log.info("journal compacted from %d to %d bytes", size_before, journal.size)

        journal.compact(compaction.entries(), replaced)

    def _records(self) -> list[tuple[int, bytes]] | None:
        """What the layers have to keep; None if one of them needs all its records."""
        records: list[tuple[int, bytes]] = []
        for layer, automaton in enumerate(self._stack.layers):
            snapshot = automaton.snapshot()
            if snapshot is None and layer in self._steps.persisting:
                return None
            records.extend((layer, self._codec.encode(record)) for record in snapshot or [])
        return records

    def _snapshot(self, records: list[tuple[int, bytes]]) -> Snapshot:
        return Snapshot(
            self._earlier.starts,
            self._earlier.identity,
            self._publishing.published,
            [int(group) for group in self._stack.groups],
            records,
            *self._counts_with_held(),
            self._steps.held.rows(self._me),
            self._earlier.life.incarnation,
            self._earlier.lives,
            [int(node) for node in self._nodes],
            self._acquaintances.all_known(),
            self._earlier.memory.keys.stored(),
            self._inbox.handled,
            list(self._observed.late_groups),
        )

    def _counts_with_held(self) -> tuple[dict[int, int], dict[int, int]]:
        """Publications and deliveries per group, those included whose entries are under way."""
        published = dict(self._observed.published_in)
        delivered = dict(self._observed.delivered_in)
        for rows in self._steps.held.rows(self._me):
            for _, group, _ in rows.published:
                count(published, group)
            for _, group, _ in rows.delivered:
                count(delivered, group)
        return published, delivered
