"""The test kit: for our own tests first, and for authors of protocols and applications.

    from causalcast.testing import Cluster

    def test_no_reply_before_its_question():
        cluster = Cluster(nodes=4, latency_ms=(1, 40), seed=7)
        cluster.publish(0, b"question")
        cluster.run_ms(100)
        cluster.publish(2, b"answer")
        cluster.crash(1)
        cluster.settle()
        cluster.check()

`Cluster` is a cluster under virtual time with faults; `Applications` runs asynchronous applications
on it, as they will run on real nodes; `Stage` plays transcripts, message by
message; `conformance` has the tests every protocol must pass, from its SPEC. pytest finds the
fixture `causal_cluster` by itself.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causalcast.testing.applications import Applications, VirtualNode
    from causalcast.testing.cluster import Cluster
    from causalcast.testing.stage import Stage, play

__all__ = ["Applications", "Cluster", "Stage", "VirtualNode", "play"]


def __getattr__(name: str) -> Any:
    """Load the kit only when a test asks for it: pytest imports this package on every start."""
    if name == "Cluster":
        from causalcast.testing import cluster

        return cluster.Cluster
    if name in ("Applications", "VirtualNode"):
        from causalcast.testing import applications

        return getattr(applications, name)
    if name in ("Stage", "play"):
        from causalcast.testing import stage

        return getattr(stage, name)
    raise AttributeError(f"module 'causalcast.testing' has no attribute {name!r}")
