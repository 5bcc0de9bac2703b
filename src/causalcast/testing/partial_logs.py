"""Random foreign logs, whole and with rows left out, judged three ways: by the judge, by the
kernels, and from the definition alone.

What is told of the rest must be true of the whole log, and all that can be known of the rest must
be told.
"""

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.testing.comparison import differences
from causalcast.testing.plain_inversions import Inversions, JsonLine, PlainLog
from causalcast.testing.random_foreign_logs import by_time, leave_out, random_log
from causalcast.trace.export import ForeignNames
from causalcast.trace.foreign_log import Record, import_records
from causalcast.trace.run_folder import Run, read_run, write_run

ORDERS: dict[str, dict[str, Any]] = {
    "causal_order": {},
    "fifo_order": {"fifo": True},
    "reply_order": {"declared": True},
}


def imported(lines: list[JsonLine], redelivery: str, whole: bool | None = None) -> Run:
    """The run of some lines; whether it is whole is found out."""
    records = [Record(f"line {number}", line) for number, line in enumerate(lines, 1)]
    return import_records(records, "random", redelivery, whole)


def check_seed(seed: int, kept_on_disk: bool = False) -> tuple[list[str], Counter[str]]:
    """Everything that is wrong with what is said of one log, and what there was to see."""
    random = Random(seed)
    lines, redelivery = random_log(random)
    rest = leave_out(lines, random)
    is_whole: bool | None = None  # it shows
    if random.random() < 0.3:
        rows_at_once = random.choice([1, 2, 3])
        lines, rest = by_time(lines, rows_at_once), by_time(rest, rows_at_once)
        is_whole = False  # of a log without positions somebody must say so
    whole = _Opinions(lines, redelivery, is_whole=True)
    said = whole.differences()
    if not any(line["kind"] != "join" for line in rest):
        return said, Counter()
    part = _Opinions(rest, redelivery, is_whole, kept_on_disk)
    said += part.differences()
    seen: Counter[str] = Counter({"logs": 1, "partial": not part.run.header.whole})
    for name in ORDERS:
        inversions, of_whole = part.inversions(name), whole.inversions(name)
        seen[f"{name} told"] += len(inversions)
        seen[f"{name} in the whole log"] += len(of_whole)
        for early, causes in inversions.items():
            if not causes <= of_whole.get(early, set()):
                said.append(f"{name}: inversion of the rest, not of the whole: {early} {causes}")
        false = part.told(name) - whole.told(name)
        if false:
            said.append(f"{name}: told of the rest, not true of the whole: {false}")
    seen["unknown"] += part.checked.counts.unknown
    seen["judged"] += part.checked.counts.judged
    return [f"seed {seed}: {text}" for text in said], seen


class _Opinions:
    """What each of the three says of some lines."""

    def __init__(
        self,
        lines: list[JsonLine],
        redelivery: str,
        is_whole: bool | None,
        kept_on_disk: bool = False,
    ) -> None:
        self.run = imported(lines, redelivery, is_whole)
        if kept_on_disk:
            self.run = _written_and_read(self.run)
        self.judgement = judge(self.run)
        self.checked = check_run(self.run)
        self.plain = PlainLog(lines, redelivery)

    def inversions(self, name: str) -> Inversions:
        """By the definition."""
        return self.plain.inversions(self.run.header.whole, **ORDERS[name])

    def told(self, name: str) -> set[tuple[str, str]]:
        """By the judge: where, and what came too early."""
        names = ForeignNames.of(self.run)
        return {
            (str(names.node(violation.node)), names.message(violation.message))
            for violation in self.judgement.violations.get(name, ())
        }

    def differences(self) -> list[str]:
        """A partial log tells exactly its inversions, a whole one gaps as well; and the kernels say
        what the judge says."""
        said = differences(self.run, self.judgement, self.checked.findings, self.checked.unknown)
        for name in ORDERS:
            known, told = set(self.inversions(name)), self.told(name)
            if known - told:
                said.append(f"{name}: not told: {known - told}")
            if not self.run.header.whole and told - known:
                said.append(f"{name}: told, and no inversion: {told - known}")
        return said


def _written_and_read(run: Run) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "run", run)
        return read_run(Path(folder) / "run")
