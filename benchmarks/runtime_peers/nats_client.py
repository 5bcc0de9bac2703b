"""NATS with nats-py: a broker between the members, a callback per subscription."""

import asyncio

import nats
from member import Member, run_member

SUBJECT = "bench"


class NatsClient(Member):
    """One connection to the broker at port `ports["broker"]`."""

    async def open(self) -> None:
        self._client = await nats.connect(
            f"nats://127.0.0.1:{self.work.ports['broker']}", pending_size=1 << 30
        )
        if self.work.me in self.work.receivers:

            async def came(message: nats.aio.msg.Msg) -> None:
                self.tally.take(message.data)

            await self._client.subscribe(
                SUBJECT, cb=came, pending_msgs_limit=-1, pending_bytes_limit=-1
            )
        await self._client.flush()

    async def publish(self, body: bytes) -> None:
        await self._client.publish(SUBJECT, body)

    async def flush(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        await self._client.close()


if __name__ == "__main__":
    run_member(NatsClient)
