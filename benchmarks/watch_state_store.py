"""The live check with its state in Spark's state store, to compare with `causalcast watch`.

The same `LiveCheck`, pickled into one value per run (`transformWithStateInPandas`, RocksDB), reads
the same files and prints the same lines: `benchmarks/watch.py --state-store` runs this instead.
"""

import json
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

from causalcast.pipeline.live.live_check import LiveCheck
from causalcast.pipeline.live.live_watch import COLUMNS, founders_of
from causalcast.pipeline.spark.session import make_session
from causalcast.pipeline.spark.tables import EVENT_COLUMNS

OUT = "run string, guarantee string, kind string, node int, message long, cause long"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Check(StatefulProcessor):  # type: ignore[misc]
    """One run per key."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("check", "content binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timers: Any
    ) -> Iterator[pd.DataFrame]:
        run = key[0]
        known = self.state.get()
        check = pickle.loads(known[0]) if known else LiveCheck(founders_of(Path(run)))
        for frame in rows:
            for node, of_node in frame.astype(object).where(frame.notna(), None).groupby("node"):
                columns = [of_node[name] for name in COLUMNS[1:]]
                check.feed(int(node), [tuple(row) for row in zip(*columns, strict=True)])
        found = [(run, f.guarantee, f.kind, f.node, f.message, f.cause) for f in check.settle()]
        self.state.update((pickle.dumps(check, pickle.HIGHEST_PROTOCOL),))
        yield pd.DataFrame(found, columns=[part.split()[0] for part in OUT.split(", ")])

    def close(self) -> None:
        pass


def main() -> int:
    from pyspark.sql import functions as F  # noqa: N812

    folder = Path(sys.argv[1]).resolve()
    spark = make_session(brief=True)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    events = spark.readStream.schema(EVENT_COLUMNS).parquet(str(folder / "events"))
    checked = (
        events.select(F.lit(str(folder)).alias("run"), *COLUMNS)
        .groupBy("run")
        .transformWithStateInPandas(Check(), OUT, "append", "none")
    )

    def tell(frame: Any, batch: int) -> None:
        for row in frame.collect():
            told = {"violation": row["guarantee"], "cause": row["cause"], "at": time.time()}
            print(json.dumps(told), flush=True)

    checkpoint = folder / "watch-state" / "checkpoint"
    query = checked.writeStream.foreachBatch(tell).option("checkpointLocation", str(checkpoint))
    query.start().awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
