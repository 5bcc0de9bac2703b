"""Compares what the pipeline found with what the judge says about the same run."""

import itertools
from collections.abc import Mapping, Sequence

from causalcast.judge import Judgement, Violation
from causalcast.judge.happens_before import HappensBefore
from causalcast.judge.judge import Due
from causalcast.judge.run_facts import RunFacts
from causalcast.pipeline.check.checks.finding import Finding
from causalcast.trace.kinds import REPLY_ORDER
from causalcast.trace.plain_run import plain_run
from causalcast.trace.run_folder import Run

ORDERS = ("fifo_order", "causal_order", REPLY_ORDER)


def differences(
    run: Run,
    judgement: Judgement,
    findings: list[Finding],
    unknown: Mapping[str, int] | None = None,
) -> list[str]:
    """Every way in which the findings differ from the judgement; empty if they agree.

    Same blamed nodes per property (hence the same verdict), the same first row in each log, as many
    rows that break an order, doubts where there are any (`unknown`, where it is given),
    every counter-example true, and every chain as short as can be.
    """
    said = []
    if unknown is not None:
        for guarantee in (*ORDERS, "no_creation", "no_duplication"):
            doubtful, count = judgement.unknown.get(guarantee, []), unknown[guarantee]
            # Of orders the pipeline counts only deliveries whose nearest causes are in doubt.
            fits = count <= len(doubtful) if guarantee in ORDERS else count == len(doubtful)
            if not fits:
                said.append(f"{guarantee}: unknown {doubtful[:3]}, not {count}")
    for guarantee in judgement.violations:
        violations = judgement.violations[guarantee]
        found = [finding for finding in findings if finding.guarantee == guarantee]
        if judgement.blamed(guarantee) != {finding.node for finding in found}:
            said.append(f"{guarantee}: judge {violations[:3]}, pipeline {found[:3]}")
        elif _first_rows(violations) != _first_rows(found):
            said.append(f"{guarantee}: other first rows: {violations[:3]}, {found[:3]}")
        elif guarantee in ORDERS and len(violations) != sum(1 + f.further for f in found):
            said.append(f"{guarantee}: {len(violations)} rows, but {found[:3]}")
    said += _long_chains(judgement, findings)
    if any(finding.cause is not None for finding in findings):
        said += _untrue_causes(run, findings)
    return said


def _long_chains(judgement: Judgement, findings: list[Finding]) -> list[str]:
    """Chains that are longer than the shortest one that explains the same delivery."""
    shortest = {
        (v.guarantee, v.node, v.pos): len(v.chain)
        for guarantee in ("causal_order", REPLY_ORDER)
        for v in judgement.violations.get(guarantee, ())
    }
    return [
        f"not the shortest chain: {finding}"
        for finding in findings
        if finding.guarantee in ("causal_order", REPLY_ORDER)
        and finding.chain
        and len(finding.chain) != shortest.get((finding.guarantee, finding.node, finding.pos))
    ]


def _first_rows(found: Sequence[Violation | Finding]) -> dict[int, int | None]:
    rows: dict[int, int | None] = {}
    for one in sorted(found, key=lambda one: (one.node, one.pos or 0)):
        rows.setdefault(one.node, one.pos)
    return rows


def _untrue_causes(run: Run, findings: list[Finding]) -> list[str]:
    """Counter-examples that are none, told from the definitions."""
    facts = RunFacts(plain_run(run))
    potential, declared = HappensBefore(facts), HappensBefore(facts, declared=True)
    due = Due(facts, potential)
    said = []
    for finding in findings:
        if finding.cause is None:
            continue
        assert finding.pos is not None
        order = declared if finding.guarantee == REPLY_ORDER else potential
        log = facts.logs[finding.node]
        cause = facts.publications[finding.cause]
        had_before = any(
            row.message == finding.cause and row.kind in ("publish", "deliver")
            for row in log[: finding.pos]
        )
        comes_later = any(
            row.message == finding.cause and row.kind == "deliver" for row in log[finding.pos :]
        )
        delivered = (log[finding.pos].kind, log[finding.pos].message)
        true = (
            delivered == ("deliver", finding.message)
            and not had_before
            and comes_later == (finding.kind == "inversion")
            and bool(order.past[finding.message] & cause.bit)
            and bool(due.at(finding.node, finding.pos) & cause.bit)
            and _is_chain(order, finding)
        )
        if not true:
            said.append(f"no true counter-example: {finding}")
    return said


def _is_chain(order: HappensBefore, finding: Finding) -> bool:
    chain = finding.chain
    if not chain:
        return finding.guarantee != "fifo_order"  # only the first few have one
    steps = list(itertools.pairwise(chain))
    if finding.guarantee == "fifo_order":
        return all(order.past[m] & order.facts.publications[z].bit for z, m in steps)
    ends = (chain[0], chain[-1]) == (finding.cause, finding.message)
    return ends and all(order.direct[m] & order.facts.publications[z].bit for z, m in steps)
