"""Headers of copies on one link: what both ends already know of each other is not said again.

A header has the numbers a message was given on its way and the numbers it depends on. Both ends of
a link derive from the tree which numbers can stand in it, so names are places in lists; and both
remember what was said on this link before, so only what changed is written. The reader gets back
exactly what the writer froze: a header that came out newer would make a repeated message wait for
its own successors.

- Dependencies are written as differences from the greatest that were said so far (the *mirror*).
- The sender's own number for a node is always one more than the dependency on its last one, and the
  numbers of earlier issuers nearly always equal the dependency: only exceptions are written.
- Headers of a link are counted. A *whole* header starts over and needs nothing said before; the
  first of a link is whole, and so is every repetition. A reader that missed one cannot read those
  that build on it: it says so, and the writer starts over. Headers with count 0 stand alone.
"""

from typing import Final

from causalcast.core.ids import NodeId
from causalcast.parts.tree.neighbourhood import NOBODY, Neighbourhood, Pair
from causalcast.protocols.locamu.message_log import Standby
from causalcast.protocols.locamu.messages import Key
from causalcast.protocols.locamu.safe_path import Numbers

_ORIGIN_UNKNOWN: Final = 0
_ORIGIN_FIRST: Final = 1
_ORIGIN_NAMED: Final = 2
_EPOCH_FIRST: Final = 3  # the epoch stands before all this
_OF_ADMISSION: Final = 3  # parts of such a key
_MOST_BEYOND: Final = 100_000  # pairs; what a node keeps of its neighbourhood is far less
_SAME_SHAPE: Final = 0
_SAME_SHAPE_BUT: Final = 1
_LONGEST_NUMBER: Final = 700  # bits; the shape of a vector has one for each node near the target


class UnreadableHeader(Exception):
    """What came is no header of this link."""


class MissedHeader(Exception):
    """The header builds on one that did not arrive."""


class Header:
    """What a copy says beside its publication: the publisher where it is near, how many had joined
    its group (the epoch), the numbers the message was given on its way, and the numbers it depends
    on (0 is not said)."""

    def __init__(
        self, origin: NodeId, epoch: int, numbers: Numbers, needs: dict[Pair, int]
    ) -> None:
        self.origin = origin
        self.epoch = epoch
        self.numbers = numbers
        self.needs = needs
        self.names: list[tuple[Key, dict[NodeId, int]]] = []  # what else its sender numbered
        # Of a publisher's own copy, when it was read: what it would send to anybody.
        self.standby: Standby | None = None


class LinkPlan:
    """What can stand in a header from `source` to `target`; the same at both ends."""

    def __init__(
        self,
        around: Neighbourhood,
        source: NodeId,
        target: NodeId,
        reach: int,
        window: int,
        horizon: int,
        whole: bool = False,
    ) -> None:
        """`whole`: a publisher's own copies say all that they depend on, not only what is near
        their receiver."""
        self.around = around
        self.whole = whole
        self.source = source
        self.target = target
        self._reach = reach
        distance = around.distance
        side = around.hop(target, source)
        sight = max(window, horizon)
        self.seen_by_both = sorted(
            node
            for node in around.nodes()
            if distance(node, source) <= sight and distance(node, target) <= sight
        )
        near = [
            node
            for node in self.seen_by_both
            if distance(node, source) <= horizon and distance(node, target) <= horizon
        ]
        self.issuers = [
            node
            for node in self.seen_by_both
            if node != target
            and distance(node, target) <= window
            and around.hop(target, node) == side
        ]
        self.place = {issuer: place for place, issuer in enumerate(self.issuers)}
        self.pairs: list[Pair] = [
            (issuer, node)
            for issuer in near
            if issuer != target
            for node in near
            if node != source
            and node != issuer
            and distance(node, target) <= reach
            and distance(node, source) <= reach
            and distance(issuer, node) <= reach
        ]
        self.pair_place = {pair: place for place, pair in enumerate(self.pairs)}
        self.own_row = [node for issuer, node in self.pairs if issuer == source]
        self._numbered: dict[NodeId, list[NodeId]] = {}
        self._rows: dict[NodeId, list[tuple[NodeId, int]]] = {}

    def __getstate__(self) -> dict[str, object]:
        """For searches that compare states: a cache is no part of the state."""
        return {**self.__dict__, "_numbered": {}, "_rows": {}}

    def numbered_by(self, issuer: NodeId) -> list[NodeId]:
        """For whom an issuer's numbers are worth saying: those near the target, and the issuer's
        neighbour on the way there."""
        known = self._numbered.get(issuer)
        if known is None:
            distance = self.around.distance
            hop = self.around.hop(issuer, self.target)
            known = [
                node
                for node in self.seen_by_both
                if node == hop
                or (
                    node != issuer
                    and distance(issuer, node) <= self._reach
                    and distance(node, self.target) <= self._reach
                )
            ]
            self._numbered[issuer] = known
        return known

    def row(self, issuer: NodeId) -> list[tuple[NodeId, int]]:
        """The same nodes, each with the place of its pair; -1 if no dependency foretells its
        number."""
        known = self._rows.get(issuer)
        if known is None:
            places = self.pair_place
            known = [(node, places.get((issuer, node), -1)) for node in self.numbered_by(issuer)]
            self._rows[issuer] = known
        return known


