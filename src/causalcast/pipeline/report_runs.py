"""`causalcast.report`: one HTML page about runs; and what runs cost, in numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.logs.places import Place, RemoteFolder, RunAtHand, place_of
from causalcast.pipeline.report.report import write_report
from causalcast.pipeline.report.report_figures import Figures
from causalcast.pipeline.report.untimed import without_durations, without_times
from causalcast.pipeline.spark.remote_files import written_to
from causalcast.pipeline.verify import Judged, Scratch, Verdict, at_hand, located, verify
from causalcast.trace.run_folder import check_event_columns, read_header


def report(
    what: Judged | Sequence[Judged],
    out: str | Place,
    *,
    spark: Any = None,
    promise: str | None = None,
) -> list[Verdict]:
    """Judge and measure runs, write an HTML page about them, and return their verdicts.

    `what`, `spark` and `promise` are as for `verify`. The page opens offline: the verdict first,
    then counter-examples, plots and tables. `out` is its file, or with Spark a URI.
    """
    where = place_of(out) if isinstance(out, str) else out
    if isinstance(where, RemoteFolder) and spark is None:
        raise ConfigError(f"{where}: only Spark can write it; give a session as `spark`")
    scratch = Scratch()
    runs, session = _readable(what, spark, scratch)
    verdicts = verify(runs, spark=session, promise=promise)
    measured, drawn = _drawn_here(runs) if session is None else _drawn_on(session, runs)
    for place, run in enumerate(runs):
        if not read_header(run.folder).timed:
            measured[place] = without_durations(measured[place])
            drawn[place] = without_times(drawn[place])
    with written_to(session, where) as path:
        write_report(path, verdicts, measured, drawn)
    for verdict in verdicts:
        verdict.kept_alive = (verdict.kept_alive, scratch)
    return verdicts


def measure(
    what: Judged | Sequence[Judged], *, by: str | None = None, spark: Any = None
) -> list[Any]:
    """The metrics of each run as a dict; with `by` (group, node or second), a list of them.

    Of a run whose rows have no times it says nothing that would need them.
    """
    scratch = Scratch()
    runs, session = _readable(what, spark, scratch)
    untimed = [place for place, run in enumerate(runs) if not read_header(run.folder).timed]
    if by == "second" and untimed:
        raise ConfigError(f"{runs[untimed[0]].place}: its rows say no times; try by group or node")
    measured = _measured_here(runs, by) if session is None else _measured_on(session, runs, by)
    for place in untimed:
        found = measured[place]
        measured[place] = (
            without_durations(found) if by is None else [without_durations(row) for row in found]
        )
    return measured


def _measured_here(runs: Sequence[RunAtHand], by: str | None) -> list[Any]:
    from causalcast.pipeline.report.small_run import measure, measure_by, read_small_run

    read = (read_small_run(run.folder) for run in runs)
    return [measure(one) if by is None else measure_by(one, by) for one in read]


def _measured_on(session: Any, runs: Sequence[RunAtHand], by: str | None) -> list[Any]:
    from causalcast.pipeline.metrics.summary import summary, summary_by
    from causalcast.pipeline.spark.tables import read_tables

    tables = read_tables(session, runs)
    return summary(tables, len(runs)) if by is None else summary_by(tables, len(runs), by)


def _readable(
    what: Judged | Sequence[Judged], spark: Any, scratch: Scratch
) -> tuple[list[RunAtHand], Any]:
    """The runs, once it is known that those of this machine have all columns."""
    found = located([what] if isinstance(what, Judged) else what, scratch)
    for run in found:
        if isinstance(run, RunAtHand) and not run.is_remote:
            for path in run.files:
                check_event_columns(Path(path))
    return at_hand(found, spark, scratch)


def _drawn_here(runs: Sequence[RunAtHand]) -> tuple[list[dict[str, Any]], list[Figures]]:
    from causalcast.pipeline.report.small_run import figures_of, measure, read_small_run

    read = [read_small_run(run.folder) for run in runs]
    return [measure(one) for one in read], [figures_of(one) for one in read]


def _drawn_on(
    session: Any, runs: Sequence[RunAtHand]
) -> tuple[list[dict[str, Any]], list[Figures]]:
    from causalcast.pipeline.metrics.summary import summary
    from causalcast.pipeline.report.report_data import figures
    from causalcast.pipeline.spark.tables import read_tables

    tables = read_tables(session, runs)
    return summary(tables, len(runs)), figures(tables, len(runs))
