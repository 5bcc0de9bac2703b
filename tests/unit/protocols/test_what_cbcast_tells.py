"""What a held publication waits for has a name, also where groups overlap."""

from causalcast.core import NodeId, message_id
from causalcast.testing import Cluster


def test_a_missing_cause_is_named_by_its_own_number() -> None:
    """Node 0's second publication is its first to `all`; node 2 hears only of what follows it."""
    cluster = Cluster(3, "cbcast", groups={"all": [0, 1, 2], "pair": [0, 1]})
    cluster.run_ms(50)
    cluster.cut(0, 2)
    cluster.publish(0, b"aside", "pair")
    cause = cluster.publish(0, b"question", "all")
    cluster.run_ms(20)
    effect = cluster.publish(1, b"answer", "all")
    cluster.run_ms(20)
    assert cause == message_id(NodeId(0), 2)
    assert cluster.delivered(2) == []
    assert cluster.explain(2, effect) == [cause]
    assert cluster.reasons(2, effect) == ["waits for 0.2"]
    cluster.heal()
    cluster.run_ms(2000)
    assert cluster.delivered(2) == [b"question", b"answer"]
    assert cluster.explain(2, effect) == []
