"""What the point-to-point layer promises, watched from outside both ends."""


class Broken(Exception):
    """A promise of the layer does not hold."""

    def __init__(self, promise: str, told: str) -> None:
        super().__init__(f"{promise}: {told}")
        self.promise = promise


class Stream:
    """What one life of an end accepted since it last heard that the other had failed."""

    def __init__(self, age: tuple[int, int]) -> None:
        self.age = age  # the sender's life, and which of its streams
        self.accepted: list[bytes] = []
        self.delivered = 0
        self.arrived = 0
        self.taken_by = -1  # a life of the receiver


class Promises:
    """What each end accepted, and what came of it; `Broken` is raised where a promise is."""

    def __init__(self) -> None:
        self.lives = [0, 0]
        self._streams = [Stream((0, 0)), Stream((0, 0))]  # the one that is open at each end
        self._stream_of: dict[bytes, Stream] = {}
        self._newest_heard = [(0, 0), (0, 0)]  # the youngest stream of the other end

    def begin_life(self, end: int) -> None:
        """An end starts, or starts again."""
        self.lives[end] += 1
        self._streams[end] = Stream((self.lives[end], 0))

    def stream(self, end: int) -> Stream:
        """What this end accepted since it last heard of a failure."""
        return self._streams[end]

    def unique(self, end: int, words: bytes) -> bytes:
        """A message that tells where it comes from."""
        return b"%s of %d.%d.%d " % (words, end, *self._streams[end].age)

    def accepted(self, end: int, body: bytes) -> None:
        """An end took a message to bring it over."""
        assert body not in self._stream_of
        self._streams[end].accepted.append(body)
        self._stream_of[body] = self._streams[end]

    def delivered(self, end: int, body: bytes) -> None:
        """A message came out at an end."""
        stream = self._stream_of.get(body)
        told = repr(body[:40])
        if stream is None:
            raise Broken("no creation", f"{told} was never accepted")
        if body in stream.accepted[: stream.delivered]:
            raise Broken("at most once", f"{told} again")
        if stream.accepted[stream.delivered] != body:
            raise Broken("order", f"{told} before {stream.accepted[stream.delivered][:40]!r}")
        if stream.taken_by not in (-1, self.lives[end]):
            raise Broken("one life", f"{told} went to life {self.lives[end]}, others elsewhere")
        if stream.age < self._newest_heard[end]:
            raise Broken("no old life", f"{told} after a message of {self._newest_heard[end]}")
        stream.taken_by = self.lives[end]
        stream.delivered += 1
        self._newest_heard[end] = stream.age

    def arrived(self, end: int, count: int) -> None:
        """An end heard that its messages came over."""
        stream = self._streams[end]
        stream.arrived += count
        if stream.arrived > stream.delivered:
            raise Broken("acknowledged means delivered", f"{stream.arrived - stream.delivered} not")

    def failed(self, end: int, lost: int) -> None:
        """An end was told that the other had failed."""
        stream = self._streams[end]
        if lost != len(stream.accepted) - stream.arrived:
            raise Broken("honest failure", f"{lost} lost of {len(stream.accepted)}")
        self._streams[end] = Stream((self.lives[end], stream.age[1] + 1))

    def check_settled(self) -> None:
        """All is over: what was accepted came over, or the other end was reported failed."""
        for end, stream in enumerate(self._streams):
            if stream.arrived != len(stream.accepted):
                raise Broken("delivered or failed", f"{len(stream.accepted)} accepted by {end}")
            if stream.delivered != len(stream.accepted):
                raise Broken("delivered or failed", f"{stream.delivered} delivered for {end}")

    def key(self) -> tuple[object, ...]:
        """Equal for equal pasts, as far as promises depend on them."""
        streams = [
            (body, stream.delivered, stream.arrived, stream.taken_by)
            for body, stream in self._stream_of.items()
        ]
        ages = tuple(stream.age for stream in self._streams)
        return (*self.lives, ages, *self._newest_heard, *streams)
