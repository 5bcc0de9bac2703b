"""Judges a run against the six guarantees, straight from their definitions.

A message on a cycle of happens-before is a `no_creation` and takes no part in the order checks.
In a partial log only what is there can be a violation: that m came here before z, which it follows.
Rows that are not there make things unknown, never violated.
`agreement_per_part` is judged like `agreement`: which links were safe does not stand in the trace.
"""

from typing import TYPE_CHECKING

from causalcast.judge.happens_before import HappensBefore
from causalcast.judge.judgement import Judgement, Violation
from causalcast.judge.run_facts import Membership, Publication, Row, RunFacts
from causalcast.trace.kinds import GUARANTEES, REPLY_ORDER
from causalcast.trace.plain_run import PlainRun, plain_run

if TYPE_CHECKING:
    from causalcast.trace.run_folder import Run

SURELY_THERE = ("repeated", "shared_twice", "wrong_group", "before_publish", "cycle", "inversion")


def judge(run: "Run | PlainRun") -> Judgement:
    """Everything that is wrong with `run`."""
    facts = RunFacts(plain_run(run))
    order = HappensBefore(facts)
    due = Due(facts, order)
    orders = {"causal_order": order}
    if facts.declares_causes:
        orders[REPLY_ORDER] = HappensBefore(facts, declared=True)
    guarantees = (*GUARANTEES, *([REPLY_ORDER] if facts.declares_causes else []))
    violations: dict[str, list[Violation]] = {guarantee: [] for guarantee in guarantees}
    unknown: dict[str, list[Violation]] = {guarantee: [] for guarantee in guarantees}
    found = [Violation("no_creation", "cycle", p.origin, p.id, p.pos) for p in _cyclic(order)]
    for node in facts.logs:
        found += NodeJudge(facts, orders, due, node).walk()
    found += _agreement(facts, due)
    found += _shares(facts)
    for violation in found:
        known = violation.kind != "repetition" and (
            facts.header.whole or violation.kind in SURELY_THERE
        )
        (violations if known else unknown)[violation.guarantee].append(violation)
    return Judgement(violations, _pending(facts), unknown)


class Due:
    """Which messages each membership entitles its node to."""

    def __init__(self, facts: RunFacts, order: HappensBefore) -> None:
        self.facts = facts
        self.order = order
        self._of_group: dict[int, int] = {}
        for publication in facts.publications.values():
            bits = self._of_group.get(publication.group, 0)
            self._of_group[publication.group] = bits | publication.bit
        every = [m for memberships in facts.memberships.values() for m in memberships]
        self.bits = {membership: self._bits_of(membership) for membership in every}
        self.came = {membership: self._delivered(membership)[0] for membership in every}
        """What each membership is owed for certain, in a partial log: what did come."""

    def _bits_of(self, membership: Membership) -> int:
        whole_group = self._of_group.get(membership.group, 0)
        if membership.shared:
            return self._delivered(membership)[0]
        if not membership.late:
            return whole_group
        delivered, first = self._delivered(membership)
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

    def _delivered(self, membership: Membership) -> tuple[int, dict[int, Publication]]:
        """What a member delivered as one, and the first of each origin."""
        whole_group = self._of_group.get(membership.group, 0)
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
        return delivered, first

    def at(self, node: int, pos: int) -> int:
        """What `node` is owed when it writes its row `pos`."""
        bits = 0
        for membership in self.facts.memberships[node]:
            if membership.covers(pos):
                bits |= self.bits[membership]
        return bits

    def came_to(self, node: int, pos: int) -> int:
        """What is owed to `node` at its row `pos`, and did come while it was that member."""
        bits = 0
        for membership in self.facts.memberships[node]:
            if membership.covers(pos):
                bits |= self.came[membership]
        return bits


