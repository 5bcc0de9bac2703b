"""A terminal that is typed into while lines come in: a prompt, messages, and questions."""

import asyncio
import collections
import os
import sys
from collections.abc import Callable
from typing import Final

PROMPT: Final = "> "
LONGEST_LINE: Final = 4096


class Prompt:
    """Reads lines from standard input; a question takes the next line, else it is a command."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.ended = asyncio.Event()  # no more input
        self._on_line = on_line
        self._questions: collections.deque[tuple[str, Callable[[str], None]]] = collections.deque()
        self._loop = asyncio.get_running_loop()
        self._input = sys.stdin.fileno()
        self._is_terminal = sys.stdin.isatty()
        self._begun = b""  # a line without its end
        try:
            self._loop.add_reader(self._input, self._read)
        except PermissionError:  # a plain file is always ready
            self._loop.call_soon(self._read_all)
        self._show()

    def say(self, line: str) -> None:
        """Print a line above the prompt."""
        if self._is_terminal:
            sys.stdout.write("\r\x1b[K")
        sys.stdout.write(line + "\n")
        self._show()

    def ask(self, question: str, answer: Callable[[str], None]) -> None:
        """Let the next line of the user answer a question."""
        self._questions.append((question, answer))
        if len(self._questions) == 1:
            self.say(question)

    def close(self) -> None:
        """Read no more."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._input)
            self.ended.set()

    def _show(self) -> None:
        if self._is_terminal and not self.ended.is_set():
            sys.stdout.write(PROMPT)
        sys.stdout.flush()

    def _read(self) -> None:
        data = os.read(self._input, LONGEST_LINE)
        self._begun += data
        *lines, self._begun = self._begun.split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace").strip())
        if not data:
            self.close()
        elif len(self._begun) > LONGEST_LINE:
            self._begun = b""
        elif lines:
            self._show()

    def _read_all(self) -> None:
        while not self.ended.is_set():
            self._read()

    def _take(self, line: str) -> None:
        if not self._questions:
            if line:
                self._on_line(line)
            return
        _, answer = self._questions.popleft()
        answer(line)
        if self._questions:
            self.say(self._questions[0][0])
