"""How messages become tuples and back, from what each message class declares. Never compiled.

A message is an array: its index in the node's list of messages (layer by layer, in the order of the
SPECs), then its fields. A message id is two fields, its origin and its number; a publication is
four: origin, number, group, body. A large clock is packed (`packed_clock.py`). The code that moves
fields is written out once per class: it costs a third of a loop over `getattr`.

How tuples become bytes is left to codecs: `codec.py` for real nodes, `plain_codec.py` where there
is no msgspec.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, get_args, get_origin

from causalcast.core.ids import NUMBER_MASK, GroupId, MessageId, NodeId
from causalcast.core.message import Envelope, Message, Publication
from causalcast.wire.framing import LENGTH_BYTES
from causalcast.wire.packed_clock import packed_clock, unpacked_clock

WIRE_VERSION: Final = 5
CLOCK_KIND: Final = dict[NodeId, int]

# What stands in a slot of the array, where it is not the declared type itself.
NODE: Final = "node"
NUMBER: Final = "number"
BODY: Final = "body"
BODIES: Final = "bodies"  # of messages that travel as one
MESSAGE: Final = "message"  # a message inside a message
MESSAGES: Final = "messages"
PUBLICATIONS: Final = "publications"
CLOCK: Final = "clock"  # as a map, or packed


class Description:
    """What a trace says of a message on its way: which publication it carries, and sizes."""

    __slots__ = ("clock_entries", "group", "message", "metadata_bytes", "name", "payload_bytes")

    def __init__(
        self,
        name: str,
        message: int,
        group: int,
        payload_bytes: int,
        metadata_bytes: int,
        clock_entries: int = -1,
    ) -> None:
        self.name = name
        self.message = message
        self.group = group
        self.payload_bytes = payload_bytes
        self.metadata_bytes = metadata_bytes  # framing included
        self.clock_entries = clock_entries  # of all vector clocks in it; -1 if it has no clock


class Form:
    """How one class of messages looks as a tuple."""

    def __init__(self, layer: int, index: int, message_class: type[Message]) -> None:
        self.layer = layer
        self.index = index
        self.message_class = message_class
        self.fields = [Field(name, kind) for name, kind in message_class.wire.fields.items()]
        self.slots = [slot for field in self.fields for slot in field.slots]
        self.out = [part for field in self.fields for part in field.out]
        self.arguments = ", ".join(field.back for field in self.fields)
        carried = ", ".join(field.publications for field in self.fields if field.publications)
        if issubclass(message_class, Envelope):
            carried = "*m.carried()"
        self.carried = carried


class Forms(ABC):
    """The messages of one kind of node: their tuples, and what a trace says of them."""

    def __init__(self, layers: Sequence[Sequence[type[Message]]]) -> None:
        self.to_tuple: dict[type[Message], Callable[[Any], tuple[Any, ...]]] = {}
        self.forms: list[Form] = []
        self._publications: dict[type[Message], Callable[[Any], list[Publication]]] = {}
        self._clocks: dict[type[Message], Callable[[Any], list[int]]] = {}
        self._nodes: dict[type[Message], Callable[[Any], list[NodeId]]] = {}
        self._spoken_of: dict[type[Message], Callable[[Any], Iterable[int]]] = {}
        self._groups: dict[type[Message], Callable[[Any], Iterable[int]]] = {}
        self._gone: dict[type[Message], Callable[[Any], Iterable[int]]] = {}
        self._names: list[str] = []
        for layer, classes in enumerate(layers):
            for message_class in classes:
                form = Form(layer, len(self.forms), message_class)
                self.forms.append(form)
                self._add(form)

    @abstractmethod
    def encode(self, message: Message) -> bytes:
        """The bytes of one message."""

    @abstractmethod
    def decode(self, data: Any) -> tuple[int, Message]:
        """The layer and the message."""

    def scope(self, form: Form) -> dict[str, Any]:
        """The names that the code of a form uses."""
        return {
            "make": form.message_class,
            "Publication": Publication,
            "forms": self,
            "packed_clock": packed_clock,
            "unpacked_clock": unpacked_clock,
        }

    def describe(self, message: Message, size: int) -> Description:
        """What the trace says of a message that took `size` bytes."""
        publications = self._publications[type(message)](message)
        payload = sum(len(publication.body) for publication in publications)
        first = publications[0] if publications else None
        return Description(
            type(message).wire.name,
            -1 if first is None else first.id,
            -1 if first is None else first.group,
            payload,
            LENGTH_BYTES + size - payload,
            self._clock_entries(message),
        )

    def _clock_entries(self, message: Message) -> int:
        sizes = self.clocks_of(message)
        return sum(sizes) if sizes else -1

    def nodes_named(self, message: Message) -> list[NodeId]:
        """The nodes that a message names in its fields, by themselves or in lists."""
        return self._nodes[type(message)](message)

    def nodes_spoken_of(self, message: Message) -> Iterable[int]:
        """Every node that a message speaks of, wherever in it: in clocks, lists and ids, and in
        messages inside; those of its publications aside."""
        return self._spoken_of[type(message)](message)

    def groups_spoken_of(self, message: Message) -> Iterable[int]:
        """The same for groups."""
        return self._groups[type(message)](message)

    def declared_gone(self, message: Message) -> Iterable[int]:
        """The nodes of which a message says that they never come back."""
        return self._gone[type(message)](message)

    def digest(self, *facts: object) -> str:
        """A short name for the wire version, the list of messages, and further `facts`."""
        text = repr((WIRE_VERSION, self._names, facts))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    # What the code of messages inside messages calls

    def tuple_of(self, message: Message) -> tuple[Any, ...]:
        """The tuple of a message."""
        return self.to_tuple[type(message)](message)

    def message_of(self, inner: Any) -> Message:
        """A message inside a message."""
        return self.decode(inner)[1]

    def publications(self, message: Message) -> list[Publication]:
        """The publications that a message carries."""
        return self._publications[type(message)](message)

    def clocks_of(self, message: Message) -> list[int]:
        """The sizes of the vector clocks in a message."""
        return self._clocks[type(message)](message)

    # Making the glue of one class

    def _add(self, form: Form) -> None:
        scope = self.scope(form)
        kind, fields = form.message_class, form.fields
        parts = ", ".join([str(form.index), *form.out])
        self.to_tuple[kind] = eval(f"lambda m: ({parts},)", scope)
        self._publications[kind] = eval(f"lambda m: [{form.carried}]", scope)
        clocks = " + ".join(field.clocks for field in fields if field.clocks)
        self._clocks[kind] = eval(f"lambda m: {clocks or '[]'}", scope)
        named = " + ".join(field.nodes for field in fields if field.nodes)
        self._nodes[kind] = eval(f"lambda m: {named or '[]'}", scope)
        for wanted, table, inner in (
            (NodeId, self._spoken_of, "nodes_spoken_of"),
            (GroupId, self._groups, "groups_spoken_of"),
        ):
            found = [_all_of(wanted, f"m.{f.name}", f.kind, inner) for f in fields]
            table[kind] = eval(f"lambda m: {_joined(found)}", scope)
        gone = [_all_of(None, f"m.{f.name}", f.kind, "declared_gone") for f in fields]
        if kind.names_gone:
            gone.append(f"(m.{kind.names_gone},)")
        self._gone[kind] = eval(f"lambda m: {_joined(gone)}", scope)
        shape = ", ".join(f"{name}: {spelled(what)}" for name, what in kind.wire.fields.items())
        self._names.append(f"{form.layer} {kind.wire.name}({shape})")


class Field:
    """How one declared field looks on the wire, and the code that moves it."""

    def __init__(self, name: str, kind: Any) -> None:
        self.name = name
        self.kind = kind
        self.publications = ""  # the publications it carries, as items of a list
        self.clocks = ""  # expression for the sizes of the vector clocks it carries
        self.nodes = ""  # expression for the nodes it names
        # Instead, where messages travel as one: the first of them.
        self.run_slots: list[tuple[str, Any]] = []
        self.run_back = ""
        if kind is Publication:
            o, n, g, b = (f"{name}_{part}" for part in ("origin", "number", "group", "body"))
            self.slots: list[tuple[str, Any]] = [(o, NODE), (n, NUMBER), (g, NODE), (b, BODY)]
            self.run_slots = [*self.slots[:3], (b, BODIES)]
            self.run_back = f"Publication(first_of(s.{o}, s.{n}, s.{b}), s.{g}, s.{b}[0])"
            self.out = [
                f"(p := m.{name}).id >> 32",
                f"p.id & {NUMBER_MASK}",
                "p.group",
                "p.body",
            ]
            self.back = f"Publication(s.{o} << 32 | s.{n}, s.{g}, s.{b})"
            self.publications = f"m.{name}"
        elif kind is MessageId:
            o, n = f"{name}_origin", f"{name}_number"
            self.slots = [(o, NODE), (n, NUMBER)]
            self.out = [f"m.{name} >> 32", f"m.{name} & {NUMBER_MASK}"]
            self.back = f"s.{o} << 32 | s.{n}"
        elif kind is Message:
            self.slots = [(name, MESSAGE)]
            self.out = [f"forms.tuple_of(m.{name})"]
            self.back = f"forms.message_of(s.{name})"
            self.publications = f"*forms.publications(m.{name})"
            self.clocks = f"forms.clocks_of(m.{name})"
        elif get_origin(kind) is list and get_args(kind)[0] is Message:
            self.slots = [(name, MESSAGES)]
            self.out = [f"[forms.tuple_of(x) for x in m.{name}]"]
            self.back = f"[forms.message_of(x) for x in s.{name}]"
            self.publications = f"*(p for x in m.{name} for p in forms.publications(x))"
            self.clocks = f"[c for x in m.{name} for c in forms.clocks_of(x)]"
        elif get_origin(kind) is list and get_args(kind)[0] is Publication:
            self.slots = [(name, PUBLICATIONS)]
            self.out = [f"[(p.id >> 32, p.id & {NUMBER_MASK}, p.group, p.body) for p in m.{name}]"]
            self.back = f"[Publication(o << 32 | n, g, b) for o, n, g, b in s.{name}]"
            self.publications = f"*m.{name}"
        elif kind == CLOCK_KIND:
            self.slots = [(name, CLOCK)]
            self.out = [f"packed_clock(m.{name})"]
            self.back = f"unpacked_clock(s.{name})"
            self.clocks = f"[len(m.{name})]"
        else:
            self.slots = [(name, kind)]
            self.out = [f"m.{name}"]
            self.back = f"s.{name}"
            if get_origin(kind) is dict and get_args(kind)[1] == CLOCK_KIND:
                self.clocks = f"[sum(map(len, m.{name}.values()))]"  # one per group, say
            if kind is NodeId:
                self.nodes = f"[m.{name}]"
            elif get_origin(kind) is list and get_args(kind)[0] is NodeId:
                self.nodes = f"m.{name}"


def _all_of(wanted: Any, value: str, kind: Any, inner: str, depth: int = 0) -> str:
    """An expression for everything of one kind of id in a value of a declared type; empty if there
    can be none. `inner`: what `Forms` calls this for messages inside messages."""
    container, arguments = get_origin(kind), get_args(kind)
    if kind is wanted:
        return f"({value},)"
    if kind is MessageId and wanted is NodeId:
        return f"({value} >> 32,)"
    if kind is Message:
        return f"forms.{inner}({value})"
    if container is list:
        return value if arguments[0] is wanted else _each(wanted, value, arguments[0], inner, depth)
    if container is dict:
        keys = value if arguments[0] is wanted else _each(wanted, value, arguments[0], inner, depth)
        values = _each(wanted, f"{value}.values()", arguments[1], inner, depth)
        return _joined([keys, values]) if keys or values else ""
    if container is tuple:
        parts = [
            _all_of(wanted, f"{value}[{place}]", argument, inner, depth)
            for place, argument in enumerate(arguments)
        ]
        return _joined(parts) if any(parts) else ""
    return ""


def _joined(expressions: list[str]) -> str:
    """What all of these give, one after the other; those that are empty give nothing."""
    found = [expression for expression in expressions if expression]
    if len(found) < 2:
        return found[0] if found else "()"
    return f"[*{', *'.join(found)}]"


def _each(wanted: Any, values: str, kind: Any, inner: str, depth: int) -> str:
    """The same for every one of many values."""
    one = f"x{depth}"
    found = _all_of(wanted, one, kind, inner, depth + 1)
    return f"[y{depth} for {one} in {values} for y{depth} in {found}]" if found else ""


def spelled(kind: Any) -> str:
    """A declared type in words that are the same in every build: compiled code names no modules."""
    if get_origin(kind) is not None:
        inner = ", ".join(spelled(one) for one in get_args(kind))
        return f"{get_origin(kind).__name__}[{inner}]"
    return getattr(kind, "__name__", str(kind))
