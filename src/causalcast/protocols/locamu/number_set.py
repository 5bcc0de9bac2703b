"""A set of numbers 1, 2, 3, … that come almost in order: a run without gaps, and a few beyond."""


class NumberSet:
    """All of 1..`count`, and `extras` beyond the first gap."""

    __slots__ = ("count", "extras")

    def __init__(self) -> None:
        self.count = 0
        self.extras: dict[int, None] = {}

    def add(self, number: int) -> bool:
        """Put a number in; True if it is new."""
        if number <= self.count or number in self.extras:
            return False
        if number > self.count + 1:
            self.extras[number] = None
            return True
        self.count = number
        while self.count + 1 in self.extras:
            self.count += 1
            del self.extras[self.count]
        return True

    def has(self, number: int) -> bool:
        """Whether it is in the set."""
        return number <= self.count or number in self.extras

    def first_gap(self, to: int, leaving_out: int) -> int:
        """The smallest number of 1..`to` that is not here and not `leaving_out`; 0 if none."""
        for number in range(self.count + 1, to + 1):
            if number != leaving_out and number not in self.extras:
                return number
        return 0

    def gaps(self, to: int, leaving_out: int) -> list[int]:
        """All of 1..`to` that are not here, but for `leaving_out`."""
        return [
            number
            for number in range(self.count + 1, to + 1)
            if number != leaving_out and number not in self.extras
        ]
