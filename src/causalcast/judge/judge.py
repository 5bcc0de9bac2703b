"""Judges a run against the six guarantees, straight from their definitions.

A message on a cycle of happens-before is a `no_creation` and takes no part in the order checks.
`agreement_per_part` is judged like `agreement`: which links were safe does not stand in the trace.
"""

from causalcast.judge.happens_before import HappensBefore
from causalcast.judge.judgement import Judgement, Violation
from causalcast.judge.run_facts import Membership, Publication, Row, RunFacts
from causalcast.trace.run_folder import Run
from causalcast.trace.schema import GUARANTEES


def judge(run: Run) -> Judgement:
    """Everything that is wrong with `run`."""
    facts = RunFacts(run)
    order = HappensBefore(facts)
    due = Due(facts, order)
    violations: dict[str, list[Violation]] = {guarantee: [] for guarantee in GUARANTEES}
    found = [Violation("no_creation", "cycle", p.origin, p.id, p.pos) for p in _cyclic(order)]
    for node in facts.logs:
        found += NodeJudge(facts, order, due, node).walk()
    found += _agreement(facts, due)
    for violation in found:
        violations[violation.guarantee].append(violation)
    return Judgement(violations, _pending(facts))


class Due:
    """Which messages each membership entitles its node to."""

    def __init__(self, facts: RunFacts, order: HappensBefore) -> None:
        self.facts = facts
        self.order = order
        self._of_group: dict[int, int] = {}
        for publication in facts.publications.values():
            bits = self._of_group.get(publication.group, 0)
            self._of_group[publication.group] = bits | publication.bit
        self.bits = {
            membership: self._bits_of(membership)
            for memberships in facts.memberships.values()
            for membership in memberships
        }

    def _bits_of(self, membership: Membership) -> int:
        whole_group = self._of_group.get(membership.group, 0)
        if not membership.late:
            return whole_group
        first: dict[int, Publication] = {}
        delivered = 0
        repeated = 0  # a message handed out again says nothing about where the member came in
        for pos, row in enumerate(self.facts.logs[membership.node]):
            publication = self.facts.publications.get(row.message or 0)
            if row.kind != "deliver" or publication is None or publication.bit & repeated:
                continue
            repeated |= publication.bit
            if publication.bit & whole_group and membership.covers(pos):
                first.setdefault(publication.origin, publication)
                delivered |= publication.bit
        published_since = 0
        for publication in self.facts.publications.values():
            if publication.origin == membership.node and publication.pos >= membership.start:
                published_since |= publication.bit
        due = delivered
        for publication in self.facts.in_bits(whole_group):
            entry = first.get(publication.origin)
            if entry is not None and publication.id >= entry.id:
                due |= publication.bit
            if self.order.past[publication.id] & published_since:
                due |= publication.bit
        return due

    def at(self, node: int, pos: int) -> int:
        """What `node` is owed when it writes its row `pos`."""
        bits = 0
        for membership in self.facts.memberships[node]:
            if membership.covers(pos):
                bits |= self.bits[membership]
        return bits