class _Memory:
    """What was said on a link so far, kept alike at both ends."""

    def __init__(self, plan: LinkPlan) -> None:
        self.mirror = [0] * len(plan.pairs)
        self.beyond: dict[Pair, int] = {}  # the same for pairs that the plan does not have
        self.last: dict[Pair, int] = {}  # numbers that no dependency foretells
        self.shapes: dict[Pair, int] = {}  # (furthest issuer, issuer) -> whom it numbered, as bits

    def after(self, issuer: NodeId, node: NodeId) -> int:
        """The number of `issuer` for `node` that a header most likely has, if no dependency tells.
        Otherwise it is what the header depends on, and one more if its sender is the issuer."""
        return self.last.get((issuer, node), 0) + 1

    def remember(
        self, plan: LinkPlan, changed: list[int], needs: list[int], numbers: Numbers
    ) -> None:
        """A header was written or read, with other dependencies than the mirror in these places. Of
        vectors only the sender's own is put into the mirror: the others' run ahead of what the next
        header depends on."""
        mirror = self.mirror
        for place in changed:
            if needs[place] > mirror[place]:
                mirror[place] = needs[place]
        for issuer, vector in numbers.items():
            is_own = issuer == plan.source
            for node, place in plan.row(issuer):
                if place < 0:
                    if node in vector:
                        self.last[issuer, node] = vector[node]
                elif is_own and node in vector and vector[node] > mirror[place]:
                    mirror[place] = vector[node]


