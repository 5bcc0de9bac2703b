"""`causalcast.verify`: the verdict on runs, whatever they are given as and wherever they lie.

    causalcast.verify("runs/7")                          a run in a folder
    causalcast.verify(["runs", "more/8"])                several, and folders of runs
    causalcast.verify(causalcast.simulate("reordering_ring"))    a run in memory
    causalcast.verify("s3a://bucket/runs/7", spark=session)      where only Spark can read
    causalcast.verify(spark.read.table("events"))        a DataFrame of another system's events

All commands and campaigns that judge runs come here.
"""

import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, overload

from causalcast.errors import ConfigError
from causalcast.pipeline.check.check_run import Checked, check_folder
from causalcast.pipeline.logs.places import Place, RemoteFolder, RunAtHand, place_of, runs_under
from causalcast.pipeline.verdicts.verdict import Verdict, examples_of, parse_promise, verdict_of
from causalcast.trace.run_folder import Run, write_run

Judged = str | Path | RemoteFolder | Run | RunAtHand
"""What is judged as one run, or names some."""


@overload
def verify(  # type: ignore[overload-overlap]  # a str is a sequence of strs, too; it is a path here
    what: Judged, *, spark: Any = None, promise: str | None = None
) -> Verdict: ...


@overload
def verify(
    what: Sequence[Judged], *, spark: Any = None, promise: str | None = None
) -> list[Verdict]: ...


@overload
def verify(
    what: Any,
    *,
    promise: str | None = None,
    name: str = "table",
    whole: bool | None = None,
    redelivery: str | None = None,
    out: str | Path | None = None,
    tell: Callable[[Any], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Any: ...


def verify(
    what: Any,
    *,
    spark: Any = None,
    promise: str | None = None,
    name: str = "table",
    whole: bool | None = None,
    redelivery: str | None = None,
    out: str | Path | None = None,
    tell: Callable[[Any], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Any:
    """The verdict on a run, the verdicts on a list of them, or a query on a table that grows.

    `what` is the folder of a run, a `Run`, or a list; in a list a folder may also hold runs.
    `spark` is a session, or a function that makes one when all else is known to be right. Without
    it the check runs in this process, which cannot read URIs such as `s3a://…`. `promise` says
    what the verdict counts: by default what the run promised and causal order; `"promised"` leaves
    out the latter; or properties separated by commas.

    `what` may also be a DataFrame of events. `whole` and `redelivery` are then as for `causalcast
    trace import`, `name` is what the run is called, and the run that is made of the table is kept
    in the folder `out`, which all machines of a cluster must reach; without it, in a temporary
    one. If it is a stream, the query is returned, and `tell` hears of every batch.
    """
    if _is_table(what):
        from causalcast.pipeline.foreign.any_table import check_columns

        check_columns(what)
        if what.isStreaming:
            from causalcast.pipeline.live.live_table import watch_table

            return watch_table(what, tell, redelivery, checkpoint)
        return _verify_table(what, promise, name, whole, redelivery, out)
    wanted = parse_promise(promise)
    if isinstance(what, Judged):
        found = _verify([what], spark, wanted)
        if len(found) > 1:
            raise ConfigError(f"{what}: {len(found)} runs; give a list to judge several")
        return found[0]
    return _verify(what, spark, wanted)


def _verify(what: Sequence[Judged], spark: Any, promise: list[str] | None) -> list[Verdict]:
    started = time.perf_counter()
    scratch = Scratch()
    runs, session = at_hand(located(what, scratch), spark, scratch)
    checked = _checked_here(runs) if session is None else _checked_on(session, runs)
    verdicts = [
        _kept(verdict_of(run, one, promise), scratch)
        for run, one in zip(runs, checked, strict=True)
    ]
    seconds = time.perf_counter() - started
    for verdict in verdicts:
        verdict.seconds = seconds
    return verdicts


def _is_table(what: object) -> bool:
    """Whether this is a DataFrame of Spark, classic or Connect; asked without loading Spark."""
    return hasattr(what, "sparkSession") and hasattr(what, "isStreaming")


class Scratch:
    """A temporary folder that is removed when nobody refers to it any more.

    Verdicts keep it: their counter-examples are drawn from rows that lie there.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None

    def folder(self, name: str) -> Path:
        """A path inside that does not exist yet, but for the last part."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="causalcast-runs-"))
            weakref.finalize(self, rmtree, self._folder, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self._folder)) / name


def _kept(verdict: Verdict, scratch: Scratch) -> Verdict:
    verdict.kept_alive = scratch
    return verdict


def located(what: Sequence[Judged], scratch: Scratch) -> list[RunAtHand | RemoteFolder]:
    """All runs that are meant. What is wrong with a path is told here, before Spark is started."""
    found: list[RunAtHand | RemoteFolder] = []
    for one in what:
        place = place_of(one) if isinstance(one, str) else one
        if isinstance(place, Run):
            found.append(_written(place, scratch))
        elif isinstance(place, Path):
            found += [RunAtHand.here(run) for run in runs_under([place]) if isinstance(run, Path)]
        else:
            found.append(place)
    return found


def _written(run: Run, scratch: Scratch) -> RunAtHand:
    """A run in memory as a folder, under the name that it has in its header."""
    folder = scratch.folder(run.header.run_id)
    write_run(folder, run)
    return RunAtHand(Path(run.header.run_id), folder, RunAtHand.here(folder).files)


def at_hand(
    found: Sequence[RunAtHand | RemoteFolder], spark: Any, scratch: Scratch
) -> tuple[list[RunAtHand], Any]:
    """The runs with their small tables on this machine; and the session, if there is one."""
    remote = [one for one in found if isinstance(one, RemoteFolder)]
    if remote and spark is None:
        raise ConfigError(f"{remote[0]}: only Spark can read it; give a session as `spark`")
    session = spark() if callable(spark) else spark
    runs: list[RunAtHand] = []
    for one in found:
        if isinstance(one, RunAtHand):
            runs.append(one)
        else:
            from causalcast.pipeline.spark.remote_runs import fetch_runs

            runs += fetch_runs(session, [one], scratch.folder("fetched"))
    return runs, session


def _checked_here(runs: Sequence[RunAtHand]) -> list[Checked]:
    return [check_folder(run.folder) for run in runs]


def _checked_on(session: Any, runs: Sequence[RunAtHand]) -> list[Checked]:
    """Check runs on Spark, those of this machine and those elsewhere."""
    from causalcast.pipeline.spark.remote_runs import check_remote_runs, fetch_examples
    from causalcast.pipeline.spark.spark_job import check_runs

    here = iter(check_runs(session, [run.folder for run in runs if not run.is_remote]))
    elsewhere = iter(check_remote_runs(session, [run for run in runs if run.is_remote]))
    checked = []
    for run in runs:
        one = next(elsewhere if run.is_remote else here)
        if run.is_remote:
            fetch_examples(session, run, examples_of(one.findings))
        checked.append(one)
    return checked


def _verify_table(
    frame: Any,
    promise: str | None,
    name: str,
    whole: bool | None,
    redelivery: str | None,
    out: str | Path | None,
) -> Verdict:
    from causalcast.pipeline.foreign.any_table import import_table

    wanted = parse_promise(promise)
    started = time.perf_counter()
    scratch = Scratch()
    folder = scratch.folder(name) if out is None else Path(out)
    import_table(frame, folder, name, redelivery, whole)
    (verdict,) = _verify([folder], frame.sparkSession, wanted)
    verdict.seconds = time.perf_counter() - started
    return _kept(verdict, scratch)


__all__ = ["Judged", "Place", "Verdict", "verify"]
