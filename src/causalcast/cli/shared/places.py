"""Places of runs on the command line: paths, and URIs that Spark reads."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from causalcast.errors import ConfigError

if TYPE_CHECKING:
    from causalcast.pipeline.logs.places import Place, RemoteFolder

RUN_HELP = "folder of a run, or of several; a URI such as s3a://… is read by Spark"
ONE_RUN_HELP = "folder of a run; a URI such as s3a://… is read by Spark"


def place(text: str) -> "Place":
    """The type of an argument that names a run, wherever it lies."""
    from causalcast.pipeline.logs.places import place_of

    try:
        return place_of(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def remote_ones(places: "Sequence[Place]") -> "list[RemoteFolder]":
    """Those that only Spark can read."""
    return [where for where in places if not isinstance(where, Path)]