class HeaderWriter:
    """The sending end of a link."""

    def __init__(self, plan: LinkPlan) -> None:
        self.plan = plan
        self._memory = _Memory(plan)
        self._count = 0  # goes on when the writer starts over: a reader tells old from new by it
        self.starts_over = True

    def start_over(self) -> None:
        """Let the next header be whole."""
        self.starts_over = True

    def write(self, header: Header) -> bytes:
        """The next header of this link, as bytes."""
        self._count += 1
        into = bytearray()
        _put(into, self._count << 1 | self.starts_over)
        if self.starts_over:
            self._memory = _Memory(self.plan)
            self.starts_over = False
        self._put_all(into, header, self._memory)
        return bytes(into)

    def write_alone(self, header: Header) -> bytes:
        """A header that neither builds on others nor is built on."""
        into = bytearray()
        _put(into, 1)
        self._put_all(into, header, _Memory(self.plan))
        return bytes(into)

    def _put_all(self, into: bytearray, header: Header, memory: _Memory) -> None:
        plan = self.plan
        way = self._put_way(into, header)
        needs = [header.needs.get(pair, 0) for pair in plan.pairs]
        changed = self._put_needs(into, needs, memory.mirror)
        for issuer in way:
            if issuer in header.numbers:
                self._put_vector(into, way[0], issuer, header.numbers[issuer], needs, memory)
        if plan.whole and header.origin == plan.source:
            self._put_beyond(into, header, memory.beyond)
        if header.names:
            self._put_names(into, header.names, needs)
        memory.remember(plan, changed, needs, header.numbers)

    def _put_beyond(self, into: bytearray, header: Header, beyond: dict[Pair, int]) -> None:
        """What a publisher's copy depends on beyond the plan, and whom else it is numbered for.
        Pairs are named once on a link."""
        plan = self.plan
        vector = header.numbers[plan.source]
        known = plan.numbered_by(plan.source)
        further = {(plan.source, node): None for node in vector if node not in known}
        pairs = {pair: None for pair in header.needs if pair not in plan.pair_place}
        news = [pair for pair in [*pairs, *further] if pair not in beyond]
        news = list(dict.fromkeys(news))
        _put(into, len(news))
        for pair in news:
            beyond[pair] = 0
            _put(into, pair[0])
            _put(into, pair[1])
        changed = 0
        numbered = 0
        differences: list[int] = []
        for at, pair in enumerate(beyond):
            need = header.needs.get(pair, 0)
            if need != beyond[pair]:
                changed |= 1 << at
                differences.append(need - beyond[pair])
                beyond[pair] = need
            if pair in further:
                numbered |= 1 << at
        _put(into, changed)
        for difference in differences:
            _put_signed(into, difference)
        _put(into, numbered)

    def _put_names(
        self, into: bytearray, names: list[tuple[Key, dict[NodeId, int]]], needs: list[int]
    ) -> None:
        """Messages and their numbers; those for nodes of the plan as differences from what the copy
        depends on."""
        plan = self.plan
        for key, row in names:
            _put_key(into, key)
            mask = 0
            differences: list[int] = []
            for at, node in enumerate(plan.own_row):
                if node in row:
                    mask |= 1 << at
                    need = needs[plan.pair_place[plan.source, node]]
                    differences.append(need - row[node])
            others = [node for node in row if node not in plan.own_row]
            _put(into, mask << 1 | (len(others) > 0))
            for difference in differences:
                _put_signed(into, difference)
            if others:
                _put(into, len(others))
                for node in others:
                    _put(into, node)
                    _put(into, row[node])

    def _put_way(self, into: bytearray, header: Header) -> list[NodeId]:
        """Name the furthest issuer, and of the nodes after it those that are issuers too."""
        plan = self.plan
        far = plan.source
        for issuer in header.numbers:
            if plan.around.distance(issuer, plan.target) > plan.around.distance(far, plan.target):
                far = issuer
        way = plan.around.way(far, plan.target)[:-1]
        bits = 0
        for place, node in enumerate(way[1:]):
            if node in header.numbers:
                bits |= 1 << place
        origin = _ORIGIN_NAMED
        if header.origin == NOBODY:
            origin = _ORIGIN_UNKNOWN
        elif header.origin == far:
            origin = _ORIGIN_FIRST
        _put(into, plan.place[far])
        if header.epoch > 0:
            _put(into, header.epoch << 2 | _EPOCH_FIRST)
        _put(into, bits << 2 | origin)
        if origin == _ORIGIN_NAMED:
            _put(into, plan.place[header.origin])
        return way

    def _put_needs(self, into: bytearray, needs: list[int], mirror: list[int]) -> list[int]:
        """Write what differs from the mirror; in which places comes back."""
        changed = [place for place, need in enumerate(needs) if need != mirror[place]]
        if len(changed) > (len(needs) + 7) // 8:
            _put(into, 1)
            bits = bytearray((len(needs) + 7) // 8)
            for place in changed:
                bits[place >> 3] |= 1 << (place & 7)
            into += bits
            for place in changed:
                _put_signed(into, needs[place] - mirror[place])
            return changed
        _put(into, len(changed) << 1)
        before = -1
        for place in changed:
            _put(into, place - before - 1)
            _put_signed(into, needs[place] - mirror[place])
            before = place
        return changed

    def _put_vector(
        self,
        into: bytearray,
        far: NodeId,
        issuer: NodeId,
        vector: dict[NodeId, int],
        needs: list[int],
        memory: _Memory,
    ) -> None:
        own = issuer == self.plan.source
        shape = 0
        exceptions = 0
        differences: list[int] = []
        at = 1
        count = 1
        for node, place in self.plan.row(issuer):
            if node in vector:
                shape |= at
                foretold = needs[place] + own if place >= 0 else memory.after(issuer, node)
                if vector[node] != foretold:
                    exceptions |= count
                    differences.append(vector[node] - foretold)
                count <<= 1
            at <<= 1
        if memory.shapes.get((far, issuer)) == shape:
            _put(into, _SAME_SHAPE_BUT if exceptions else _SAME_SHAPE)
        else:
            memory.shapes[far, issuer] = shape
            _put(into, (shape << 1 | (exceptions != 0)) + 2)
        if exceptions:
            _put(into, exceptions)
            for difference in differences:
                _put_signed(into, difference)


class HeaderReader:
    """The receiving end of a link."""

    def __init__(self, plan: LinkPlan) -> None:
        self.plan = plan
        self._memory = _Memory(plan)
        self._count = 0

    def read(self, data: bytes) -> Header:
        """The header as it was written; raises if it cannot be read."""
        try:
            return self._read(_Bytes(data))
        except (IndexError, KeyError, OverflowError) as error:
            self._count = -1  # what was remembered may be half of it: only a whole one helps
            raise UnreadableHeader(str(error)) from None

    def _read(self, data: "_Bytes") -> Header:
        first = data.take()
        count, whole = first >> 1, first & 1 == 1
        if whole and (count == 0 or count <= self._count):  # alone, or overtaken on its way
            return self._take_all(data, _Memory(self.plan))
        if not whole and (count == 0 or count != self._count + 1):
            raise MissedHeader(f"header {count} came after header {self._count}")
        if whole:
            self._memory = _Memory(self.plan)
        self._count = count
        return self._take_all(data, self._memory)

    def _take_all(self, data: "_Bytes", memory: _Memory) -> Header:
        plan = self.plan
        far = plan.issuers[data.take()]
        packed = data.take()
        epoch = 0
        if packed & 3 == _EPOCH_FIRST:
            epoch = packed >> 2
            packed = data.take()
        origin = NOBODY
        if packed & 3 == _ORIGIN_FIRST:
            origin = far
        elif packed & 3 == _ORIGIN_NAMED:
            origin = plan.issuers[data.take()]
        way = plan.around.way(far, plan.target)[:-1]
        needs = list(memory.mirror)
        changed = self._take_needs(data, needs)
        numbers: Numbers = {}
        for place, issuer in enumerate(way):
            if place == 0 or packed >> (place + 1) & 1:
                numbers[issuer] = self._take_vector(data, far, issuer, needs, memory)
        said = {pair: need for pair, need in zip(plan.pairs, needs, strict=True) if need > 0}
        header = Header(origin, epoch, numbers, said)
        if plan.whole and origin == plan.source:
            header.standby = self._take_beyond(data, header, memory.beyond)
        while not data.is_at_end():
            header.names.append(self._take_name(data, needs))
        if needs and min(needs) < 0:
            raise OverflowError("a dependency on less than nothing")
        memory.remember(plan, changed, needs, numbers)
        return header

    def _take_beyond(self, data: "_Bytes", header: Header, beyond: dict[Pair, int]) -> Standby:
        plan = self.plan
        for _ in range(data.take()):
            issuer = NodeId(data.take())
            beyond.setdefault((issuer, NodeId(data.take())), 0)
            if len(beyond) > _MOST_BEYOND:
                raise OverflowError("too much beyond the plan")
        changed = data.take()
        for at, pair in enumerate(beyond):
            if changed >> at & 1:
                beyond[pair] += data.take_signed()
        if beyond and min(beyond.values()) < 0:
            raise OverflowError("a dependency on less than nothing")
        numbered = data.take()
        numbers = dict(header.numbers[plan.source])
        for at, pair in enumerate(beyond):
            if numbered >> at & 1:
                numbers[pair[1]] = beyond[pair] + 1
        needs = {pair: need for pair, need in beyond.items() if need > 0}
        return Standby(numbers, {**header.needs, **needs})

    def _take_name(self, data: "_Bytes", needs: list[int]) -> tuple[Key, dict[NodeId, int]]:
        plan = self.plan
        key = _take_key(data)
        packed = data.take()
        row: dict[NodeId, int] = {}
        for at, node in enumerate(plan.own_row):
            if packed >> (at + 1) & 1:
                row[node] = needs[plan.pair_place[plan.source, node]] - data.take_signed()
        if packed & 1:
            for _ in range(data.take()):
                node = NodeId(data.take())
                row[node] = data.take()
        if row and min(row.values()) < 1:
            raise OverflowError("numbers count from 1")
        return key, row

    def _take_needs(self, data: "_Bytes", needs: list[int]) -> list[int]:
        """Change the dependencies as a header says; in which places comes back."""
        changed: list[int] = []
        first = data.take()
        if first == 1:
            bits = [data.take_byte() for _ in range((len(needs) + 7) // 8)]
            for place in range(len(needs)):
                if bits[place >> 3] >> (place & 7) & 1:
                    needs[place] += data.take_signed()
                    changed.append(place)
            return changed
        place = -1
        for _ in range(first >> 1):
            place += data.take() + 1
            needs[place] += data.take_signed()
            changed.append(place)
        return changed

    def _take_vector(
        self,
        data: "_Bytes",
        far: NodeId,
        issuer: NodeId,
        needs: list[int],
        memory: _Memory,
    ) -> dict[NodeId, int]:
        first = data.take()
        has_exceptions = first == _SAME_SHAPE_BUT
        if first > _SAME_SHAPE_BUT:
            memory.shapes[far, issuer] = (first - 2) >> 1
            has_exceptions = first & 1 == 1
        shape = memory.shapes[far, issuer]
        exceptions = data.take() if has_exceptions else 0
        own = issuer == self.plan.source
        vector: dict[NodeId, int] = {}
        for node, place in self.plan.row(issuer):
            if shape & 1:
                number = needs[place] + own if place >= 0 else memory.after(issuer, node)
                if exceptions & 1:
                    number += data.take_signed()
                exceptions >>= 1
                if number < 1:
                    raise OverflowError("numbers count from 1")
                vector[node] = number
            shape >>= 1
        return vector


class _Bytes:
    """Bytes that are read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take_byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def take(self) -> int:
        """A number of seven bits to the byte, the lowest first."""
        number = 0
        shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > _LONGEST_NUMBER:
                raise OverflowError("a number is too long")

    def take_signed(self) -> int:
        number = self.take()
        return -(number >> 1) - 1 if number & 1 else number >> 1

    def is_at_end(self) -> bool:
        return self._at >= len(self._data)


def _put_key(into: bytearray, key: Key) -> None:
    """A publication's id as its publisher and count, or news of a member."""
    if len(key) == 1:
        _put(into, (key[0] >> 32) << 2)
        _put(into, key[0] & 0xFFFFFFFF)
        return
    _put(into, key[1] << 2 | (len(key) - 1))
    _put(into, key[0])
    if len(key) == _OF_ADMISSION:
        _put(into, key[2])


def _take_key(data: _Bytes) -> Key:
    first = data.take()
    number = data.take()
    if first & 3 == 0:
        return (first >> 2 << 32 | number,)
    if first & 3 == 1:
        return (number, first >> 2)
    return (number, first >> 2, data.take())


def _put(into: bytearray, number: int) -> None:
    """Seven bits to the byte, the lowest first; all but the last byte have the eighth bit set."""
    while number > 127:
        into.append(number & 127 | 128)
        number >>= 7
    into.append(number)


def _put_signed(into: bytearray, number: int) -> None:
    """Small numbers of either sign are short."""
    _put(into, number << 1 if number >= 0 else (-number << 1) - 1)
