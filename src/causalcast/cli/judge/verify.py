"""`causalcast verify`: judge runs by their traces."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from causalcast.cli.shared.places import RUN_HELP, place
from causalcast.cli.shared.spark_options import add_spark_options, where_to_judge
from causalcast.printable import printable

if TYPE_CHECKING:
    from causalcast.pipeline.verdicts.verdict import PropertyResult, Verdict

RUNS_IN_FULL = 5  # with more, only those that are not fine are shown in full
TOLD = 5  # counter-examples of each property
DRAWN = 2  # diagrams per property

EPILOG = """
examples:
  causalcast verify RUN                        all six properties, on Spark in this process
  causalcast verify RUN --local                the same without Spark, for small runs
  causalcast verify runs/* --json              many runs in one job, for scripts
  causalcast verify RUN --promise promised     count only what the run promised
  causalcast verify RUN --promise fifo_order,no_duplication

exit code: 0 nothing that is known breaks what counts; 1 a counted property is violated, a run is
incomplete, or a log cannot be true; 2 unusable input
"""


def add_to(subparsers: Any) -> None:
    """Declare `verify`."""
    parser = subparsers.add_parser(
        "verify",
        description="Check runs against the six properties: no creation, no duplication,"
        " validity, agreement, FIFO order and causal order. Every property is checked and"
        " reported; the verdict counts what the run promised, and causal order.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=place, metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--promise",
        metavar="LIST",
        help="what the verdict counts: `promised` (what the run promised, nothing else)"
        " or properties separated by commas",
    )
    add_spark_options(parser, local=True)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, command="verify")


def run(options: argparse.Namespace) -> int:
    """Check, print, and say by the exit code whether all is well."""
    from causalcast.pipeline.logs.places import runs_under
    from causalcast.pipeline.verdicts.verdict import parse_promise, to_json
    from causalcast.pipeline.verify import verify

    parse_promise(options.promise)
    options.runs = runs_under(options.runs)
    with where_to_judge(options, f"checking {len(options.runs)} run(s)") as spark:
        found = verify(options.runs, spark=spark, promise=options.promise)
    seconds = found[0].seconds
    if options.json:
        json.dump(to_json(found, seconds), sys.stdout, indent=2)
        print()
    else:
        _print(found, seconds)
    return 0 if all(one.is_fine for one in found) else 1


def _print(found: "list[Verdict]", seconds: float) -> None:
    console = Console(highlight=False)
    in_full = [one for one in found if len(found) <= RUNS_IN_FULL or not one.is_fine]
    for one in in_full[:RUNS_IN_FULL]:
        _print_one(console, one)
    if len(found) > 1:
        counts = {name: sum(one.verdict == name for one in found) for name in _COLOURS}
        said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        console.print(f"{len(found)} runs: {said}", soft_wrap=True)
        for one in in_full[RUNS_IN_FULL:]:
            console.print(f"  {one.verdict}: {_plain(str(one.place))}", soft_wrap=True)
    total = sum(one.counts.deliveries for one in found)
    console.print(f"{total:,} deliveries checked in {seconds:.1f} s", style="dim")


_COLOURS = {
    "ok": "green", "no_violation": "green", "violated": "red", "faulty_log": "red",
    "incomplete": "yellow", "pending": "yellow", "unknown": "yellow",
}  # fmt: skip


def _print_one(console: Console, one: "Verdict") -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("property", "promised", "result"):
        table.add_column(title)
    for result in one.results:
        table.add_row(result.name, _promised(result), _result(result))
    name = one.header.protocol or one.header.world
    console.print(f"[bold]{_plain(str(one.place))}[/]  ({_plain(name)})", soft_wrap=True)
    console.print(table)
    for result in one.results:
        _print_examples(console, one, result)
    _print_diagnosis(console, one)
    for remark in one.remarks:
        console.print(f"[yellow]note[/]: {_plain(remark)}", soft_wrap=True)
    if one.fault is not None:
        said = _plain(one.fault.sentence(one.names))
        console.print(f"[red]the log cannot be true[/]: {said}", soft_wrap=True)
    colour = _COLOURS[one.verdict]
    console.print(
        f"verdict: [bold {colour}]{one.verdict.replace('_', ' ')}[/]  "
        f"({one.counts.nodes:,} nodes, {one.counts.publications:,} publications,"
        f" {one.counts.deliveries:,} deliveries{_judged(one)})\n",
        soft_wrap=True,
    )


def _plain(text: str) -> str:
    """Text of others: no mark-up, and nothing that a terminal obeys."""
    return escape(printable(text))


def _judged(one: "Verdict") -> str:
    """How much of a partial log could be judged."""
    counts = one.counts
    if one.header.whole or not counts.deliveries:
        return ""
    said = f"; {counts.judged / counts.deliveries:.1%} of them could be judged"
    if counts.unseen:
        said += f", {counts.unseen:,} publications never seen"
    if one.silent:
        said += _plain(f", no row of {', '.join(one.silent[:TOLD])}")
    return said


def _print_diagnosis(console: Console, one: "Verdict") -> None:
    lines = one.diagnosis.lines() if one.header.world == "imported" else []
    if lines:
        console.print("\n[bold]diagnosis[/]")
    for line in lines:
        console.print(f"  {_plain(line)}", soft_wrap=True)


def _promised(result: "PropertyResult") -> str:
    if result.promised_as is None:
        return "counted" if result.counted else "–"
    return "yes" if result.promised_as == result.name else result.promised_as


def _result(result: "PropertyResult") -> str:
    colour = _COLOURS[result.status]
    if result.status == "ok":
        return f"[{colour}]ok[/]"
    where = "node" if result.nodes == 1 else "nodes"
    said = f"[{colour}]{_status(result)}[/]"
    if result.violations:
        said += f": {result.violations:,} at {result.nodes:,} {where}"
    if result.unknown:
        said += f"{',' if result.violations else ':'} {result.unknown:,} cannot be known"
    return said


def _status(result: "PropertyResult") -> str:
    """The status; a violation that does not count is marked as such."""
    if result.status == "violated" and not result.counted:
        return "violated (not counted)"
    return result.status


def _print_examples(console: Console, one: "Verdict", result: "PropertyResult") -> None:
    from causalcast.pipeline.verdicts import counter_example

    if not result.examples:
        return
    console.print(f"\n[bold]{result.name}[/]")
    for drawn, finding in enumerate(result.examples[:TOLD]):
        said = _plain(counter_example.sentence(finding, one.names))
        console.print(f"  {said}", soft_wrap=True)
        if drawn < DRAWN and result.name in ("causal_order", "reply_order") and finding.chain:
            drawing = counter_example.draw(counter_example.steps_of(finding, one.folder), one.names)
            for line in drawing.splitlines():
                console.print(f"      {_plain(line)}", soft_wrap=True)
    untold = result.violations - min(TOLD, len(result.examples))
    if untold > 0:
        console.print(f"  … and {untold:,} more; `causalcast report` and --json tell of them")
