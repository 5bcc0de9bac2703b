"""Writes docs/clients.openapi.json: the door over HTTP for tools that read OpenAPI 3.1.

    python scripts/clients_openapi.py

Requests, answers and statuses come from `causalcast.clients`, so the file cannot say anything else;
a test looks that it is the one this makes.
"""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from causalcast.clients.http_door import ASKED, PAST_HEADER, STATUS
from causalcast.clients.protocol import VERSION, Done, GroupList, Present, Published, Refusal

PLACE = Path(__file__).parent.parent / "docs" / "clients.openapi.json"
ANSWERS = (Published, GroupList, Present, Done)


def document() -> str:
    """The whole file."""
    _, schemas = msgspec.json.schema_components(
        [*ASKED, *ANSWERS, Refusal], ref_template="#/components/schemas/{name}"
    )
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "causalcast clients over HTTP",
            "version": f"{VERSION}.0.0",
            "description": "The door of a causalcast node for who cannot use WebSocket.",
        },
        "servers": [{"url": "https://localhost:7501", "description": "[clients] http"}],
        "security": [{"token": []}, {"token_in_address": []}],
        "paths": {"/v1/ask": {"post": _ask()}, "/v1/messages": {"get": _messages()}},
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "token_in_address": {"type": "apiKey", "in": "query", "name": "token"},
            },
        },
    }
    return json.dumps(made, indent=2) + "\n"


def _ask() -> dict[str, Any]:
    return {
        "summary": "One request, and the answer to it.",
        "parameters": [
            _parameter("header", PAST_HEADER, "What the client has seen or published anywhere."),
            _parameter("query", "past", "The same, in addition."),
            _parameter("query", "stream", "With ack: whose messages are acknowledged."),
            _parameter("query", "name", "Who this is, where there are no tokens."),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _one_of(ASKED)},
                "application/octet-stream": {
                    "schema": {"type": "string", "format": "binary"},
                },
            },
        },
        "responses": {
            "200": {
                "description": "It was done.",
                "headers": {PAST_HEADER: {"schema": {"type": "string"}}},
                "content": {"application/json": {"schema": _one_of(ANSWERS)}},
            },
            **_refusals(),
        },
    }


def _messages() -> dict[str, Any]:
    return {
        "summary": "Messages of groups as server-sent events, in causal order.",
        "parameters": [
            {
                **_parameter("query", "group", "A name, or a prefix such as doc/*."),
                "required": True,
                "schema": {"type": "array", "items": {"type": "string"}},
            },
            _parameter("query", "since", "now (if nothing is said) or kept."),
            _parameter("query", "window", "So many at once without acknowledgement."),
            _parameter("query", "after", "The id of the last event, to go on behind it."),
            _parameter("header", "Last-Event-ID", "The same, as browsers say it."),
            _parameter("query", "past", "What the client has seen or published anywhere."),
            _parameter("query", "name", "Who this is, where there are no tokens."),
        ],
        "responses": {
            "200": {
                "description": "Events: stream, subscribed, message, refusal.",
                "headers": {"Causalcast-Stream": {"schema": {"type": "string"}}},
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **_refusals(),
        },
    }


def _parameter(where: Literal["query", "header"], name: str, about: str) -> dict[str, Any]:
    return {"in": where, "name": name, "description": about, "schema": {"type": "string"}}


def _one_of(types: tuple[type, ...]) -> dict[str, Any]:
    return {"oneOf": [_named(one) for one in types]}


def _named(one: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{one.__name__}"}


def _refusals() -> dict[str, Any]:
    codes: dict[str, list[str]] = {}
    for code, status in STATUS.items():
        codes.setdefault(status.split()[0], []).append(code)
    content = {"application/json": {"schema": _named(Refusal)}}
    return {
        status: {"description": ", ".join(names), "content": content}
        for status, names in sorted(codes.items())
    }


if __name__ == "__main__":
    PLACE.write_text(document())