class NodeJudge:
    """Walks one log and remembers what the node had at each row."""

    def __init__(
        self, facts: RunFacts, orders: dict[str, HappensBefore], due: Due, node: int
    ) -> None:
        self.facts = facts
        self.orders = orders
        self.order = orders["causal_order"]
        self.due = due
        self.node = node
        self.log = facts.logs[node]
        self.delivered = 0
        self.delivered_since_recovery = 0
        self.attempts: dict[int, int] = {}  # the highest so far
        self.ever = 0  # what it has at the end
        self.repetition = 0  # of what a first delivery may be missing
        self.has_by: dict[int, int] = {}  # what it has at the end of each instant
        for row in self.log:
            publication = facts.publications.get(row.message or 0)
            self.has_by[row.instant] = self.ever
            if publication is None or row.kind not in ("publish", "deliver"):
                continue
            if not self.ever & publication.bit and self._may_repeat(row):
                self.repetition |= publication.bit
            self.ever |= publication.bit
            self.has_by[row.instant] = self.ever
        self.found: list[Violation] = []

    def _may_repeat(self, row: Row) -> bool:
        """Whether the first row of a message here may not be its first delivery."""
        if row.kind == "publish":
            return False
        if row.attempt is not None:
            return row.attempt > 1
        header = self.facts.header
        return not header.whole and header.redelivery != "none"

    def walk(self) -> list[Violation]:
        """All violations that this log shows by itself."""
        for pos, row in enumerate(self.log):
            publication = self.facts.publications.get(row.message or 0)
            if row.kind == "recover" and self.facts.header.redelivery == "after_recover":
                self.delivered_since_recovery = 0
            elif row.kind == "publish":
                assert publication is not None
            elif row.kind == "deliver":
                self._check_creation(pos, row, publication)
                if publication is not None:
                    self._deliver(pos, row, publication)
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
        elif publication.origin == self.node and row.instant < self.log[publication.pos].instant:
            kind = "before_publish"
        else:
            return
        self.found.append(Violation("no_creation", kind, self.node, row.message, pos))

    def _deliver(self, pos: int, row: Row, publication: Publication) -> None:
        if self.delivered & publication.bit:
            self._check_repeat(pos, row, publication)
        elif not self.order.on_a_cycle & publication.bit and self._is_judged(pos, row):
            self._check_orders(pos, publication)
        self.attempts[publication.id] = max(row.attempt or 0, self.attempts.get(publication.id, 0))
        self.delivered |= publication.bit
        self.delivered_since_recovery |= publication.bit

    def _check_repeat(self, pos: int, row: Row, publication: Publication) -> None:
        """A repeated delivery is excused by a higher number, or as the header says."""
        header = self.facts.header
        kind = "repeated"
        if row.attempt is not None:
            excused = row.attempt > self.attempts[publication.id]
        else:
            since = self.delivered_since_recovery & publication.bit
            excused = header.redelivery == "any" or not since
            if header.redelivery == "after_recover" and not header.whole:
                kind = "repetition"  # the row of the recovery may be missing
        if not excused:
            self.found.append(Violation("no_duplication", kind, self.node, publication.id, pos))

    def _is_judged(self, pos: int, row: Row) -> bool:
        """Of those who share a message, whoever gets it again may get it in any order."""
        if row.attempt is None or row.attempt == 1:
            return True
        return not any(
            m.shared and m.group == row.group and m.covers(pos)
            for m in self.facts.memberships[self.node]
        )

    def _check_orders(self, pos: int, effect: Publication) -> None:
        matters = self.facts.ordered_with(effect)
        missing = self._missing(self.order, pos, effect) & matters
        self._check_order("causal_order", pos, effect, missing)
        same_origin = 0
        for cause in self.facts.in_bits(missing):
            if cause.origin == effect.origin and self._is_earlier(cause, effect):
                same_origin |= cause.bit
        self._check_order("fifo_order", pos, effect, same_origin)
        if REPLY_ORDER in self.orders:
            missing = self._missing(self.orders[REPLY_ORDER], pos, effect)
            self._check_order(REPLY_ORDER, pos, effect, missing)

    def _is_earlier(self, cause: Publication, effect: Publication) -> bool:
        """Whether their publisher published `cause` first."""
        log = self.facts.logs[cause.origin]
        return log[cause.pos].instant < log[effect.pos].instant

    def _missing(self, order: HappensBefore, pos: int, effect: Publication) -> int:
        has = self.has_by[self.log[pos].instant]
        missing = order.past[effect.id] & ~has & ~self.order.on_a_cycle
        return missing & self.due.at(self.node, pos) if missing else 0

    def _check_order(self, guarantee: str, pos: int, effect: Publication, missing: int) -> None:
        """Record a cause that came too late or never, and whether that is certain."""
        if not missing:
            return
        sure = missing & ~self.repetition
        if not self.facts.header.whole:
            sure &= self.ever & self.due.came_to(self.node, pos)
        blamed = sure or missing
        chain: tuple[int, ...] = ()
        if guarantee == "fifo_order":
            cause = next(self.facts.in_bits(blamed)).id
        else:
            chain = self.orders[guarantee].shortest_chain(effect, blamed)
            cause = chain[0]
        came_later = self.ever & self.facts.publications[cause].bit
        kind = "inversion" if came_later else "gap"
        if not sure and came_later:
            kind = "repetition"
        self.found.append(Violation(guarantee, kind, self.node, effect.id, pos, cause, chain))

    def _check_validity(self) -> None:
        """A node that is up and was a member since it published must have delivered it too."""
        if self.facts.is_down_at_the_end(self.node):
            return
        for publication in self.facts.publications.values():
            if publication.origin != self.node or self.delivered & publication.bit:
                continue
            membership = self.facts.final_membership(self.node, publication.group)
            if membership is None or membership.shared:
                continue
            if membership.covers(publication.pos):
                self.found.append(
                    Violation("validity", "missing", self.node, publication.id, publication.pos)
                )


