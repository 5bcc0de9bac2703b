"""A TCP connection that takes longer: all bytes arrive, in order, some milliseconds later."""

import asyncio
import contextlib
import threading


class SlowLink:
    """Listens on a port of its own and passes everything on to another, delayed both ways."""

    def __init__(self, target: int, delay_ms: float) -> None:
        self.target = target
        self.port = 0
        self._delay = delay_ms / 1000
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """End all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.set_exception_handler(lambda *_: None)  # connections end in the middle
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        with contextlib.suppress(RuntimeError):
            self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._pass_on(reader, far_writer), self._pass_on(far_reader, writer),
            return_exceptions=True,
        )  # fmt: skip

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each piece leaves when its time has come, so a busy link is late, not slow."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()

        sender = self._loop.create_task(send())
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                waiting.put_nowait((self._loop.time() + self._delay, data))
        waiting.put_nowait((self._loop.time() + self._delay, b""))
        with contextlib.suppress(OSError):
            await sender
