"""Makes `spark.read.format("causalcast").load(RUN)` work without registration: Spark looks for a
package with this name. The source itself is `causalcast.pipeline.spark.data_source`.
"""

from causalcast.pipeline.spark.data_source import RunSource as DefaultSource

__all__ = ["DefaultSource"]
