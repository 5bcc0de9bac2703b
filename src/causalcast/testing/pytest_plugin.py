"""The fixture `causal_cluster`: makes clusters and checks their promises when the test is over."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from causalcast.testing.cluster import Cluster


@pytest.fixture
def causal_cluster() -> "Iterator[Callable[..., Cluster]]":
    """A function that makes a `Cluster`; at the end each must have kept its promises."""
    from causalcast.testing.cluster import Cluster

    made: list[Cluster] = []

    def make(*args: object, **kwargs: object) -> Cluster:
        cluster = Cluster(*args, **kwargs)  # type: ignore[arg-type]
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.settle()
        cluster.check()
