"""A web application with several workers, which all use one node by its door.

    causalcast up --nodes 3 --groups chat='*' --clients --insecure --dir cluster
    CAUSALCAST_URLS=ws://127.0.0.1:7500 uvicorn --workers 4 fastapi_chat:app

Each worker is a client. All get all messages, in causal order; one whose node dies goes on at the
next one of `CAUSALCAST_URLS`. A browser may speak with another worker at each request: it shows the
id of what it said last (`after`), and a worker that is behind waits until it has that.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, WebSocket, WebSocketDisconnect
from pydantic import BaseModel

import causalcast
from causalcast.core import NodeId, number_of, origin_of

URLS = os.environ.get("CAUSALCAST_URLS", "ws://127.0.0.1:7500").split(",")
TOKEN = os.environ.get("CAUSALCAST_TOKEN", "")  # of `causalcast keys client`
PATIENCE = 15.0  # seconds that a request waits for a worker that is behind
WAITING = 1000  # messages that a browser has not taken; then it has to come again


class Said(BaseModel):
    """What a browser says. It sends the same key again if it got no answer."""

    text: str
    key: str


class Room:
    """What this worker has seen of the chat."""

    def __init__(self, chat: causalcast.RemoteGroup) -> None:
        self.chat = chat
        self.texts: list[str] = []
        self.seen: dict[NodeId, int] = {}
        self.browsers: set[asyncio.Queue[str]] = set()
        self.news = asyncio.Condition()

    async def read(self) -> None:
        """Take everything, and hand it on."""
        async for message in self.chat:
            async with self.news:
                self.texts.append(message.payload.decode())
                self.seen[message.origin] = message.number
                self.news.notify_all()
            for browser in [one for one in self.browsers if one.full()]:
                self.browsers.remove(browser)  # it is told, and comes again
            for browser in self.browsers:
                browser.put_nowait(self.texts[-1])
            await message.ack()

    async def wait_for(self, after: str) -> None:
        """Return when this worker has seen what somebody has seen elsewhere."""
        origin, _, number = after.partition(".")
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: self.seen.get(NodeId(int(origin)), 0) >= int(number))


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """Each worker connects when it starts."""
    async with (
        causalcast.connect(URLS, TOKEN, name="web") as node,
        node.group("chat", since="kept") as chat,
    ):
        app.state.room = Room(chat)
        reading = asyncio.create_task(app.state.room.read())
        yield
        reading.cancel()


app = FastAPI(lifespan=connected)


@app.post("/say")
async def say(said: Said, request: Request) -> dict[str, object]:
    """Publish; whoever asks again with the same key gets the same id."""
    room: Room = request.app.state.room
    receipt = await room.chat.publish(said.text.encode(), key=said.key)
    return {"id": f"{origin_of(receipt.id)}.{number_of(receipt.id)}", "worker": os.getpid()}


@app.get("/texts")
async def texts(request: Request, after: str = "") -> dict[str, object]:
    """All that was said."""
    room: Room = request.app.state.room
    if after:
        try:
            await room.wait_for(after)
        except TimeoutError:
            raise HTTPException(503, "this worker is behind; ask again") from None
    return {"texts": room.texts, "worker": os.getpid()}


@app.websocket("/live")
async def live(browser: WebSocket) -> None:
    """All that was said, and all that will be."""
    room: Room = browser.app.state.room
    waiting: asyncio.Queue[str] = asyncio.Queue(WAITING)
    await browser.accept()
    said = list(room.texts)
    room.browsers.add(waiting)
    try:
        for text in said:
            await browser.send_text(text)
        while waiting in room.browsers or not waiting.empty():
            await browser.send_text(await waiting.get())
        await browser.close(1013, "too slow; come again")
    except WebSocketDisconnect:
        pass
    finally:
        room.browsers.discard(waiting)
