"""The files that show a run in a browser: apart for the lab, and as one script for a report.

A page that was opened as a file may not load modules from beside it, so a report carries them
inside: each module becomes a function that returns what it exports.
"""

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent / "page"
STYLE: Final = "view.css"
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|function|const) (\w+))", re.MULTILINE)


def view_files() -> dict[str, bytes]:
    """Modules and style, by their names."""
    return {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}


def style() -> str:
    """How it looks."""
    return (PAGE / STYLE).read_text(encoding="utf-8")


def one_script(main: str) -> str:
    """A module of the caller with all that it imports from here, as one script."""
    done: list[str] = []
    parts = [_with_imports(main, done)]
    return "\n".join([*done, *parts])


def _module(name: str, done: list[str]) -> None:
    """Put a module in front, once, after all that it imports itself."""
    begins = f"const {_variable(name)} = "
    if any(part.startswith(begins) for part in done):
        return
    text = (PAGE / f"{name}.js").read_text(encoding="utf-8")
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _with_imports(text, done))
    done.append(f"{begins}(() => {{\n{body}return {{ {exported} }};\n}})();")


def _with_imports(text: str, done: list[str]) -> str:
    for _, name in _IMPORT.findall(text):
        _module(name, done)
    replaced = _IMPORT.sub(
        lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n",
        text,
    )
    in_another_form = re.search(r"^import ", replaced, re.MULTILINE)
    assert in_another_form is None, f"{in_another_form} cannot be put into one script"
    return replaced


def _variable(name: str) -> str:
    return f"module_{name}"
