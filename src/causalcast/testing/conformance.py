"""The tests every protocol must pass, derived from its SPEC.

    from causalcast.testing.conformance import Conformance

    def test_my_protocol():
        Conformance("./my_protocol.py").check_all(seeds=50)

or, for one test per promise, see `tests/conformance` of this project.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

import msgspec

from causalcast.core.message import Message, Publication
from causalcast.errors import WireError
from causalcast.registry import find_protocol
from causalcast.swarm.campaign import Plan, try_seed
from causalcast.trace.kinds import GUARANTEES, WEAKER_FORMS
from causalcast.trace.run_folder import Run
from causalcast.wire.codec import Codec


class Conformance:
    """One protocol under test, by name or by the path of its file."""

    def __init__(
        self, protocol: str, options: Mapping[str, Any] | None = None, overlay: str = ""
    ) -> None:
        """`options` are the protocol's; `overlay` narrows what is drawn (`tree` or `mesh`)."""
        self.spec = find_protocol(protocol)
        self.plan = Plan(protocol, dict(options or {}), overlay)

    def check_all(self, seeds: int = 50) -> None:
        """Everything at once."""
        self.check_spec()
        self.check_messages()
        self.check_determinism(range(min(seeds, 3)))
        self.check_promises(range(seeds))

    def check_spec(self) -> None:
        """The SPEC speaks of things that exist."""
        spec = self.spec
        _require(bool(spec.summary), "a SPEC needs a summary: one line for people")
        for guarantee in spec.guarantees:
            known = guarantee in GUARANTEES or guarantee in WEAKER_FORMS
            _require(known, f"{guarantee!r} is no guarantee; there are {', '.join(GUARANTEES)}")
        names = [option.name for option in spec.options]
        _require(len(set(names)) == len(names), "two options have the same name")
        for option in spec.options:
            _require(bool(option.meaning), f"option {option.name} needs a meaning")

    def check_messages(self) -> None:
        """Declared fields are the constructor's, and every message survives the wire."""
        codec = Codec([[], [], self.spec.messages])
        for message_class in self.spec.messages:
            message = example_of(message_class, self.spec.messages)
            encoded = codec.encode(message)
            layer, decoded = codec.decode(encoded)
            same = layer == 2 and repr(decoded) == repr(message)
            _require(same, f"{message!r} became {decoded!r}")
            _require(codec.encode(decoded) == encoded, f"{message!r} has two wire forms")
            _check_refusal(codec, encoded)

    def check_promises(self, seeds: Iterable[int]) -> None:
        """Under faults within the promise, random or hostile, everything promised is kept."""
        for seed in seeds:
            self.check_seed(seed)

    def check_seed(self, seed: int) -> Run:
        """One random scenario, or for an odd seed one run of the adversary; its run comes back."""
        trial = try_seed(self.plan, seed)
        for problem in trial.problems:
            repeat = self.plan.repeat(seed)
            raise AssertionError(f"{problem.property}: {problem.detail}; again: {repeat}")
        assert trial.run is not None
        return trial.run

    def check_determinism(self, seeds: Iterable[int]) -> None:
        """The same seed twice leaves the same trace."""
        for seed in seeds:
            one, other = (try_seed(self.plan, seed, "full").run for _ in range(2))
            assert one is not None and other is not None
            same = one.header == other.header and one.events.equals(other.events)
            _require(same, f"seed {seed} gave two different traces")


def _require(holds: bool, otherwise: str) -> None:
    """Fail unless it holds; no assert statement, which `python -O` leaves out."""
    if not holds:
        raise AssertionError(otherwise)


def example_of(message_class: type[Message], others: Iterable[type[Message]]) -> Message:
    """A message of a class, every field filled with something that is not its default."""
    kinds = message_class.wire.fields.values()
    fields: list[Any] = [_example(kind, message_class, list(others)) for kind in kinds]
    return message_class(*fields)


def _example(kind: Any, inside: type[Message], others: list[type[Message]]) -> Any:
    if kind is Publication:
        return Publication(5 << 32 | 7, 3, b"body")  # type: ignore[arg-type]
    if kind is Message:
        plain = [c for c in others if c is not inside and Message not in c.wire.fields.values()]
        return example_of(plain[0], others)
    supertype = getattr(kind, "__supertype__", None)
    if supertype is not None:
        return 1 << 32 | 9 if kind.__name__ == "MessageId" else 9
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return [_example(arguments[0], inside, others)]
    if origin is dict:
        key, value = (_example(argument, inside, others) for argument in arguments)
        return {key: value}
    plain_values: dict[Any, Any] = {int: 12, bool: True, str: "text", bytes: b"bytes", float: 1.5}
    return plain_values[kind]


def _check_refusal(codec: Codec, encoded: bytes) -> None:
    """Cut short or of the wrong shape, it is refused, not half understood."""
    for damaged in (encoded[:-1], encoded + b"\x00", msgspec.msgpack.encode(["no", "message"])):
        try:
            codec.decode(damaged)
        except WireError:
            continue
        raise AssertionError(f"{damaged!r} was taken for a message")
