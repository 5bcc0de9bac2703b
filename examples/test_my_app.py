"""Tests of an application, on a cluster under virtual time. Run them with pytest.

The application is an access list: whoever sees the post must have seen the revocation before it.
"""

from collections.abc import Callable

from causalcast.core import Publication
from causalcast.testing import Cluster

REVOKE, POST = b"revoke access of the boss", b"post the party photos"


def start_app(cluster: Cluster) -> None:
    """Node 1 posts as soon as it has seen the revocation."""

    def react(node: int, publication: Publication) -> None:
        if node == 1 and publication.body == REVOKE:
            cluster.publish(1, POST)

    cluster.on_delivery(react)


def test_nobody_sees_the_post_first(causal_cluster: Callable[..., Cluster]) -> None:
    """A slow link to node 2 changes nothing; the fixture checks every promise at the end."""
    cluster = causal_cluster(nodes=3)
    start_app(cluster)
    cluster.delay(0, 2, extra_ms=500)
    cluster.publish(0, REVOKE)
    cluster.settle()
    assert cluster.delivered(2) == [REVOKE, POST]


def test_it_survives_a_crash() -> None:
    """Node 2 is down while everything happens, and catches up in the right order."""
    cluster = Cluster(nodes=3, latency_ms=(1, 40), loss=0.1, seed=7)
    start_app(cluster)
    cluster.crash(2)
    cluster.publish(0, REVOKE)
    cluster.run_ms(500)
    assert cluster.delivered(2) == []
    cluster.recover(2)
    cluster.settle()
    cluster.check()
    assert cluster.delivered(2) == [REVOKE, POST]


def test_a_held_message_says_what_it_waits_for() -> None:
    """While the revocation is under way, the post that overtook it is held for it."""
    cluster = Cluster(nodes=3)
    cluster.delay(0, 2, extra_ms=500)
    cluster.delay(1, 2, extra_ms=500)
    revocation = cluster.publish(0, REVOKE)
    cluster.run_ms(10)
    cluster.delay(1, 2, extra_ms=0)
    post = cluster.publish(1, POST)
    cluster.run_ms(10)
    assert cluster.delivered(2) == []
    assert cluster.explain(2, post) == [revocation]
    cluster.settle()
    assert cluster.delivered(2) == [REVOKE, POST]
