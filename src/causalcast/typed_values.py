"""Values of one type as payloads: dataclasses, msgspec structs and pydantic models, as JSON.

A value is looked at as closely when it is published as when it is read: what others could not
decode is refused where it comes from.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast, get_args

import msgspec

from causalcast.errors import NodeError

T = TypeVar("T")
JSON: Final = "application/json"


class NotDecoded(ValueError):
    """A payload is no value of the type; says why."""


class ValueCodec(Generic[T]):
    """How values of one type are written and read."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._kinds = get_args(kind) or (kind,)  # of a union
        self.name = getattr(kind, "__name__", str(kind))
        self._write: Callable[[Any], bytes] = msgspec.json.encode
        if hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json"):
            model = cast(Any, kind)
            self._read: Callable[[bytes], T] = model.model_validate_json
            self._write = lambda value: value.model_dump_json().encode()
            return
        if not all(_is_described(one) for one in self._kinds):
            raise NodeError(
                f"type={self.name}: expected a dataclass, a msgspec.Struct or a pydantic model"
            )
        try:
            self._read = msgspec.json.Decoder(kind).decode
        except TypeError as error:
            raise NodeError(f"type={self.name} cannot be read from JSON: {error}") from None

    def encode(self, value: T) -> bytes:
        """The payload for a value; NodeError where nobody could read it as one."""
        if type(value) not in self._kinds:
            raise NodeError(f"expected a value of {self.name}, not {type(value).__name__}")
        try:
            payload = self._write(value)
            self._read(payload)
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            raise NodeError(
                f"this {self.name} could not be read by others, and was not published: {error}"
            ) from None
        return payload

    def decode(self, payload: bytes, content_type: str) -> T:
        """The value in a payload; NotDecoded if there is none."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in ("", JSON):
            raise NotDecoded(f"content type {content_type!r}, expected {JSON!r}")
        try:
            return self._read(payload)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise NotDecoded(f"no {self.name}: {error}") from None


def _is_described(kind: Any) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    )
