"""Writes docs/clients.asyncapi.json: the protocol of clients for tools that read AsyncAPI 3.

    python scripts/clients_asyncapi.py

Messages and their fields come from `causalcast.clients.protocol`, so the file cannot say anything
else; a test looks that it is the one this makes.
"""

import json
from pathlib import Path
from typing import Any, get_args

import msgspec

from causalcast.clients.protocol import SUBPROTOCOL, VERSION, Reply, Request

PLACE = Path(__file__).parent.parent / "docs" / "clients.asyncapi.json"


def document() -> str:
    """The whole file."""
    said, heard = get_args(Request), get_args(Reply)
    _, schemas = msgspec.json.schema_components(
        [*said, *heard], ref_template="#/components/schemas/{name}"
    )
    made = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "causalcast clients",
            "version": f"{VERSION}.0.0",
            "description": "The door of a causalcast node, over WebSocket. A text frame is one "
            "message as JSON. A binary frame has four bytes of length, the highest first, the "
            "message as JSON, and behind it the body, instead of `text` or `base64`.",
        },
        "servers": {
            "node": {
                "host": "localhost:7500",
                "protocol": "wss",
                "description": f"Any node with [clients] listen; subprotocol {SUBPROTOCOL}.",
            }
        },
        "channels": {
            "door": {
                "address": "/",
                "messages": {one.__name__: _named(one, "messages") for one in (*said, *heard)},
            }
        },
        "operations": {
            "say": _operation("receive", said),  # as the node sees it
            "hear": _operation("send", heard),
        },
        "components": {
            "messages": {one.__name__: _message(one) for one in (*said, *heard)},
            "schemas": schemas,
        },
    }
    return json.dumps(made, indent=2) + "\n"


def _operation(action: str, messages: tuple[type, ...]) -> dict[str, Any]:
    places = [{"$ref": f"#/channels/door/messages/{one.__name__}"} for one in messages]
    return {"action": action, "channel": {"$ref": "#/channels/door"}, "messages": places}


def _message(one: type) -> dict[str, Any]:
    return {"summary": one.__doc__, "payload": _named(one, "schemas")}


def _named(one: type, where: str) -> dict[str, str]:
    return {"$ref": f"#/components/{where}/{one.__name__}"}


if __name__ == "__main__":
    PLACE.write_text(document())
