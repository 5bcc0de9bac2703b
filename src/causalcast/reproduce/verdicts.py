"""What came of every claim: decided by a figure, by tests, not measurable here, or not yet."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from causalcast.errors import ConfigError
from causalcast.reproduce.checks import CHECKS
from causalcast.reproduce.figure import Claim, Figure
from causalcast.reproduce.store import Row

CLAIMS = Path(__file__).parent / "claims.toml"
CONFIRMED, REFUTED = "confirmed", "refuted"
NOT_MEASURABLE, UNDECIDED = "not measurable here", "not yet decided"
VERDICTS = (CONFIRMED, REFUTED, NOT_MEASURABLE, UNDECIDED)


@dataclass(frozen=True)
class ListedClaim:
    """A claim of a source, as `claims.toml` lists it."""

    id: str
    source: str
    section: str
    words: str
    kinds: tuple[str, ...] = ()
    """`num`, `fig`, `prop`, `why`, `risk`."""
    how: str = ""
    tests: tuple[str, ...] = ()
    """Tests that decide it; if they pass, it is `if_passed`."""
    if_passed: str = CONFIRMED
    unmeasurable: str = ""
    """Why nothing here can decide it."""
    because: str = ""


@dataclass(frozen=True)
class Verdict:
    """What came of one claim, and where it was decided."""

    claim: str
    verdict: str
    numbers: str = ""
    decided_by: str = ""
    because: str = ""


def listed_claims(path: Path = CLAIMS) -> list[ListedClaim]:
    """All claims of the sources, in their order."""
    table = tomllib.loads(path.read_text())
    made = []
    for entry in table["claim"]:
        lists = {key: tuple(entry[key]) for key in ("kinds", "tests") if key in entry}
        made.append(ListedClaim(**{**entry, **lists}))
    return made


def verdict_on(claim: Claim, figure: Figure, rows: Sequence[Row], size: str = "quick") -> Verdict:
    """Decide a claim by the rows of its figure; rows that failed are not looked at."""
    usable = [row for row in rows if not row.get("error")]
    where = f"figure {figure.name}"
    try:
        finding = CHECKS[claim.check](usable, **claim.settings_at(size))
    except ConfigError as error:
        return Verdict(claim.id, UNDECIDED, str(error), where)
    because = "" if finding.holds else claim.because
    return Verdict(
        claim.id, CONFIRMED if finding.holds else REFUTED, finding.numbers, where, because
    )


def explanation_by(claim: Claim, figure: Figure, rows: Sequence[Row], size: str) -> str:
    """What a table says about why a claim does not hold; nothing if it has not been measured."""
    found = verdict_on(claim, figure, rows, size)
    if found.verdict == UNDECIDED:
        return ""
    told = "" if found.verdict == CONFIRMED else "Not so: "
    return f"{told}{claim.words} ({found.numbers}; {found.decided_by})."


def all_verdicts(
    claims: Sequence[ListedClaim],
    by_figures: Sequence[Verdict],
    passed: Mapping[str, bool],
    explained: Mapping[str, Sequence[str]] | None = None,
) -> list[Verdict]:
    """One verdict per claim of the list.

    A claim that several checks speak of is refuted if one of them refutes it. `passed` says what
    tests came to, by their names; `explained` what experiments say about those that do not hold.
    """
    made = []
    for claim in claims:
        found = [verdict for verdict in by_figures if verdict.claim == claim.id]
        found = sorted(found, key=lambda verdict: _weight(verdict.verdict))
        if found:
            verdict = found[0]
            numbers = "; ".join(dict.fromkeys(v.numbers for v in found if v.numbers))
            wheres = ", ".join(dict.fromkeys(v.decided_by for v in found))
            because = verdict.because
            if verdict.verdict == REFUTED and explained is not None:
                because = " ".join(filter(None, [because, *explained.get(claim.id, ())]))
            made.append(Verdict(claim.id, verdict.verdict, numbers, wheres, because))
        else:
            made.append(_without_figure(claim, passed))
    return made


def _weight(verdict: str) -> int:
    return (REFUTED, UNDECIDED, CONFIRMED).index(verdict)


def _without_figure(claim: ListedClaim, passed: Mapping[str, bool]) -> Verdict:
    if claim.unmeasurable:
        return Verdict(claim.id, NOT_MEASURABLE, because=claim.unmeasurable)
    if not claim.tests:
        return Verdict(claim.id, UNDECIDED)
    where = ", ".join(claim.tests)
    if any(test not in passed for test in claim.tests):
        return Verdict(claim.id, UNDECIDED, "its tests were not run", where)
    if not all(passed[test] for test in claim.tests):
        other = REFUTED if claim.if_passed == CONFIRMED else UNDECIDED
        return Verdict(claim.id, other, "a test of it fails", where)
    because = claim.because if claim.if_passed == REFUTED else ""
    return Verdict(claim.id, claim.if_passed, "", where, because)


def counted(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many claims came to what."""
    found = Counter(verdict.verdict for verdict in verdicts)
    return {name: found[name] for name in VERDICTS}
