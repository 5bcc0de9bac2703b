"""A door over HTTP for who cannot use WebSocket: POST to ask, server-sent events to read.

    POST /v1/ask                      one request of the protocol, and the answer to it
    GET  /v1/messages?group=chat      its messages, as events

Tokens, rights, limits and positions are those of the other door. A connection may bring several
requests, one after the other. Until a token was shown a client may say no more than a head.
"""

import asyncio
import collections
import contextlib
import re
import ssl
from typing import Final, final

from causalcast.any_node import Since
from causalcast.clients import protocol
from causalcast.clients.admission import ALIVE_EVERY, HELLO_BYTES, HELLO_WITHIN, Admission
from causalcast.clients.http_carriers import EventStream, OneAnswer
from causalcast.clients.http_request import HttpRequest, answer, head_of, next_request
from causalcast.clients.position_token import SENT, merged, past_token, position_in
from causalcast.clients.protocol import Ack, Position, Published, Refusal, Reply, Subscribe
from causalcast.clients.session import SENT_WITHIN, Allowances, Ended, Refused
from causalcast.errors import NodeError, WireError
from causalcast.limits import Limit
from causalcast.runtime.links.address_book import Address, why_not_listening
from causalcast.runtime.security.client_token import ClientPass

REMEMBERED: Final = Limit(
    "clients.http_door.remembered",
    1000,
    least=1,
    most=1 << 20,
    unit="names",
    about="clients whose requests are counted over several connections",
)
STATUS: Final = {
    protocol.BAD_FRAME: "400 Bad Request",
    protocol.NO_TOKEN: "401 Unauthorized",
    protocol.NOT_ALLOWED: "403 Forbidden",
    protocol.NO_GROUP: "404 Not Found",
    protocol.TOO_SLOW: "408 Request Timeout",
    protocol.KEY_USED: "409 Conflict",
    protocol.GAP: "410 Gone",
    protocol.ELSEWHERE: "421 Misdirected Request",
    protocol.REFUSED: "422 Unprocessable Content",
    protocol.TOO_MANY: "429 Too Many Requests",
    protocol.NOT_YET: "503 Service Unavailable",
    protocol.STOPPING: "503 Service Unavailable",
}
PAST_HEADER: Final = "Causalcast-Past"
ASKED: Final = (
    protocol.Publish,
    protocol.ListGroups,
    protocol.Presence,
    Ack,
    protocol.CreateGroup,
    protocol.RemoveGroup,
)
LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


