"""What the judge says about a run: per property the violations, and what is merely pending."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from causalcast.trace.kinds import GUARANTEES


@dataclass(frozen=True)
class Violation:
    """One thing that must not be, and where it happened."""

    guarantee: str
    kind: str
    """no_creation: `unpublished`, `wrong_group`, `not_a_member`, `before_publish`, `cycle`;
    no_duplication: `repeated`; validity and agreement: `missing`; order: `inversion` (the cause
    came later) or `gap` (it never came)."""
    node: int
    message: int
    pos: int | None = None
    """The row of `node` that shows it; none where a row is missing."""
    cause: int | None = None
    chain: tuple[int, ...] = ()
    """Causal order: cause, …, effect, each a direct cause of the next."""


@dataclass(frozen=True)
class Judgement:
    """All violations of a run, by guarantee; `reply_order` too where causes are declared."""

    violations: dict[str, list[Violation]]
    pending: frozenset[str]
    """Guarantees about the end of a run whose end has not come: what is missing may still come."""
    unknown: dict[str, list[Violation]] = field(default_factory=dict)
    """What may be a violation, or only a row that is missing in a partial log. Kind `repetition`:
    the cause came later, but that may not have been its first delivery."""

    def broken(self, guarantee: str) -> bool:
        """Whether the run definitely violates `guarantee`."""
        return bool(self.violations[guarantee]) and guarantee not in self.pending

    def all_broken(self) -> list[str]:
        """Every guarantee the run definitely violates."""
        return [guarantee for guarantee in GUARANTEES if self.broken(guarantee)]

    def blamed(self, guarantee: str) -> set[int]:
        """The nodes at which `guarantee` is violated or pending."""
        return {violation.node for violation in self.violations[guarantee]}


def without_losses(found: Judgement, gone: Sequence[int]) -> tuple[Judgement, int]:
    """The violations without those that the loss of a node explains, and how many those were.

    What comes late is never excused, and nothing that anybody else published.
    """

    def is_loss(violation: Violation) -> bool:
        missing = violation.message if violation.kind == "missing" else violation.cause
        is_missing = violation.kind in ("missing", "gap") and missing is not None
        return is_missing and missing is not None and missing >> 32 in gone

    kept = {
        name: [violation for violation in violations if not is_loss(violation)]
        for name, violations in found.violations.items()
    }
    before, after = (sum(map(len, v.values())) for v in (found.violations, kept))
    return Judgement(kept, frozenset()), before - after
