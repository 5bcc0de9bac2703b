"""Planted bugs: each takes one mechanism away, and the swarm must notice.

A file of mutants (`tests/mutants/PROTOCOL.py`) has a list `MUTANTS`. A mutant replaces functions of
classes or modules while it is planted. Compiled classes cannot be changed: mutants run interpreted.
"""

import importlib.util
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from causalcast.errors import ConfigError

FOLDER = Path("tests/mutants")


@dataclass(frozen=True)
class Patch:
    """`owner.name` is `replacement` while the mutant is planted."""

    owner: Any
    name: str
    replacement: Any


@dataclass(frozen=True)
class Rewritten:
    """`owner.name` is itself with a piece of its text replaced, and others with it (`also`).

    Each must stand there exactly once: where the code has moved on, planting fails.
    """

    owner: Any
    name: str
    old: str
    new: str
    also: Sequence[tuple[str, str]] = ()

    @property
    def replacement(self) -> Any:
        """The function, made of the other text."""
        function = inspect.getattr_static(self.owner, self.name)
        text = textwrap.dedent(inspect.getsource(function))
        for old, new in [(self.old, self.new), *self.also]:
            if text.count(old) != 1:
                raise ConfigError(
                    f"{function.__module__}.{function.__qualname__}: expected exactly once, found "
                    f"{text.count(old)} times: {old!r}"
                )
            text = text.replace(old, new)
        sees = vars(importlib.import_module(function.__module__))
        made: dict[str, Any] = {}
        exec(compile(text, "<planted>", "exec"), sees, made)
        return made[function.__name__]


_INHERITED: Final = object()  # a class has the method from another


@dataclass(frozen=True)
class Mutant:
    """One planted bug. `breaks` names the properties that may show it, the likeliest first.

    `for_good`: only where all nodes are linked and some die for good can it be seen.
    """

    name: str
    mechanism: str
    breaks: Sequence[str]
    patches: Sequence[Patch | Rewritten]
    options: Mapping[str, Any] = field(default_factory=dict)
    for_good: bool = False

    @contextmanager
    def planted(self) -> Iterator[None]:
        """While this lasts, the bug is there."""
        for patch in self.patches:
            getattr(patch.owner, patch.name)  # a patch of nothing would be no bug
        before = [(patch, vars(patch.owner).get(patch.name, _INHERITED)) for patch in self.patches]
        try:
            for patch in self.patches:
                setattr(patch.owner, patch.name, patch.replacement)
            yield
        except TypeError as error:
            if "immutable type" in str(error):
                raise ConfigError(
                    "mutants need the interpreted package, not the compiled one"
                ) from None
            raise
        finally:
            for patch, original in before:
                if original is _INHERITED:
                    if patch.name in vars(patch.owner):
                        delattr(patch.owner, patch.name)
                elif vars(patch.owner)[patch.name] is not original:
                    setattr(patch.owner, patch.name, original)


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; --mutants names a file with a list MUTANTS")
    spec = importlib.util.spec_from_file_location(f"causalcast_mutants_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "MUTANTS", None)
    if not isinstance(found, list) or not all(isinstance(one, Mutant) for one in found):
        raise ConfigError(f"{path}: expected a list MUTANTS of Mutant(...)")
    return found


def find_mutant(path: Path, name: str) -> Mutant:
    """One mutant of a file, by name."""
    mutants = {mutant.name: mutant for mutant in mutants_of(path)}
    if name not in mutants:
        raise ConfigError(f"{path}: no mutant {name!r}; there are {', '.join(mutants)}")
    return mutants[name]
