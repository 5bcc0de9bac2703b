"""A node that joins a group late gets what is published from then on, or is told that it cannot."""

import asyncio

import pytest

from causalcast.errors import ConfigError, NodeError
from causalcast.registry import find_protocol, protocol_names
from causalcast.testing import Applications, Cluster, VirtualNode

NODES = 4


def cluster_for(protocol: str) -> Cluster:
    """A cluster on the first overlay that the protocol accepts; node 2 is no member of `some`."""
    for overlay in ("full_mesh", "line"):
        try:
            groups = {"some": [0, 1], "all": range(NODES)}
            return Cluster(NODES, protocol, overlay=overlay, groups=groups, fifo=True)
        except ConfigError:
            continue
    raise AssertionError(f"no overlay for {protocol}")


@pytest.mark.parametrize("protocol", protocol_names())
def test_a_late_member_gets_what_comes_or_an_error(protocol: str) -> None:
    cluster = cluster_for(protocol)
    applications = Applications(cluster)
    seen: list[bytes] = []

    async def late(node: VirtualNode) -> None:
        async with node.group("some") as group:
            async for message in group:
                seen.append(message.payload)

    async def story() -> None:
        await asyncio.sleep(3)
        cluster.publish(0, b"before", "some")
        await asyncio.sleep(3)
        applications.start(2, late)
        await asyncio.sleep(3)
        cluster.publish(0, b"after", "some")
        await asyncio.sleep(3)

    if find_protocol(protocol).late_members:
        applications.run(story())
        assert seen == [b"after"]
    else:
        with pytest.raises(NodeError, match="members of the start only"):
            applications.run(story())
