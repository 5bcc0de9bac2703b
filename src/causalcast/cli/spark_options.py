"""Options and errors shared by the commands that use the pipeline."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from causalcast.errors import MissingDependency


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """`--master` and `--remote`: where Spark runs."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--master", metavar="URL", help="a Spark master, such as spark://host:7077 or local[4]"
    )
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:port")


def spark_maker(options: argparse.Namespace) -> Callable[[], Any]:
    """Makes the session that the options ask for, when it is asked."""

    def make() -> Any:
        from causalcast.pipeline.session import make_session

        return make_session(options.master, options.remote, brief=True)  # it only moves files

    return make


@contextlib.contextmanager
def needs_pipeline() -> Iterator[None]:
    """Say in one line what to install where the pipeline's packages are missing."""
    try:
        yield
    except ImportError as error:
        raise MissingDependency(
            f"{error.name} is not installed: pip install 'causalcast[spark]'"
        ) from None