@final
class HttpDoor:
    """The server, and the streams that are read."""

    def __init__(
        self,
        admission: Admission,
        address: Address,
        origins: list[str],
        context: ssl.SSLContext | None,
    ) -> None:
        self._admission = admission
        self._address = address
        self._origins = origins
        self._context = context
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self._streams: dict[str, EventStream] = {}
        self._allowances: collections.OrderedDict[str, Allowances] = collections.OrderedDict()

    async def start(self) -> None:
        """Listen; NodeError where somebody else has the address."""
        try:
            self._server = await asyncio.start_server(
                self._serve,
                self._address.host,
                self._address.port,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HELLO_WITHIN.value,
                limit=HELLO_BYTES.value,
            )
        except OSError as error:
            raise NodeError(why_not_listening(self._address, error, "[clients] http")) from None

    async def close(self) -> None:
        """Let everybody go: the node stops."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for stream in list(self._streams.values()):
            await stream.end(Ended(protocol.STOPPING, "node stops"))
        tasks = [task for task in self._open if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # One connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._admission.lets_in(writer):
            writer.transport.abort()
            return
        me = asyncio.current_task()
        self._open[me] = writer
        try:
            patience = HELLO_WITHIN.value
            while True:
                async with asyncio.timeout(patience):
                    request = await next_request(reader)
                if request is None or not await self._answer(request, reader, writer):
                    break
                patience = ALIVE_EVERY.value
        except WireError as error:
            await self._refuse(writer, Ended(protocol.BAD_FRAME, str(error)), {})
        except TimeoutError:
            self._admission.count(protocol.TOO_SLOW)
        except (OSError, EOFError):
            pass  # it has gone
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
        finally:
            del self._open[me]
            self._admission.forget_connection(writer)
            writer.close()

    async def _answer(
        self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; whether the connection may bring another."""
        headers: dict[str, str] = {}
        try:
            headers = self._check_origin(request)
            if request.method == "OPTIONS":
                writer.write(head_of("204 No Content", headers | {"Content-Length": "0"}))
                await writer.drain()
                return request.goes_on
            if (request.method, request.path) not in (("POST", "/v1/ask"), ("GET", "/v1/messages")):
                raise Refused(
                    protocol.NO_GROUP, "there are POST /v1/ask and GET /v1/messages, nothing else"
                )
            holder = self._admission.holder(_token_of(request), request.value("name"))
            past = self._past_of(request)
            if request.method == "GET":
                await self._admission.wait_for_past(past)
                await self._stream(request, reader, writer, holder, headers)
                return False
            frame = await self._body(request, reader)
            await self._admission.wait_for_past(past)
            await self._ask(frame, request, writer, holder, past, headers)
            return request.goes_on
        except Ended as ended:
            await self._refuse(writer, ended, headers)
        except Refused as refused:
            refusal = Refusal(0, refused.code, str(refused), refused.group)
            await self._write(writer, refusal, headers | {"Connection": "close"})
        except NodeError as error:  # the node has stopped
            await self._refuse(writer, Ended(protocol.STOPPING, str(error)), headers)
        return False

    def _check_origin(self, request: HttpRequest) -> dict[str, str]:
        """What a page in a browser is told; Ended if it may not come in."""
        origin = request.header("origin")
        if origin and origin not in self._origins:
            raise Ended(protocol.NO_TOKEN, "pages of this origin may not come in (origins)")
        host = re.sub(r":[0-9]+$", "", request.header("host"))
        if self._admission.tls is None and host not in LOOPBACK:
            # A page can let its own name lead to this machine.
            raise Ended(protocol.NO_TOKEN, "without tokens the door is for localhost alone")
        if not origin:
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": f"Authorization, Content-Type, {PAST_HEADER}",
            "Access-Control-Expose-Headers": PAST_HEADER,
            "Vary": "Origin",
        }

    def _past_of(self, request: HttpRequest) -> Position:
        """All that it says it has seen or published."""
        said = (
            request.header(PAST_HEADER.lower()),
            request.value("past"),
            request.header("last-event-id"),
            request.value("after"),
        )
        return merged(*(position_in(token)[1] for token in said if token))

    async def _body(self, request: HttpRequest, reader: asyncio.StreamReader) -> str | bytes:
        size = request.body_bytes()
        if size > self._admission.frame_bytes:
            self._admission.count("too_large")
            raise Refused(protocol.REFUSED, f"a body of {size} bytes is too large")
        async with asyncio.timeout(SENT_WITHIN.value):
            body = await reader.readexactly(size)
        if request.header("content-type").partition(";")[0] == "application/octet-stream":
            return body
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise WireError("expected JSON, or a frame as application/octet-stream") from None

    # What is asked for

    async def _ask(
        self,
        frame: str | bytes,
        request: HttpRequest,
        writer: asyncio.StreamWriter,
        holder: ClientPass,
        past: Position,
        headers: dict[str, str],
    ) -> None:
        asked, _ = protocol.decode_request(frame)
        if not isinstance(asked, ASKED):
            raise WireError(
                "expected publish, ack, groups, create_group, remove_group or presence; GET "
                "/v1/messages to read"
            )
        allowances = self._allowances_of(holder.name)
        if isinstance(asked, Ack):
            await asyncio.sleep(allowances.pause(len(frame)))
            self._acknowledge(request.value("stream"), holder, asked)
            await self._write(writer, protocol.Done(0), headers)
            return
        carrier = OneAnswer(frame)

        async def hang_up(ended: Ended) -> None:
            await carrier.close()

        with self._admission.session(carrier, holder, False, hang_up, allowances) as session:
            await session.run()
        if carrier.reply is None:
            raise Ended(protocol.NO_TOKEN, "the token is not believed any more")
        if isinstance(asked, protocol.Publish) and isinstance(carrier.reply, Published):
            protocol.note(past, asked.group, protocol.id_named(carrier.reply.message))
        await self._write(writer, carrier.reply, headers | {PAST_HEADER: past_token(past)})

    def _acknowledge(self, stream: str, holder: ClientPass, ack: Ack) -> None:
        found = self._streams.get(stream)
        if found is None or found.session.holder.name != holder.name:
            raise Refused(protocol.NO_GROUP, "no such stream is read here; give ?stream=…")
        found.session.acknowledge(ack.messages)

    async def _stream(
        self,
        request: HttpRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        holder: ClientPass,
        headers: dict[str, str],
    ) -> None:
        stream = EventStream(writer, _subscription(request), headers)
        with self._admission.session(stream, holder, False, stream.end) as session:
            stream.session = session
            self._streams[stream.id] = stream
            tasks: list[asyncio.Task[object]] = [
                asyncio.create_task(session.run()),
                asyncio.create_task(reader.read(1)),  # it says nothing more: this is its end
                asyncio.create_task(stream.beat(ALIVE_EVERY.value)),
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            except Ended as ended:
                if not stream.has_begun:
                    raise
                self._admission.count(ended.code)
                await stream.end(ended)
                writer.transport.abort()  # whoever does not read would keep it open
            finally:
                del self._streams[stream.id]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _allowances_of(self, name: str) -> Allowances:
        """Shared by all requests of one name, whatever connections bring them."""
        allowances = self._allowances.setdefault(name, Allowances())
        self._allowances.move_to_end(name)
        while len(self._allowances) > REMEMBERED.value:
            self._allowances.popitem(last=False)
        return allowances

    # What is answered

    async def _refuse(
        self, writer: asyncio.StreamWriter, ended: Ended, headers: dict[str, str]
    ) -> None:
        self._admission.count(ended.code)
        refusal = Refusal(0, ended.code, str(ended))
        with contextlib.suppress(OSError, TimeoutError):
            await self._write(writer, refusal, headers | {"Connection": "close"})

    async def _write(
        self, writer: asyncio.StreamWriter, reply: Reply, headers: dict[str, str]
    ) -> None:
        status = STATUS[reply.code] if isinstance(reply, Refusal) else "200 OK"
        writer.write(answer(status, protocol.encode(reply).encode(), headers))
        async with asyncio.timeout(SENT_WITHIN.value):
            await writer.drain()


def _token_of(request: HttpRequest) -> str:
    """In a header; pages that use EventSource can give it in the address only."""
    kind, _, token = request.header("authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else request.value("token")


def _subscription(request: HttpRequest) -> Subscribe:
    """What the address of a stream asks for."""
    groups = request.values("group")
    if not groups:
        raise WireError("expected groups: /v1/messages?group=chat&group=doc/*")
    window = request.value("window") or "0"
    if not window.isascii() or not window.isdecimal() or len(window) > 9:
        raise WireError("window: expected a number of messages")
    said = request.value("since") or "now"
    if said not in ("now", "kept"):
        raise WireError("since: expected now or kept")
    since: Since = "kept" if said == "kept" else "now"
    after = request.header("last-event-id") or request.value("after")
    if after and not after.startswith(SENT):
        raise WireError("after: expected the id of an event")
    log, seen = position_in(after) if after else ("", {})
    return Subscribe(1, groups, seen, log, since, int(window))
