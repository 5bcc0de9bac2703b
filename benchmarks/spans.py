"""Spans from files to a verdict on Spark, beside the floor on the same files.

    python benchmarks/spans.py --spans 1e6
    python benchmarks/spans.py --spans 1e5 --local    in this process, without Spark
    python benchmarks/spans.py --spans 1e7 --keep FOLDER    written there, or found there

The floor is the least that anybody can do with such files: read the lines, parse them, group the
spans by process. The spans are those of ten processes in which each message goes to nine others and
some are answered; they are written first and take some 0.7 kB each.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from memory import PeakMemory, cpu_seconds

from causalcast.pipeline.check.check_run import check_folder
from causalcast.trace.foreign_log import import_records
from causalcast.trace.log_files import LogFiles, files_at
from causalcast.trace.many_objects import all_are_kept
from causalcast.trace.run_folder import write_run
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_files import spans_of
from causalcast.trace.spans.span_log import span_records

PROCESSES = 10
READERS = 9
BATCH = 512
ANSWERS = 0.3
START = 1_794_893_939_000_000_000
LATE = 0.0005  # of deliveries, so that there is something to find


def attribute(key: str, value: str) -> dict[str, Any]:
    """As OTLP writes it."""
    return {"key": key, "value": {"stringValue": value}}


class Writer:
    """One file of a process, batch by batch, as an exporter writes it."""

    def __init__(self, folder: Path, process: str) -> None:
        self.file = (folder / f"{process}.jsonl").open("w")
        self.resource = [attribute("service.instance.id", process),
                         attribute("service.name", "album")]  # fmt: skip
        self.spans: list[dict[str, Any]] = []

    def add(self, span: dict[str, Any]) -> None:
        """A span; a full batch is written."""
        self.spans.append(span)
        if len(self.spans) == BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what there is."""
        if self.spans:
            told = {"resource": {"attributes": self.resource}, "scopeSpans": [
                {"scope": {"name": "app"}, "spans": self.spans}]}  # fmt: skip
            self.file.write(json.dumps({"resourceSpans": [told]}) + "\n")
            self.spans = []

    def close(self) -> None:
        """The end of the file."""
        self.flush()
        self.file.close()


def span(
    trace: str, number: str, kind: int, start: int, end: int, topic: str, name: str
) -> dict[str, Any]:
    """One span with the attributes that instrumentation sets."""
    operation = "send" if kind == 4 else "process"
    attributes = [
        attribute("messaging.system", "nats"), attribute("messaging.operation.type", operation),
        attribute("messaging.operation.name", operation),
        attribute("messaging.destination.name", topic), attribute("messaging.message.id", name),
    ]  # fmt: skip
    return {
        "traceId": trace, "spanId": number, "name": f"{operation} {topic}", "kind": kind,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(end), "attributes": attributes,
        "status": {}, "flags": 256,
    }  # fmt: skip


def write_spans(folder: Path, count: int) -> None:
    """Files of so many spans."""
    random = Random(7)
    writers = [Writer(folder, f"p{n}") for n in range(PROCESSES)]
    handled: list[tuple[str, str] | None] = [None] * PROCESSES
    now, made, message = START, 0, 0
    while made < count:
        now += 1_000_000
        message += 1
        sender = random.randrange(PROCESSES)
        answered = handled[sender] if random.random() < ANSWERS else None
        trace = answered[0] if answered else f"{random.getrandbits(128):032x}"
        number = f"{random.getrandbits(64):016x}"
        topic = random.choice(("access", "posts"))
        sent = span(trace, number, 4, now, now + 20_000, topic, f"m{message}")
        if answered:
            sent["parentSpanId"] = answered[1]
        writers[sender].add(sent)
        for reader in random.sample(range(PROCESSES), READERS):
            late = 3_000_000 if random.random() < LATE else 0
            start = now + 100_000 + late + random.randrange(1000)
            own, self_number = f"{random.getrandbits(128):032x}", f"{random.getrandbits(64):016x}"
            read = span(own, self_number, 5, start, start + 40_000, topic, f"m{message}")
            read["links"] = [{"traceId": trace, "spanId": number, "flags": 768}]
            writers[reader].add(read)
            handled[reader] = (own, self_number)
        made += 1 + READERS
    for writer in writers:
        writer.close()


