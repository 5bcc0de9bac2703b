"""Makes the Spark session: inside this process, on a cluster, or through Spark Connect."""

import contextlib
import logging
import os
import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from causalcast.errors import ConfigError, MissingDependency
from causalcast.pipeline.spark.java import find_java

# Few shuffle partitions and no web page: our shuffles carry small aggregates only.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    # Files that Spark reads for us travel whole, several at once: a worker must have room for them.
    "spark.sql.files.maxPartitionBytes": "32m",
}
# For small inputs on this machine nearly all the time goes into getting ready: a simple compiler,
# a simple collector and plans in one piece take half the work (and would be slow with much data).
BRIEF_SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
DRIVER_MEMORY = "2g"
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM already
WAIT_SECONDS = 5  # for a first sign of a master or a Connect server
DEFAULT_PORTS = {"spark": 7077, "sc": 15002}
# What each answers at once: a request for a chunk that is not there; the first words of HTTP/2.
GREETINGS = {
    "spark": struct.pack(">qbqi", 21, 0, 0, 0),
    "sc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]),
}
# Everything on this machine: no name to look up, no port open to others.
LOOPBACK_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def make_session(master: str | None = None, remote: str | None = None, brief: bool = False) -> Any:
    """The session of this process: new, or the one that is there already.

    `brief`: for little data and not for long, if Spark runs in this process.
    """
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
        _check_somebody_answers(remote)
        if remote.startswith("local"):  # a server in this process
            _set_environment()
        return _started(builder.remote(remote), f"no Spark Connect server answers at {remote}")
    if master is not None:
        _check_somebody_answers(master)
    if master is None and SUBMITTED in os.environ:
        return _started(builder, "Spark did not start")  # spark-submit has said where and how
    _set_environment()
    builder = builder.config("spark.driver.memory", DRIVER_MEMORY)
    if master is None or "local" in master or "127.0.0.1" in master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for key, value in LOOPBACK_SETTINGS.items():
            builder = builder.config(key, value)
    if brief and (master is None or master.startswith("local")):
        for key, value in BRIEF_SETTINGS.items():
            builder = builder.config(key, value)
    builder = builder.master(master or f"local[{os.cpu_count() or 1}]")
    return _started(builder, f"Spark did not start on {master or 'this machine'}")


def _set_environment() -> None:
    """What Spark must find when it starts on this machine."""
    # Tasks must run this interpreter: the first python3 on the path may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java().home)


def _check_somebody_answers(url: str) -> None:
    """Spark itself would try a dead address, or a deaf one, for more than a minute."""
    scheme, _, rest = url.partition("://")
    if scheme not in DEFAULT_PORTS:
        return
    tried = rest.partition("/")[0].split(",")  # a master may have others that stand by
    heard = False
    for address in tried:
        host, _, port = address.rpartition(":")
        if not host:
            host, port = address, str(DEFAULT_PORTS[scheme])
        if not port.isdecimal():
            raise ConfigError(f"{url}: expected {scheme}://HOST:PORT")
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port)), WAIT_SECONDS) as there,
        ):
            heard = True
            if _says_something(there, GREETINGS[scheme]):
                return
    what = "something there is silent: no Spark" if heard else "nobody answers there"
    raise MissingDependency(f"{url}: {what}")


def _says_something(there: socket.socket, greeting: bytes) -> bool:
    """Whether the other end answers, be it with a refusal: locked doors open later."""
    there.settimeout(WAIT_SECONDS)
    there.sendall(greeting)
    try:
        there.recv(1)
    except TimeoutError:
        return False
    except OSError:
        pass  # it hung up: it listens
    return True


def _started(builder: Any, what_failed: str) -> Any:
    try:
        with _stderr_silenced():
            return builder.getOrCreate()
    except ImportError as error:
        raise MissingDependency(f"pip install 'pyspark[connect]' ({error})") from None
    except Exception as error:
        said = str(getattr(error, "java_exception", error)).strip()
        reason = (said.splitlines() or [type(error).__name__])[0]
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
