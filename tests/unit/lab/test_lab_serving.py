"""The lab over HTTP: files for everybody here, answers only for who has the token."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from causalcast.errors import ConfigError
from causalcast.lab.serving import EngineProcess, LabServer

FILES = {"index.html": b"<p>hello", "engine.js": b"//"}


class Slow(EngineProcess):
    """Takes long over everything."""

    def __init__(self) -> None:
        super().__init__(0.3)
        self._seconds = 0.0


@pytest.fixture(scope="module")
def server() -> Iterator[LabServer]:
    made = LabServer(FILES, EngineProcess(), 0)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def fetch(
    server: LabServer, path: str, data: bytes | None = None, **headers: str
) -> tuple[int, bytes, str]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", data, names)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), ""


def test_files_have_their_types_and_there_are_no_others(server: LabServer) -> None:
    assert fetch(server, "/") == (200, b"<p>hello", "text/html; charset=utf-8")
    assert fetch(server, "/engine.js?x=1")[2] == "text/javascript; charset=utf-8"
    assert fetch(server, "/../setup.py")[0] == 404
    assert fetch(server, "/ask")[0] == 404


def test_only_who_has_the_token_is_answered(server: LabServer) -> None:
    question = json.dumps({"do": "sources", "protocol": "naive_flood"}).encode()
    assert fetch(server, "/ask", question)[0] == 403
    assert fetch(server, "/ask", question, X_Lab_Token="guess")[0] == 403
    assert fetch(server, "/ask", question, X_Lab_Token="gu\xe9ss")[0] == 403
    code, answer, _ = fetch(server, "/ask", question, X_Lab_Token=server.token)
    assert code == 200 and "protocols/naive_flood.py" in json.loads(answer)["files"]
    assert server.token in server.address


def test_a_foreign_name_that_leads_here_is_refused(server: LabServer) -> None:
    assert fetch(server, "/", Host="evil.example")[0] == 421
    told = fetch(server, "/ask", b"{}", Host="evil.example", X_Lab_Token=server.token)
    assert told[0] == 421


def test_what_is_no_question_is_refused(server: LabServer) -> None:
    assert fetch(server, "/ask", b"{", X_Lab_Token=server.token)[0] == 400
    assert fetch(server, "/else", b"{}", X_Lab_Token=server.token)[0] == 404


def test_an_engine_that_takes_too_long_is_stopped_and_begun_anew() -> None:
    engine = Slow()
    assert "no answer within" in json.loads(engine.ask('{"do": "catalogue"}'))["error"]
    engine._seconds = 60.0
    answer = json.loads(engine.ask('{"do": "sources", "protocol": "naive_flood"}'))
    assert "files" in answer
    engine.stop()


def test_a_port_that_is_taken_is_told(server: LabServer) -> None:
    with pytest.raises(ConfigError, match="choose another --port"):
        LabServer(FILES, None, server.port)