def floor_on_spark(spark: Any, paths: list[Path]) -> int:
    """Read, parse, group by process."""
    import pyarrow as pa

    from causalcast.pipeline.foreign.log_lines import read_lines

    wanted = SpanRules().wanted

    def parse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            counts: dict[str, list[int]] = {}
            for text in batch["text"]:
                for found in read_otlp_json(text.as_py(), wanted):
                    counts.setdefault(found.attributes["service.instance.id"], []).append(found.end)
            rows = [(name, len(ends), max(ends)) for name, ends in counts.items()]
            columns = list(zip(*rows, strict=True)) or [(), (), ()]
            arrays = [pa.array(columns[0], pa.string()), pa.array(columns[1], pa.int64()),
                      pa.array(columns[2], pa.int64())]  # fmt: skip
            yield pa.RecordBatch.from_arrays(arrays, names=["process", "spans", "last"])

    lines = read_lines(spark, paths)
    parsed = lines.mapInArrow(parse, "process string, spans long, last long")
    grouped = parsed.groupBy("process").agg({"spans": "sum", "last": "max"})
    return int(sum(row["sum(spans)"] for row in grouped.collect()))


class Steps:
    """Wall and CPU seconds of one step after another."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self._begin()

    def _begin(self) -> None:
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def end(self, name: str) -> None:
        """A step ended here, and the next begins."""
        self.told[f"{name}_s"] = time.perf_counter() - self.wall
        self.told[f"{name}_cpu_s"] = cpu_seconds() - self.cpu
        print(f"{name}: {self.told[f'{name}_s']:.1f} s", file=sys.stderr)
        self._begin()

    def ratios(self) -> dict[str, float]:
        """All that follows the floor, in floors."""
        found = {}
        for unit in ("s", "cpu_s"):
            floor, after, check = (self.told[f"{n}_{unit}"] for n in ("floor", "import", "check"))
            found[f"floors_{unit}"] = (after + check) / floor
        return found


def on_spark(folder: Path, run: Path) -> dict[str, Any]:
    """Floor, import, check; seconds of each."""
    from causalcast.pipeline.foreign.span_import import import_spans
    from causalcast.pipeline.spark.session import make_session
    from causalcast.pipeline.spark.spark_job import check_runs

    with PeakMemory() as memory:
        spark = make_session(None)
        floor_on_spark(spark, files_at(folder)[:1])  # warms up
        steps = Steps()
        spans = floor_on_spark(spark, files_at(folder))
        steps.end("floor")
        import_spans(spark, files_at(folder), "otlp", run, SpanRules(), None, False)
        steps.end("import")
        [checked] = check_runs(spark, [run])
        steps.end("check")
    return {"spans": spans, **steps.told, **steps.ratios(), "findings": len(checked.findings),
            "peak_mb": memory.peaks}  # fmt: skip


def here(folder: Path, run: Path) -> dict[str, Any]:
    """The same in this process."""
    rules = SpanRules()
    with PeakMemory() as memory:
        steps = Steps()
        files = LogFiles(files_at(folder))
        spans = sum(1 for _ in spans_of(files, "otlp", rules.wanted))
        steps.end("floor")
        with all_are_kept():
            records, _ = span_records(spans_of(files, "otlp", rules.wanted), rules)
            write_run(run, import_records(records, "spans", whole=False))
        steps.end("import")
        checked = check_folder(run)
        steps.end("check")
    return {"spans": spans, **steps.told, **steps.ratios(), "findings": len(checked.findings),
            "peak_mb": memory.peaks}  # fmt: skip


def main() -> None:
    """Write the spans, measure, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=float, default=1e6)
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spans = options.keep or Path(folder) / "spans"
        if not spans.exists():
            spans.mkdir(parents=True)
            write_spans(spans, int(options.spans))
        size = sum(path.stat().st_size for path in spans.iterdir())
        run = Path(folder) / "run"
        found = here(spans, run) if options.local else on_spark(spans, run)
    told = {k: round(v, 2) if isinstance(v, float) else v for k, v in found.items()}
    print(json.dumps({**told, "megabytes": size >> 20}))


if __name__ == "__main__":
    main()
