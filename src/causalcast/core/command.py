"""What an operator tells a protocol to do: a name and numbers, such as `gone 3` or `part 0 1`.

A protocol lists in its SPEC which commands it knows. Each has three sides, methods of `Multicast`:
`objection` says why it cannot be carried out here and now, `preview` what may be lost by it, and
`on_command` carries it out. Python, the control socket, the command line and the simulator offer
the same commands, and know none of them by name.
"""

from collections.abc import Sequence
from typing import Final, final

NODE: Final = "NODE"  # the id of a node of the cluster


@final
class Command:
    """One command as it was given: it has the form that the protocol asks for."""

    def __init__(self, name: str, arguments: Sequence[int]) -> None:
        self.name = name
        self.arguments = list(arguments)

    def __repr__(self) -> str:
        return " ".join([self.name, *map(str, self.arguments)])


@final
class CommandForm:
    """A command that a protocol knows: its name, what its numbers stand for, and its meaning.

    `gives_up`: its first argument is a node from which nothing is expected any more.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], meaning: str, gives_up: bool = False
    ) -> None:
        self.name = name
        self.arguments = list(arguments)
        self.meaning = meaning
        self.gives_up = gives_up

    def usage(self) -> str:
        """How people write it."""
        return " ".join([self.name, *self.arguments])

    def read(self, words: list[str]) -> Command:
        """The command with these arguments; raises ValueError where they do not fit."""
        if len(words) != len(self.arguments) or not all(word.isdecimal() for word in words):
            raise ValueError(f"expected {self.usage()}, with whole numbers")
        return Command(self.name, [int(word) for word in words])