class NodeJudge:
    """Walks one log and remembers what the node had at each row."""

    def __init__(self, facts: RunFacts, order: HappensBefore, due: Due, node: int) -> None:
        self.facts = facts
        self.order = order
        self.due = due
        self.node = node
        self.log = facts.logs[node]
        self.has = 0  # published or delivered
        self.delivered = 0
        self.delivered_since_recovery = 0
        self.ever = 0  # what it has at the end
        for row in self.log:
            publication = facts.publications.get(row.message or 0)
            if publication is not None and row.kind in ("publish", "deliver"):
                self.ever |= publication.bit
        self.found: list[Violation] = []

    def walk(self) -> list[Violation]:
        """All violations that this log shows by itself."""
        for pos, row in enumerate(self.log):
            publication = self.facts.publications.get(row.message or 0)
            if row.kind == "recover" and self.facts.header.redelivery == "after_recover":
                self.delivered_since_recovery = 0
            elif row.kind == "publish":
                assert publication is not None
                self.has |= publication.bit
            elif row.kind == "deliver":
                self._check_creation(pos, row, publication)
                if publication is not None:
                    self._deliver(pos, publication)
        self._check_validity()
        return self.found

    def _check_creation(self, pos: int, row: Row, publication: Publication | None) -> None:
        assert row.message is not None
        if publication is None:
            kind = "unpublished"
        elif row.group != publication.group:
            kind = "wrong_group"
        elif not any(
            m.group == publication.group and m.covers(pos)
            for m in self.facts.memberships[self.node]
        ):
            kind = "not_a_member"
        elif publication.origin == self.node and pos < publication.pos:
            kind = "before_publish"
        else:
            return
        self.found.append(Violation("no_creation", kind, self.node, row.message, pos))

    def _deliver(self, pos: int, publication: Publication) -> None:
        if self.delivered_since_recovery & publication.bit:
            self.found.append(
                Violation("no_duplication", "repeated", self.node, publication.id, pos)
            )
        if not self.delivered & publication.bit and not self.order.on_a_cycle & publication.bit:
            self._check_order(pos, publication)
        self.has |= publication.bit
        self.delivered |= publication.bit
        self.delivered_since_recovery |= publication.bit

    def _check_order(self, pos: int, effect: Publication) -> None:
        owed = self.due.at(self.node, pos) & ~self.order.on_a_cycle
        missing = self.order.past[effect.id] & owed & ~self.has
        if not missing:
            return
        chain = self.order.shortest_chain(effect, missing)
        self._add_order("causal_order", pos, effect, chain[0], chain)
        for cause in self.facts.in_bits(missing):
            if cause.origin == effect.origin:
                self._add_order("fifo_order", pos, effect, cause.id, ())
                break

    def _add_order(
        self, guarantee: str, pos: int, effect: Publication, cause: int, chain: tuple[int, ...]
    ) -> None:
        came_later = self.ever & self.facts.publications[cause].bit
        kind = "inversion" if came_later else "gap"
        self.found.append(Violation(guarantee, kind, self.node, effect.id, pos, cause, chain))

    def _check_validity(self) -> None:
        """A node that is up and was a member since it published must have delivered it too."""
        if self.facts.is_down_at_the_end(self.node):
            return
        for publication in self.facts.publications.values():
            if publication.origin != self.node or self.delivered & publication.bit:
                continue
            membership = self.facts.final_membership(self.node, publication.group)
            if membership is not None and membership.covers(publication.pos):
                self.found.append(
                    Violation("validity", "missing", self.node, publication.id, publication.pos)
                )


def _agreement(facts: RunFacts, due: Due) -> list[Violation]:
    """What one correct member delivered, every correct member that was owed it must have."""
    found = []
    has = dict.fromkeys(facts.logs, 0)
    delivered = dict.fromkeys(facts.logs, 0)
    for node, log in facts.logs.items():
        for row in log:
            publication = facts.publications.get(row.message or 0)
            if publication is not None and row.kind in ("publish", "deliver"):
                has[node] |= publication.bit
                if row.kind == "deliver":
                    delivered[node] |= publication.bit
    up = [node for node in facts.logs if not facts.is_down_at_the_end(node)]
    for publication in facts.publications.values():
        correct = {node: facts.final_membership(node, publication.group) for node in up}
        if not any(m is not None and delivered[n] & publication.bit for n, m in correct.items()):
            continue
        for node, membership in correct.items():
            if membership is None or has[node] & publication.bit:
                continue
            if due.bits[membership] & publication.bit:
                found.append(Violation("agreement", "missing", node, publication.id))
    return found


def _pending(facts: RunFacts) -> frozenset[str]:
    if not facts.header.complete:
        return frozenset({"agreement", "validity"})
    promises = facts.header.guarantees
    waits_for_recovery = "agreement_after_recovery" in promises and "agreement" not in promises
    if waits_for_recovery and any(facts.is_down_at_the_end(node) for node in facts.logs):
        return frozenset({"agreement"})
    return frozenset()


def _cyclic(order: HappensBefore) -> list[Publication]:
    return list(order.facts.in_bits(order.on_a_cycle))
