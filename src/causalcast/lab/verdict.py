"""What the judge says of a run, in words, and where a counter-example stands in the picture."""

from typing import Any, Final

from causalcast.core.spec import ProtocolSpec
from causalcast.judge import Judgement, Violation, judge, without_losses
from causalcast.runview.drawing import name_of
from causalcast.trace.kinds import GUARANTEES, WEAKER_FORMS
from causalcast.trace.plain_run import PlainEvent, PlainRun

EXAMPLES: Final = 3  # of each guarantee, in full
_CREATED: Final = {
    "unpublished": "which nobody published",
    "wrong_group": "of a group it was not published to",
    "not_a_member": "of a group that it is no member of",
    "before_publish": "before it was published",
    "cycle": "which precedes itself",
}


def told_verdict(run: PlainRun, spec: ProtocolSpec, gone: list[int]) -> dict[str, Any]:
    """The judgement of every guarantee: whether it was promised, and what speaks against it.

    What only nodes had that were declared `gone` is lost by somebody's order.
    """
    found = judge(run)
    if gone:
        found = without_losses(found, gone)[0]
    places = _Places(run.events)
    rows = [_row(name, found, spec, places) for name in GUARANTEES]
    broken = [row["name"] for row in rows if row["state"] == "violated"]
    promises = [row["name"] for row in rows if row["state"] == "violated" and row["promised"]]
    if broken:
        word = "violated"
    else:
        word = "pending" if any(row["state"] == "pending" for row in rows) else "ok"
    return {"word": word, "broken": broken, "promises_broken": promises, "guarantees": rows}


def _row(name: str, found: Judgement, spec: ProtocolSpec, places: "_Places") -> dict[str, Any]:
    weaker = [form for form, full in WEAKER_FORMS.items() if full == name]
    promised = next((form for form in (name, *weaker) if form in spec.guarantees), "")
    violations = found.violations[name]
    state = "violated" if found.broken(name) else "pending" if name in found.pending else "ok"
    if state == "violated" and promised == "agreement_per_part":
        state = "not judged"  # which links were safe does not stand in the rows
    return {
        "name": name,
        "promised": promised,
        "state": state,
        "count": len(violations),
        "examples": [
            {"words": words_of(violation), "marks": places.marks(violation)}
            for violation in _different(violations)[:EXAMPLES]
        ],
    }


def _different(violations: list[Violation]) -> list[Violation]:
    """One of those that would be told in the same words."""
    return list({words_of(one): one for one in reversed(violations)}.values())[::-1]


def words_of(violation: Violation) -> str:
    """One violation as a sentence."""
    who, what = f"n{violation.node}", name_of(violation.message)
    if violation.guarantee == "no_creation":
        return f"{who} delivered {what}, {_CREATED.get(violation.kind, 'which cannot be')}"
    if violation.guarantee == "no_duplication":
        return f"{who} delivered {what} again"
    if violation.guarantee == "validity":
        return f"{who} published {what} and never delivered it"
    if violation.guarantee == "agreement":
        return f"{who} lacks {what}, which another member delivered"
    cause = name_of(violation.cause) if violation.cause is not None else "an earlier one"
    kind = "its cause" if violation.guarantee == "causal_order" else "the earlier"
    if violation.kind == "gap":
        return f"{who} delivered {what} and never {kind} {cause}"
    return f"{who} delivered {what} before {kind} {cause}"


class _Places:
    """Where publications and deliveries stand in a run."""

    def __init__(self, events: list[PlainEvent]) -> None:
        self._published: dict[int, PlainEvent] = {}
        self._delivered: dict[tuple[int, int], PlainEvent] = {}
        self._rows: dict[tuple[int, int], PlainEvent] = {}
        for event in events:
            if event.message is None or event.kind not in ("publish", "deliver"):
                continue
            self._rows[event.node, event.pos] = event
            if event.kind == "publish":
                self._published.setdefault(event.message, event)
            else:
                self._delivered.setdefault((event.node, event.message), event)

    def marks(self, violation: Violation) -> list[dict[str, Any]]:
        """The events of a counter-example in the order in which they are told."""
        marks: list[dict[str, Any]] = []
        chain = list(violation.chain)
        if not chain and violation.cause is not None:
            chain = [violation.cause, violation.message]
        for place, cause in enumerate(chain):
            effect = chain[place + 1] if place + 1 < len(chain) else None
            self._add(marks, self._published.get(cause), "cause" if effect else "effect")
            if effect is not None and (publication := self._published.get(effect)) is not None:
                self._add(marks, self._delivered.get((publication.node, cause)), "seen")
        if not chain:
            self._add(marks, self._published.get(violation.message), "published")
        if violation.pos is not None:
            here = self._rows.get((violation.node, violation.pos))
            self._add(marks, here, "wrong")
            if violation.cause is not None:
                late = self._delivered.get((violation.node, violation.cause))
                self._add(marks, late, "too late")
        return marks

    def _add(self, marks: list[dict[str, Any]], event: PlainEvent | None, role: str) -> None:
        if event is not None and event.message is not None:
            marks.append(
                {
                    "node": event.node,
                    "at": event.at_us,
                    "kind": event.kind,
                    "message": name_of(event.message),
                    "role": role,
                }
            )
