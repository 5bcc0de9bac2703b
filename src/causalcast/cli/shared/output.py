"""How the command line speaks to people: facts in two columns, and a progress bar on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A progress bar; gives a function to call with the share that is done, from 0 to 1.

    Without a terminal there is none.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def print_facts(facts: dict[str, Any]) -> None:
    """One fact per line; a dict as `name n, name n`."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {count:,}" for key, count in value.items()) or "nothing"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        table.add_row(name.replace("_", " "), str(value))
    Console(soft_wrap=True).print(table)
