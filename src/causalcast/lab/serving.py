"""The lab over HTTP on this machine: the files of the page, and the engine in a process of its own.

An edited protocol is code that runs here. So only who has the token of the address that was printed
can ask, and only on this machine: no other page in the browser has it.
"""

import contextlib
import json
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Final

from causalcast.errors import ConfigError
from causalcast.lab.page_server import PageHandler, PageServer

LONGEST_QUESTION: Final = 4 << 20
SECONDS: Final = 60.0  # for one answer
POLICY: Final = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; frame-ancestors 'none'"
)


class EngineProcess:
    """The engine in a process, begun anew when it was stopped or took too long."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()  # one question at a time
        self._process: subprocess.Popen[str] | None = None

    def ask(self, text: str) -> str:
        """The answer to one question."""
        line = json.dumps(json.loads(text))  # one line
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(line + "\n")
                process.stdin.flush()
                ready, _, _ = select.select([process.stdout], [], [], self._seconds)
                answer = process.stdout.readline() if ready else ""
            except (BrokenPipeError, ValueError):
                answer = ""
                ready = [process.stdout]
            if answer:
                return answer
            self.stop()
            if ready:
                return json.dumps({"error": "the engine was stopped"})
            return json.dumps({"error": f"no answer within {self._seconds:g} s: stopped"})

    def stop(self) -> None:
        """End the process, whatever it does; the next question begins another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "causalcast.lab.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process


class LabServer(PageServer):
    """Serves files; questions go to an engine where there is one."""

    def __init__(self, files: dict[str, bytes], engine: EngineProcess | None, port: int) -> None:
        self.files = files
        self.engine = engine
        token = secrets.token_urlsafe(18) if engine is not None else ""
        try:
            super().__init__("127.0.0.1", port, token, _handler_of(self))
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}; choose another --port") from None

    @property
    def address(self) -> str:
        """What to open in a browser."""
        asks = f"?token={self.token}" if self.token else ""
        return f"http://127.0.0.1:{self.port}/{asks}"

    def let_go(self) -> None:
        if self.engine is not None:
            self.engine.stop()


def _handler_of(server: LabServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(PageHandler):
        """One request."""

        policy = POLICY
        caching = "no-cache"

        def do_GET(self) -> None:  # noqa: N802 - Python's name
            if self._is_meant_for_us():
                self.answer_with_file(server.files, self.path.partition("?")[0])
            else:
                self.answer(421, b"not the name of this server", "txt")

        def do_POST(self) -> None:  # noqa: N802 - Python's name
            length = int(self.headers.get("Content-Length") or 0)
            if length > LONGEST_QUESTION:
                self.close_connection = True
                self.answer(413, b"too long a question", "txt")
                return
            text = self.rfile.read(length).decode(errors="replace")
            if not self._is_meant_for_us():
                self.answer(421, b"not the name of this server", "txt")
                return
            given = self.headers.get("X-Lab-Token", "")
            if server.engine is None or not server.is_token(given):
                self.answer(403, b"open the whole address that `causalcast lab` printed", "txt")
            elif self.path == "/stop":
                server.engine.stop()
                self.answer(200, b"{}", "json")
            elif self.path == "/ask":
                try:
                    answer = server.engine.ask(text)
                except json.JSONDecodeError:
                    self.answer(400, b"not JSON", "txt")
                else:
                    self.answer(200, answer.encode(), "json")
            else:
                self.answer(404, b"no such file", "txt")

        def _is_meant_for_us(self) -> bool:
            """By its name: a foreign name that leads here is an attack of another page."""
            names = (f"127.0.0.1:{server.port}", f"localhost:{server.port}")
            return self.headers.get("Host", "") in names

    return Handler
