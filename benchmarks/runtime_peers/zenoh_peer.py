"""Zenoh: a Rust core without a broker, peers linked directly, a Python callback per message.

Messages are put by the blocking interface, reliable and with back-pressure (`BLOCK`): nothing may
be dropped here. Callbacks run in Zenoh's own threads.
"""

import asyncio
import json

import zenoh
from member import Member, run_member

KEY = "bench/messages"


class ZenohPeer(Member):
    """One peer, linked to each other member."""

    async def open(self) -> None:
        work, loop = self.work, asyncio.get_running_loop()
        config = zenoh.Config()
        settings = {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "listen/endpoints": [f"tcp/127.0.0.1:{work.ports[str(work.me)]}"],
            "connect/endpoints": [
                f"tcp/127.0.0.1:{work.ports[str(other)]}"
                for other in work.members
                if other < work.me
            ],
        }
        for key, value in settings.items():
            config.insert_json5(key, json.dumps(value))
        self._session = await loop.run_in_executor(None, zenoh.open, config)
        if work.me in work.receivers:
            take = self.tally.take

            def came(sample: zenoh.Sample) -> None:
                take(sample.payload.to_bytes())

            self._subscriber = self._session.declare_subscriber(KEY, came)
        self._publisher = self._session.declare_publisher(
            KEY,
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )
        while len(self._session.info.peers_zid()) < len(work.members) - 1:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)  # declarations travel to everybody
        self._watch = asyncio.ensure_future(self._watch_for_the_end())

    async def _watch_for_the_end(self) -> None:
        """The last callback runs in another thread, and the loop may sleep then."""
        while self.tally.left:
            await asyncio.sleep(0.01)
        self.tally.done.set()

    async def publish(self, body: bytes) -> None:
        self._publisher.put(body)

    async def close(self) -> None:
        self._session.close()


if __name__ == "__main__":
    run_member(ZenohPeer)