def _agreement(facts: RunFacts, due: Due) -> list[Violation]:
    """What one correct member delivered, every correct member that was owed it must deliver."""
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


def _shares(facts: RunFacts) -> list[Violation]:
    """Of the members that share a group, exactly one gets each message for the first time."""
    found: list[Violation] = []
    shares: dict[tuple[int, str], list[Membership]] = {}
    for node in sorted(facts.memberships):
        for membership in facts.memberships[node]:
            if membership.share is not None:
                shares.setdefault((membership.group, membership.share), []).append(membership)
    for (group, _), members in shares.items():
        seen = got = 0
        for membership in members:
            first, here = _portion(facts, membership)
            for publication in facts.in_bits(seen & first):
                found.append(
                    Violation("no_duplication", "shared_twice", membership.node, publication.id)
                )
            seen |= first
            got |= here
        staying = [
            m
            for m in members
            if not m.late and not facts.is_down_at_the_end(m.node)
            and facts.final_membership(m.node, group) is m
        ]  # fmt: skip
        if not staying:
            continue
        for publication in facts.by_place:
            others = _delivered_by_correct(facts, publication)
            if publication.group == group and others and not got & publication.bit:
                found.append(
                    Violation("agreement", "missing_in_share", staying[0].node, publication.id)
                )
    return found


def _portion(facts: RunFacts, membership: Membership) -> tuple[int, int]:
    """What a member of a share got for the first time, and at all."""
    first = got = 0
    for pos, row in enumerate(facts.logs[membership.node]):
        publication = facts.publications.get(row.message or 0)
        if row.kind != "deliver" or publication is None or row.group != membership.group:
            continue
        if not membership.covers(pos):
            continue
        got |= publication.bit
        if row.attempt == 1 or (row.attempt is None and facts.header.redelivery == "none"):
            first |= publication.bit
    return first, got


def _delivered_by_correct(facts: RunFacts, publication: Publication) -> bool:
    return any(
        row.kind == "deliver" and row.message == publication.id
        for node, log in facts.logs.items()
        if not facts.is_down_at_the_end(node)
        and facts.final_membership(node, publication.group) is not None
        for row in log
    )


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
