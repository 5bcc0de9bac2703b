"""What a contact tells a newcomer is data: nothing of it is executed, nothing pasted into TOML."""

import errno
import json
import socket
import ssl
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from causalcast.core.ids import NodeId
from causalcast.errors import CausalcastError, ConfigError, NodeError
from causalcast.runtime.links.address_book import Address, why_not_listening
from causalcast.runtime.links.greeting import Greeting, first_greeting
from causalcast.runtime.node_config import NodeConfig
from causalcast.runtime.operating.joining import WayIn, newcomers_toml, why_no_answer
from causalcast.runtime.security.authority import Authority
from causalcast.runtime.security.join_token import make_token, read_token

CONTACT = Address("127.0.0.1", 7400)
FACTS = {
    "protocol": "cptcast",
    "options": "{}",
    "overlay": "hyparview",
    "overlay options": "{}",
    "detector": "link_loss",
    "body_bytes": "1048576",
    "groups": '["all"]',
}
PASTE = 'x"\n[storage]\npath = "/elsewhere"\n#'


def greeting(cluster: str = "demo", **facts: str) -> Greeting:
    return first_greeting(cluster, NodeId(1), 1, str(CONTACT), "", {**FACTS, **facts})


def toml_from(theirs: Greeting, groups: list[str] | None = None) -> str:
    listen = Address("127.0.0.1", 7401)
    chosen = ["all"] if groups is None else groups
    return newcomers_toml(
        *(theirs, WayIn(CONTACT), NodeId(9), listen, chosen, "", "messages"), tls=False
    )


def test_a_file_that_the_contact_names_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "was here"
    hostile = tmp_path / "hostile.py"
    hostile.write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    for fact in ("protocol", "overlay", "detector"):
        with pytest.raises(NodeError, match=r"hostile\.py.*a file"):
            toml_from(greeting(**{fact: str(hostile)}))
    assert not mark.exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"detector": PASTE},
        {"overlay": PASTE},
        {"options": json.dumps({"order": PASTE})},
        {"options": json.dumps({"log": [1, {"a": PASTE}]})},
        {"options": "[" * 100_000},
        {"overlay options": "no json"},
        {"groups": json.dumps({"all": 1})},
        {"groups": "[1]"},
        {"body_bytes": "1\n[storage]"},
        {"rights": json.dumps({"publish": {"all": PASTE}})},
        {"rights": json.dumps({PASTE: {"all": [1]}})},
        {"rights": json.dumps({"publish": {PASTE: [1]}})},
        {"rights": json.dumps({"publish": [1]})},
    ],
)
def test_facts_of_another_form_are_refused(facts: dict[str, str]) -> None:
    with pytest.raises(CausalcastError):
        toml_from(greeting(**facts))


@pytest.mark.parametrize(
    "name", [PASTE, 'we"ird', "é", "😀", "\x7f", "a.b", "back\\slash", "line\nline", "tab\t"]
)
def test_names_stay_names(name: str) -> None:
    rights = json.dumps({"publish": {name: [1]}})
    told = greeting(name, groups=json.dumps([name, "all"]), rights=rights)
    read = tomllib.loads(toml_from(told, [name]))
    assert read["cluster"]["name"] == name
    assert read["groups"] == {name: [9], "all": []}
    assert read["rights"] == {name: {"publish": [1]}}
    assert read["storage"] == {"path": "data"}


def test_a_group_without_the_right_to_it_is_named() -> None:
    rights = json.dumps({"subscribe": {"all": [1, 2]}})
    with pytest.raises(NodeError, match="node 9 has no right to be a member of 'all'"):
        toml_from(greeting(rights=rights))
    assert "subscribe" in toml_from(greeting(rights=rights), [])


def test_what_is_wrong_at_a_contact_is_said() -> None:
    def said(error: OSError) -> str:
        return why_no_answer(CONTACT, error, has_token=True)

    assert "of another cluster than this token" in said(ssl.SSLCertVerificationError("x"))
    assert "does not believe this token" in said(ssl.SSLError("tlsv1 alert"))
    assert "nobody listens at 127.0.0.1:7400" in said(ConnectionRefusedError())
    assert "nobody knows the name" in said(socket.gaierror(-2, "Name or service not known"))
    assert "127.0.0.1:7400 says nothing: is that the address of a node" in said(TimeoutError())
    assert "no way leads to 127.0.0.1:7400; check" in said(OSError(errno.EHOSTUNREACH, "No route"))


def test_what_keeps_a_node_from_listening_is_said() -> None:
    for number, words in (
        (errno.EADDRINUSE, "another process has it"),
        (errno.EADDRNOTAVAIL, "this machine has no such address"),
        (errno.EACCES, "ports below 1024"),
    ):
        error = OSError(number, "the system's words")
        assert words in why_not_listening(CONTACT, error, "[node] listen")


def test_a_token_that_lapsed_is_not_tried(tmp_path: Path) -> None:
    authority = Authority.found(tmp_path, "demo")
    token = make_token(authority, 1, 1, timedelta(seconds=-1))
    with pytest.raises(ConfigError, match=r"this token lapsed at .* ask for a new one"):
        read_token(token, tmp_path)


def test_options_that_differ_are_told(tmp_path: Path) -> None:
    options = json.dumps({"log": 77, "token_timeout": 5_000_000})
    text = toml_from(greeting(options=options))
    config = NodeConfig.parse(text, tmp_path)
    assert config.blueprint.protocol_options["log"] == 77
