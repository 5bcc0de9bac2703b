"""Builds the documentation site: `make docs`.

    python scripts/docs_site.py                the site in build/site, opened from index.html
    python scripts/docs_site.py --only-source  what MkDocs reads, in build/site_source

The pages are those of docs/ and the four of the repository. References are made from the package:
each command from its `--help`, each option from the SPEC that declares it, the Python API from
docstrings. The lab is one of the pages; it runs protocols if --pyodide, CAUSALCAST_PYODIDE or the
folder that `causalcast lab` looks into has Pyodide. Nothing is fetched: no fonts, no scripts of
others; the search works without a server.
"""

import argparse
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))
HOME = "https://github.com/causalcast/causalcast/blob/main"
PAGES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md"}
PAGES |= {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FETCHED = r"<script src=\"?https://unpkg\.com/iframe-worker/shim\"?></script>"
FILE_WORKER = """\
// Browsers start no workers for pages that are files: a frame runs the script of the search.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner = inner;
      this.ready = new Promise((done, failed) => {
        const script = inner.document.createElement("script");
        script.onload = done;
        script.onerror = failed;
        script.src = url;
        inner.document.body.append(script);
      });
    }
    postMessage(data) {
      const event = new this.inner.MessageEvent("message", { data });
      this.ready.then(() => this.inner.dispatchEvent(event));
    }
    terminate() {}
  };
}
"""
API = {
    "causalcast": "Nodes in your program; simulate, verify and report.",
    "causalcast.core": "The language of protocols.",
    "causalcast.testing": "Clusters for the tests of your application.",
}


def main() -> int:
    """Write what MkDocs reads, and let it build the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where both go")
    parser.add_argument("--only-source", action="store_true", help="do not run MkDocs")
    parser.add_argument("--pyodide", type=Path, help="folder or .tgz of the npm package pyodide")
    options = parser.parse_args()
    source, site = options.build / "site_source", options.build / "site"
    write_source(source)
    write_lab(source, options.pyodide)
    if options.only_source:
        return 0
    config = options.build / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text()
    places = f"docs_dir: {source.resolve()}\nsite_dir: {site.resolve()}\n"
    config.write_text(places + text)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(config),
    ]  # quiet hides warnings
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
    if done.returncode == 0:
        ask_nobody(site)
        print(f"the site is in {site}; open {site / 'index.html'}")
    return done.returncode


def ask_nobody(site: Path) -> None:
    """For pages opened as files the theme would fetch a script; `FILE_WORKER` does its work."""
    for path in site.rglob("*.html"):
        path.write_text(re.sub(FETCHED, f"<script>{FILE_WORKER}</script>", path.read_text()))


def write_source(source: Path) -> None:
    """All pages, as MkDocs wants them."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    for path in sorted(source.rglob("*.md")):
        original = ROOT / "docs" / path.relative_to(source)
        path.write_text(converted(original.read_text(), original, path.relative_to(source)))
    for name, target in PAGES.items():
        text = converted((ROOT / name).read_text(), ROOT / name, Path(target))
        (source / target).write_text(text)
    (source / "reference").mkdir()
    (source / "reference" / "commands.md").write_text(commands_page())
    (source / "reference" / "options.md").write_text(options_page())
    (source / "reference" / "api.md").write_text(api_page())


def write_lab(source: Path, given: Path | None) -> None:
    """The lab as a page of the site, and a link to it where it is described."""
    from causalcast.lab.site import HOW_TO_GET_IT, export, kept_pyodide, site

    named = os.environ.get("CAUSALCAST_PYODIDE")
    pyodide = given or (Path(named) if named else kept_pyodide())
    export(site(pyodide), source / "lab")
    described = source / "lab.md"
    title, _, text = described.read_text().partition("\n")
    link = "**[Open the lab](lab/index.html)**, served with this site by any web server."
    if pyodide is None:
        link = "**[See one run in the lab](lab/index.html)**; this site was built without Pyodide."
        print(f"the lab of the site shows one run; to run others in it: {HOW_TO_GET_IT}, and")
        print("make docs PYODIDE=FILE")
    described.write_text(f"{title}\n\n{link}\n{text}")


def converted(text: str, original: Path, page: Path) -> str:
    """A page for GitHub as one for MkDocs: fences, lists, and links to where things are there."""
    lines: list[str] = []
    in_fence = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_fence = not in_fence
            line = line.split(" ")[0] if in_fence else line
        starts_list = re.match(r"(-|\d+\.) ", line) is not None
        if starts_list and not in_fence and lines and lines[-1].strip():
            before = lines[-1]
            if not re.match(r"(-|\d+\.|  )", before) and not before.startswith("#"):
                lines.append("")
        lines.append(line)
    parts = re.split(r"(^```.*?^```$)", "\n".join(lines) + "\n", flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if part.startswith("```") else with_links(part, original, page) for part in parts
    )


def with_links(text: str, original: Path, page: Path) -> str:
    """Links to pages of the site lead there, links to other files to the repository."""

    def moved(found: re.Match[str]) -> str:
        target, hash_sign, anchor = found[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        there = (original.parent / target).resolve()
        name = str(there.relative_to(ROOT)) if there.is_relative_to(ROOT) else ""
        docs = ROOT / "docs"
        if name in PAGES:
            place = Path(PAGES[name])
        elif there.is_relative_to(docs) and there.is_file():
            place = there.relative_to(docs)
        else:
            return f"{found[1]}{HOME}/{name}{hash_sign}{anchor}{found[3]}"
        relative = os.path.relpath(place, page.parent)
        return f"{found[1]}{relative}{hash_sign}{anchor}{found[3]}"

    return LINK.sub(moved, text)


def commands_page() -> str:
    """Every command with its `--help`."""
    from causalcast.cli.commands import COMMANDS_BY_PURPOSE
    from causalcast.cli.main import build_parser

    os.environ["COLUMNS"] = "96"
    parts = ["# Commands", "", "What `causalcast COMMAND --help` prints, for each command.", ""]
    for purpose, commands in COMMANDS_BY_PURPOSE.items():
        parts += [f"## To {purpose}", ""]
        for command in commands:
            parser = build_parser([command.name])
            shown = _words_after(parser)[command.name]
            parts += [
                f"### {command.name}",
                "",
                f"{command.line[0].upper()}{command.line[1:]}.",
                "",
            ]
            parts += ["```text", shown.format_help().rstrip(), "```", ""]
            for name, below in _words_after(shown).items():
                parts += [f"#### {command.name} {name}", ""]
                parts += ["```text", below.format_help().rstrip(), "```", ""]
    return "\n".join(parts)


def _words_after(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the words that may follow; none where there are no such words."""
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def options_page() -> str:
    """Every protocol, overlay and detector with what its SPEC says."""
    from causalcast import registry

    parts = ["# Options", "", "What the SPEC of each protocol, overlay and detector declares.", ""]
    for title, names, find in (
        ("Protocols", registry.protocol_names(), registry.find_protocol),
        ("Overlays", registry.overlay_names(), registry.find_overlay),
        ("Detectors", registry.detector_names(), registry.find_detector),
    ):
        parts += [f"## {title}", ""]
        for name in names:
            spec: Any = find(name)
            parts += [f"### {name}", "", spec.summary, ""]
            promised = getattr(spec, "guarantees", [])
            if promised:
                parts += ["Promises " + ", ".join(f"`{one}`" for one in promised) + ".", ""]
            if spec.options:
                parts += ["| option | default | what it is | expects | change it if |"]
                parts += ["| --- | --- | --- | --- | --- |"]
                parts += [_option_row(option) for option in spec.options] + [""]
    return "\n".join(parts)


def _option_row(option: Any) -> str:
    default = option.default
    if option.unit:
        from causalcast.core.spec import UNITS

        default = f"{default / UNITS[option.unit]:g} {option.unit}"
    elif isinstance(default, bool):
        default = "true" if default else "false"
    cells = [f"`{option.name}`", f"`{default}`" if default != "" else "none"]
    cells += [option.meaning, option.expects(), option.change_if or "–"]
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def api_page() -> str:
    """The public names of the package with their docstrings."""
    parts = ["# Python API", "", "Public names and what their docstrings say.", ""]
    for module_name, about in API.items():
        module = importlib.import_module(module_name)
        parts += [f"## {module_name}", "", about, ""]
        for name in sorted(module.__all__, key=str.lower):
            thing = getattr(module, name)
            if name.startswith("_") or not (inspect.isclass(thing) or callable(thing)):
                continue
            parts += _thing(name, thing)
    return "\n".join(parts)


def _thing(name: str, thing: Any) -> list[str]:
    parts = [f"### {name}", ""]
    if inspect.isclass(thing):
        parts += [_doc(thing), ""]
        for method, function in sorted(vars(thing).items()):
            if method.startswith("_"):
                continue
            if isinstance(function, property):
                parts += [f"- `{method}`: {_first(function)}"]
            elif inspect.isfunction(function) or isinstance(function, staticmethod):
                plain = function.__func__ if isinstance(function, staticmethod) else function
                parts += [f"- `{method}{_signature(plain)}`: {_first(plain)}"]
        return [*parts, ""]
    return [*parts, "```python", f"{name}{_signature(thing)}", "```", "", _doc(thing), ""]


def _signature(function: Any) -> str:
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"
    return (
        re.sub(r"\bcausalcast\.[\w.]+\.(\w+)", r"\1", text)
        .replace("(self, ", "(")
        .replace("(self)", "()")
    )


def _doc(thing: Any) -> str:
    text = inspect.getdoc(thing) or "–"
    return text.replace("<", "&lt;") if "`" not in text else text


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "–").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
