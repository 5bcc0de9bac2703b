"""`causalcast watch` of JSON lines or spans that another system is writing: no Spark, no state."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from causalcast.printable import printable

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0


def watch_lines(folders: list[Path], until_idle: float | None, as_json: bool) -> int:
    """Print what comes too late until interrupted or idle; then print the verdict of `verify`."""
    from causalcast.pipeline.live.live_table import PATIENCE, LiveLines
    from causalcast.pipeline.verify import verify
    from causalcast.trace.log_files import LogFiles

    teller = _Teller(as_json)
    growing = [_growing(folder) for folder in folders]
    live = LiveLines(patience=PATIENCE)
    last_news = last_told = time.monotonic()
    lines_read = 0
    try:
        while until_idle is None or time.monotonic() - last_news <= until_idle:
            records = [record for files in growing for record in files.records()]
            if (now_read := sum(files.lines_read() for files in growing)) > lines_read:
                lines_read, last_news = now_read, time.monotonic()
            teller.tell(live.take(records))
            if time.monotonic() - last_told > HEARTBEAT_SECONDS:
                last_told = time.monotonic()
                teller.tell_how_it_goes(live)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        teller.tell_how_it_goes(live)
        return 1 if live.check.violations else 0
    teller.tell(live.take([record for files in growing for record in files.finish()]))
    teller.tell(live.check.finish())
    teller.tell_how_it_goes(live)
    verdict = verify(_run_of(LogFiles([path for files in growing for path in files.files()])))
    teller.tell_verdict(verdict)
    return 1 if live.check.violations or not verdict.is_fine else 0


def _growing(folder: Path) -> Any:
    """Lines, or spans, by how the files begin."""
    from causalcast.pipeline.live.live_spans import GrowingSpans
    from causalcast.pipeline.live.live_table import GrowingFiles, json_lines_in
    from causalcast.trace.spans.rules import SpanRules
    from causalcast.trace.spans.span_files import OTLP, form_of

    if any(form_of(path) == OTLP for path in json_lines_in(folder)):
        return GrowingSpans(lambda: json_lines_in(folder), SpanRules())
    return GrowingFiles(folder)


def _run_of(files: Any) -> Any:
    from causalcast.trace.foreign_log import import_records, records_of
    from causalcast.trace.spans.rules import SpanRules
    from causalcast.trace.spans.span_files import OTLP, form_of, spans_of
    from causalcast.trace.spans.span_log import span_records

    if any(form_of(path) == OTLP for path in files.paths):
        rules = SpanRules()
        records, counts = span_records(spans_of(files, OTLP, rules.wanted), rules)
        return import_records(records, files.title, whole=False, circular_spans=counts.circular)
    return import_records(records_of(files), files.title)


class _Teller:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, soft_wrap=True)

    def tell(self, found: list[Any]) -> None:
        """A line per late arrival."""
        from causalcast.pipeline.live.live_table import sentence

        for late in found:
            if self.as_json:
                told = {
                    "violation": late.guarantee, "node": late.node, "message": late.effect[0],
                    "pos": late.effect_place, "cause": late.cause[0], "cause_pos": late.place,
                    "at": time.time(),
                }  # fmt: skip
                print(json.dumps(told), flush=True)
            else:
                self.console.print(f"[red]{escape(printable(sentence(late)))}[/]")

    def tell_how_it_goes(self, live: Any) -> None:
        """A heartbeat."""
        check = live.check
        if self.as_json:
            facts = {
                "rows": check.rows, "deliveries": check.deliveries,
                "violations": check.violations, "rows_waiting": check.rows_waiting(),
                "unchecked": check.unchecked, "out_of_order": live.out_of_order,
            }  # fmt: skip
            print(json.dumps(facts), flush=True)
            return
        verdict = f"{check.violations:,} violations" if check.violations else "no violation"
        self.console.print(
            f"{check.deliveries:,} deliveries, {verdict}, {check.rows_waiting():,} rows waiting,"
            f" {check.unchecked:,} unchecked"
        )

    def tell_verdict(self, verdict: Any) -> None:
        """Print what `verify` says of all lines together."""
        statuses = {result.name: result.status for result in verdict.results}
        if self.as_json:
            print(json.dumps({"verdict": verdict.verdict, "checked": statuses}), flush=True)
            return
        wrong = [f"{name} {status}" for name, status in statuses.items() if status != "ok"]
        said = f" ({', '.join(wrong)})" if wrong else ""
        self.console.print(f"verdict {verdict.verdict.replace('_', ' ')}{said}")
