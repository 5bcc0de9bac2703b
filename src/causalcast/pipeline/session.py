"""Makes the Spark session: inside this process, on a cluster, or through Spark Connect."""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from causalcast.errors import MissingDependency
from causalcast.pipeline.java import find_java

# Few shuffle partitions and no web page: our shuffles carry small aggregates only.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Starts no other Python per task; compiled kernels and imports stay warm.
    "spark.python.worker.reuse": "true",
}


def make_session(master: str | None = None, remote: str | None = None) -> Any:
    """The session of this process: new, or the one that is there already."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependency(
            "pyspark is not installed: pip install 'causalcast[spark]', or use verify --local"
        ) from None
    _be_quiet()
    builder = SparkSession.builder.appName("causalcast")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    if remote is not None:
        return _started(builder.remote(remote), f"no Spark Connect server answers at {remote}")
    # Tasks must run this interpreter: the first python3 on the path may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(find_java().home)
    for key, value in LOCAL_SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.master(master or f"local[{os.cpu_count() or 1}]")
    return _started(builder, f"Spark did not start on {master or 'this machine'}")


def _started(builder: Any, what_failed: str) -> Any:
    try:
        with _stderr_silenced():
            return builder.getOrCreate()
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MissingDependency(f"{what_failed} ({reason})") from None


def _be_quiet() -> None:
    """A failed query is told in our words; PySpark would add pages of its own."""
    warnings.filterwarnings("ignore", message=".*pandas.*", category=FutureWarning)
    for name in ("SQLQueryContextLogger", "py4j", "pyspark"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextlib.contextmanager
def _stderr_silenced() -> Iterator[None]:
    """Hide what the JVM's launcher writes to our stderr before its log level is set."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
