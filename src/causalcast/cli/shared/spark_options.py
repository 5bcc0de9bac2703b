"""Options shared by the commands that judge runs: on Spark, somewhere, or without it."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from causalcast.cli.shared.extras import missing, require
from causalcast.cli.shared.places import remote_ones
from causalcast.errors import ConfigError

if TYPE_CHECKING:
    from causalcast.pipeline.logs.places import Place

SMALL_BYTES = 4 << 20  # of event files, about a million rows: seconds in plain Python
BRIEF_BYTES = 32 << 20  # some eight million rows: Spark mostly gets ready
LOCAL_HELP = "check in this process, without Spark"


def add_spark_options(parser: argparse.ArgumentParser, local: bool = False) -> None:
    """`--master` and `--remote`: where Spark runs; and `--local`, if the command can do without."""
    where = parser.add_mutually_exclusive_group()
    if local:
        parser.add_argument("--local", action="store_true", help=LOCAL_HELP)
    where.add_argument(
        "--master", metavar="URL", help="a Spark master, such as spark://host:7077 or local[4]"
    )
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:port")


def spark_maker(options: argparse.Namespace) -> Callable[[], Any]:
    """Makes the session that the options ask for, when it is asked."""

    def make() -> Any:
        from causalcast.pipeline.spark.session import make_session

        return make_session(options.master, options.remote, brief=True)  # it only moves files

    return make


@contextmanager
def where_to_judge(
    options: argparse.Namespace, doing: str, written: "Sequence[Place]" = ()
) -> Iterator[Callable[[], Any] | None]:
    """Shows people what is being done, and gives what `verify` takes as `spark`.

    That is none for this process; else what starts Spark when it is asked for.
    """
    local = _is_local(options, written)
    with Console(stderr=True).status(doing) as status:  # shown in a terminal only

        def start() -> Any:
            from causalcast.pipeline.logs.places import is_little
            from causalcast.pipeline.spark.session import make_session

            status.update(starting_spark(options))
            brief = is_little(options.runs, BRIEF_BYTES)
            session = make_session(options.master, options.remote, brief)
            status.update(doing)
            return session

        yield None if local else start


def _is_local(options: argparse.Namespace, written: "Sequence[Place]") -> bool:
    """Whether to do without Spark: if asked to, or if it is missing and the runs are small."""
    from causalcast.pipeline.logs.places import is_little

    if options.local and (options.master or options.remote):
        raise ConfigError("--local runs without Spark: leave out --master and --remote")
    remote = remote_ones([*options.runs, *written])
    if options.local and remote:
        raise ConfigError(f"--local: only Spark can read and write {remote[0]}")
    if options.local:
        return True
    here = options.master is None and options.remote is None and not remote
    if here and missing("spark") and is_little(options.runs, SMALL_BYTES):
        Console(stderr=True).print(
            "Spark is not installed; this run is small enough to do without (as --local does)",
            style="dim",
            highlight=False,
        )
        return True
    require("spark", f"`causalcast {options.command}`", " (or add --local)" if here else "")
    return False


def starting_spark(options: argparse.Namespace) -> str:
    """What is said while Spark is being started, which takes a while."""
    if options.remote is not None:
        return f"asking the Spark server at {options.remote}"
    if options.master is not None:
        return f"starting Spark on {options.master}"
    return "starting Spark in this process (some seconds)"
