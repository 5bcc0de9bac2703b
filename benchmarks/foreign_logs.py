"""What `verify` says of logs of real systems, whole and with rows missing, as two tables.

    python benchmarks/foreign_logs.py [FOLDER]

FOLDER holds logs in JSON lines; without it those are read that the tests have. The log without any
violation is simulated here: three nodes, two groups, `vector_clock_broadcast`.
"""

import sys
import tempfile
from pathlib import Path

from causalcast.cli.main import main as causalcast
from causalcast.judge import Judgement, judge
from causalcast.pipeline.verify import Verdict, verify
from causalcast.testing import lost_rows
from causalcast.testing.lost_rows import JsonLine, read_lines
from causalcast.testing.partial_logs import imported
from causalcast.trace.export import ForeignNames
from causalcast.trace.run_folder import Run, write_run

HERE = Path(__file__).parents[1] / "tests" / "unit" / "pipeline" / "real_logs"
SCENARIO = """
protocol = "vector_clock_broadcast"
until_ms = 4000

[overlay]
kind = "full_mesh"
nodes = 3

[network]
latency_ms = { kind = "uniform", low = 1, high = 30 }

[groups]
access = "*"
posts = "*"

[[publish]]
node = [0, 1, 2]
group = "access"
count = 300
interval_ms = 11

[[publish]]
node = [0, 1, 2]
group = "posts"
count = 300
interval_ms = 13
"""


def judged(lines: list[JsonLine], folder: Path, whole: bool | None = None) -> Verdict:
    """The verdict on some lines; whether they are whole is found out unless it is said."""
    run: Run = imported(lines, None, whole)
    write_run(folder, run)
    return verify(folder)


def clean_log(folder: Path) -> list[JsonLine]:
    """A log in which nothing is wrong."""
    (folder / "clean.toml").write_text(SCENARIO)
    simulate = ["simulate", str(folder / "clean.toml"), "--out", str(folder / "clean")]
    export = ["trace", "export", str(folder / "clean"), "--format", "jsonl"]
    assert causalcast([*simulate, "--trace", "deliveries", "--json"]) == 0
    assert causalcast([*export, "--out", str(folder / "clean.jsonl"), "--json"]) == 0
    return [line for line in read_lines(folder / "clean.jsonl") if line["kind"] != "header"]


def first_table(logs: Path, folder: Path) -> None:
    """Whole logs, beside what the judge says, which shares nothing with `verify`."""
    print("| log | deliveries | FIFO | causal | by the judge |")
    print("| --- | --- | --- | --- | --- |")
    for path in sorted(logs.glob("*.jsonl.gz")):
        if path.name.startswith(("group", "otel")):
            continue
        lines = read_lines(path)
        verdict = judged(lines, folder / path.name)
        found = {result.name: result.violations for result in verdict.results}
        violations = judge(imported(lines, None)).violations
        fifo, causal = (len(violations[name]) for name in ("fifo_order", "causal_order"))
        print(
            f"| {path.name.partition('.')[0]} | {verdict.counts.deliveries:,} |"
            f" {found['fifo_order']:,} | {found['causal_order']:,} | {fifo:,} / {causal:,} |"
        )


def second_table(logs: Path, folder: Path) -> None:
    """Logs of which rows are missing, or that are written late."""
    clean = clean_log(folder)
    slow = read_lines(logs / "nats-slow-mod-1sub.jsonl.gz")
    group = read_lines(logs / "group-nats.jsonl.gz")
    one = clean[0]["node"]
    small = ("dlq", "retry", "redeliver", "torn")
    cases: dict[str, tuple[list[JsonLine], list[JsonLine]]] = {
        "no violation, 10 % of the rows missing": (clean, lost_rows.rows_missing(clean, 0.1)),
        "no violation, half of the messages sampled": (
            clean, lost_rows.messages_sampled(clean, 0.5)),
        "no violation, one process without a log": (clean, lost_rows.process_missing(clean, one)),
        "no violation, beginnings rotated away": (clean, lost_rows.rotated(clean, 1 / 2)),
        "no violation, publications logged two rows late": (
            clean, lost_rows.published_late(clean)),
        "slow NATS, 10 % of the rows missing": (slow, lost_rows.rows_missing(slow, 0.1)),
        "slow NATS, half of the messages sampled": (slow, lost_rows.messages_sampled(slow, 0.5)),
        "NATS queue group, `share` said": (
            lost_rows.shared(group, "workers"), lost_rows.shared(group, "workers")),
        **{name: (read_lines(logs / f"{name}.jsonl"), read_lines(logs / f"{name}.jsonl"))
           for name in small},
    }  # fmt: skip
    print("| log | judged as whole | now | violations | of them true | unknown | judged |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for number, (name, (whole, rest)) in enumerate(cases.items()):
        before = judged(rest, folder / f"{number}-before", whole=True)
        now = judged(rest, folder / f"{number}-now")
        (causal,) = (result for result in now.results if result.name == "causal_order")
        known = 0
        if causal.violations:
            known = len(_told(imported(rest, None)) & _told(imported(whole, None)))
        was = sum(r.violations for r in before.results if r.counted)
        was += 0 if before.fault is None else before.fault.count
        counts = now.counts
        print(
            f"| {name} | {was:,} | {now.verdict.replace('_', ' ')} | {causal.violations:,} |"
            f" {known:,} | {causal.unknown:,} | {counts.judged / max(1, counts.deliveries):.1%} |"
        )


def _told(run: Run) -> set[tuple[str | int, str]]:
    """What breaks causal order, by the judge: where, and which message."""
    names = ForeignNames.of(run)
    judgement: Judgement = judge(run)
    return {
        (names.node(violation.node), names.message(violation.message))
        for violation in judgement.violations["causal_order"]
    }


def main() -> int:
    """Both tables."""
    logs = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    with tempfile.TemporaryDirectory() as folder:
        first_table(logs, Path(folder))
        print()
        second_table(logs, Path(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
