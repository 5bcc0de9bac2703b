"""`causalcast trace import`: what other systems logged becomes a run."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from causalcast.cli.shared.extras import require
from causalcast.cli.shared.places import place, remote_ones
from causalcast.cli.shared.span_options import add_span_options, span_rules
from causalcast.cli.shared.spark_options import add_spark_options
from causalcast.errors import ConfigError
from causalcast.trace.foreign_log import Record, import_records, records_of
from causalcast.trace.log_files import LogFiles, log_files
from causalcast.trace.many_objects import all_are_kept
from causalcast.trace.run_folder import write_run
from causalcast.trace.run_header import REDELIVERY
from causalcast.trace.spans.span_files import FORMS, JSON_LINES, form_of, spans_of
from causalcast.trace.spans.span_log import span_records

# Bytes of text; more is imported on Spark. A span has many times the text of a line.
IN_THIS_PROCESS = 64 << 20
SPANS_IN_THIS_PROCESS = 256 << 20

IMPORT_EPILOG = """
one JSON object per line:
  {"node": "a", "pos": 0, "kind": "publish", "message": "hello", "group": "chat"}
  {"node": "b", "time": 1.25, "kind": "deliver", "message": "hello", "group": "chat"}

`kind` is publish, deliver, join, leave, crash, recover or another kind of a trace; `pos` or `time`
(seconds) gives the order within a node. A `join` line before a node's first publish or deliver
makes it a founding member; a later one, or one with "late": true, a late one. In a group without
join lines the members are the nodes that deliver in it.

a publish line may also have "key" (messages are ordered only among equal keys) and "causes" (a list
of messages that it answers); a deliver line "share" (each message goes to one of those who share
that name) and "attempt" (1 is the first). {"kind": "header", "whole": false} says that rows are
missing; without it, and without --whole or --partial, that is found out and told.

or spans: OTLP in JSON lines or protobuf, as OpenTelemetry's exporters write them, or Jaeger's JSON.
"""


def add_import(actions: Any) -> None:
    """Declare `trace import`."""
    parser = actions.add_parser(
        "import",
        help="make a run of a log in JSON lines, or of spans",
        description="Make a run of a log that another system wrote, so that it can be verified.",
        epilog=IMPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "logs", nargs="+", type=place, metavar="LOG",
        help="files with one JSON object per line or with spans, also .gz and .zst, folders of"
        " such, - for standard input; a URI such as s3a://… is read by Spark",
    )  # fmt: skip
    parser.add_argument("--out", type=place, required=True, metavar="RUN", help="folder to write")
    parser.add_argument(
        "--format", choices=FORMS, help="what the logs are (default: seen from how they begin)"
    )
    parser.add_argument(
        "--redelivery",
        choices=REDELIVERY,
        help="whether a message may be delivered again: never, after a restart, or at any time"
        " (default: what the log says or shows)",
    )
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--whole", action="store_const", const=True, dest="whole",
        help="no row is missing, whatever it looks like",
    )  # fmt: skip
    rows.add_argument(
        "--partial", action="store_const", const=False, dest="whole",
        help="rows may be missing: sampled, rotated, a process without a log (spans: the default)",
    )  # fmt: skip
    parser.add_argument(
        "--spark", action="store_true",
        help="on Spark, as logs beyond 64 MB of text and spans beyond 256 MB are",
    )  # fmt: skip
    add_spark_options(parser)
    add_span_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run_import)


def run_import(options: argparse.Namespace) -> int:
    """Read foreign logs and write a run."""
    with log_files([log for log in options.logs if isinstance(log, Path)]) as files:
        elsewhere = remote_ones(options.logs)
        form = options.format or _form(files)
        asked = options.spark or options.master or options.remote
        on_spark = asked or elsewhere or remote_ones([options.out])
        most = IN_THIS_PROCESS if form == JSON_LINES else SPANS_IN_THIS_PROCESS
        if on_spark or files.bytes_of_text > most:
            found = _import_on_spark(options, [*files.paths, *elsewhere], form)
        else:
            with all_are_kept():
                found = _import_here(options, files, form)
    _tell(options, found)
    return 0


def _form(files: LogFiles) -> str:
    """Which form the files have. All must have the same; for a URI it must be given."""
    forms = {form_of(path): path for path in files.paths}
    if len(forms) > 1:
        said = ", ".join(f"{files.name(path)} is {form}" for form, path in forms.items())
        raise ConfigError(f"files of several forms ({said}): import them apart, or say --format")
    return next(iter(forms), JSON_LINES)


def _tell(options: argparse.Namespace, found: dict[str, Any]) -> None:
    if options.json:
        print(json.dumps({"out": str(options.out), **found}))
        return
    print(
        f"{options.out}: {found['events']:,} events of {found['nodes']:,} nodes in"
        f" {found['groups']:,} groups"
    )
    for what in found["left_out"]:
        print(f"left out: {what}")
    for sign in found["found_out"]:
        print(f"found out: {sign}")
    if found["found_out"] and not found["whole"]:
        print("so the log is taken for a partial one; --whole says that nothing is missing")
    for what in found.get("spans", []):
        print(what)
    if "rules" in found:
        print("read by these rules:")
    for rule in found.get("rules", []):
        print(f"  {rule}")


def _import_here(options: argparse.Namespace, files: LogFiles, form: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    whole, circular = options.whole, 0
    if form == JSON_LINES:
        records: Any = records_of(files)
    else:
        records, circular, told = _records_of_spans(options, files, form)
        whole = bool(whole)
    run = import_records(records, files.title, options.redelivery, whole, circular)
    write_run(options.out, run)
    found = {
        "events": len(run.events), "nodes": len(run.nodes), "groups": len(run.groups),
        "whole": run.header.whole, "found_out": run.header.found_out,
    }  # fmt: skip
    return {**found, "left_out": files.left_out, **told}


def _records_of_spans(
    options: argparse.Namespace, files: LogFiles, form: str
) -> tuple[list[Record], int, dict[str, Any]]:
    rules = span_rules(options)
    records, counts = span_records(spans_of(files, form, rules.wanted), rules)
    return (
        records,
        counts.circular,
        {"spans": counts.told(), "rules": rules.told(bool(options.whole))},
    )


def _import_on_spark(options: argparse.Namespace, logs: list[Any], form: str) -> dict[str, Any]:
    require("spark", "`causalcast trace import` on Spark")
    from causalcast.pipeline.foreign.foreign_import import import_logs
    from causalcast.pipeline.foreign.span_import import import_spans
    from causalcast.pipeline.spark.session import make_session

    with Console(stderr=True).status(f"importing {len(logs)} log(s)"):
        spark = make_session(options.master, options.remote)
        if form == JSON_LINES:
            return import_logs(spark, logs, options.out, options.redelivery, options.whole)
        rules, whole = span_rules(options), bool(options.whole)
        found = import_spans(spark, logs, form, options.out, rules, options.redelivery, whole)
        return {**found, "rules": rules.told(whole)}
