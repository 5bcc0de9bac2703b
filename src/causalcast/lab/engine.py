"""The engine of the lab: one object, text of JSON in, text of JSON out.

The page knows nothing else of Python. It asks this object inside the page (Pyodide), or over HTTP
in a process of this machine; the answers are the same.

    {"do": "catalogue"}                     scenarios, protocols, the gallery
    {"do": "sources", "protocol": NAME}     the files of a protocol
    {"do": "run", "scenario": NAME or "text": TOML, "protocol": NAME, "seed": 7,
     "options": {…}, "edits": [{…}], "sources": {PATH: TEXT}}
                                            one run, as a picture
"""

import json
import traceback
from collections.abc import Callable
from typing import Any

from causalcast.errors import CausalcastError, ConfigError
from causalcast.lab.edits import Edit, as_run, with_edits, with_steps
from causalcast.lab.gallery import gallery, text_of_entry
from causalcast.lab.picture import picture_of
from causalcast.lab.sources import EXAMPLE, EditedProtocols, sources_of
from causalcast.lab.watching import Watch
from causalcast.limits import set_to
from causalcast.registry import find_protocol, protocol_names
from causalcast.shipped import sample, samples
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.toml_table import Table
from causalcast.version import VERSION

MOST_NODES = 200


class Lab:
    """Answers questions of the page; remembers nothing but edited protocols."""

    def __init__(self) -> None:
        self._edited = EditedProtocols()
        self._answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "catalogue": self._catalogue,
            "sources": self._sources,
            "run": self._run,
        }

    def ask(self, text: str) -> str:
        """The answer to one question; `error` says in words what is wrong with it."""
        try:
            question = json.loads(text)
            if not isinstance(question, dict) or question.get("do") not in self._answers:
                raise ConfigError(f"expected a question with do = {' | '.join(self._answers)}")
            answer = self._answers[question["do"]](question)
        except CausalcastError as error:
            answer = {"error": str(error)}
        except Exception as error:  # a protocol that somebody changed may raise anything
            answer = {"error": f"{type(error).__name__}: {error}", "trace": _where(error)}
        return json.dumps(answer, separators=(",", ":"))

    def close(self) -> None:
        """Remove what edited protocols left on the disk."""
        self._edited.close()

    def _catalogue(self, question: dict[str, Any]) -> dict[str, Any]:
        scenarios = []
        for path in samples("scenarios"):
            text = path.read_text(encoding="utf-8")
            scenarios.append({"name": path.stem, "title": _title(text), "text": text})
        protocols = []
        for name in protocol_names():
            spec = find_protocol(name)
            protocols.append(
                {
                    "name": name,
                    "summary": spec.summary,
                    "guarantees": list(spec.guarantees),
                    "options": {
                        option.name: {"default": option.default, "about": option.meaning}
                        for option in spec.options
                    },
                }
            )
        return {
            "version": VERSION,
            "scenarios": scenarios,
            "protocols": protocols,
            "examples": [
                f"{EXAMPLE}{path.name}" for path in samples("examples") if _has_spec(path)
            ],
            "gallery": gallery(),
        }

    def _sources(self, question: dict[str, Any]) -> dict[str, Any]:
        return {"files": sources_of(str(question.get("protocol", "")))}

    def _run(self, question: dict[str, Any]) -> dict[str, Any]:
        scenario = self._scenario(question)
        if scenario.nodes() > MOST_NODES:
            raise ConfigError(
                f"{scenario.nodes()} nodes: the lab draws up to {MOST_NODES}; "
                "`causalcast simulate` has no such limit"
            )
        with set_to(scenario.limits):
            watch = Watch(prepare(scenario, "full"))
            watch.run()
        picture = picture_of(watch)
        named = str(question.get("protocol") or scenario.protocol_name)
        picture["scenario"] = as_run(scenario.text, named, scenario.seed)
        return picture

    def _scenario(self, question: dict[str, Any]) -> Scenario:
        text = _text(question)
        protocol = self._protocol(question)
        settings = {name: _as_text(value) for name, value in question.get("options", {}).items()}
        seed = question.get("seed")
        if seed is not None and type(seed) is not int:
            raise ConfigError(f"seed {seed!r}, expected a whole number")
        edits = [Edit(given) for given in question.get("edits", [])]
        plain = Scenario(text, "scenario", protocol, settings, seed)
        if not edits:
            return plain
        if plain.directed:
            neighbours = {
                int(n): list(map(int, p)) for n, p in plain.blueprint.topology.neighbours.items()
            }
            steps = [" ".join(map(str, step)) for step in plain.steps]
            group = plain.blueprint.groups.names[0]
            text = with_steps(text, steps, edits, neighbours, group)
        else:
            text = with_edits(text, edits)
        return Scenario(text, "scenario", protocol, settings, seed)

    def _protocol(self, question: dict[str, Any]) -> str:
        named = question.get("protocol")
        changed = question.get("sources") or {}
        if named is None and not changed:
            named = Table.parse(_text(question), "scenario").text("protocol", "")
        name = str(named)
        if changed or name.startswith(EXAMPLE):
            return self._edited.path_of(name, dict(changed))
        if name not in protocol_names():
            raise ConfigError(f"no protocol {name!r}")
        return name


def _text(question: dict[str, Any]) -> str:
    if question.get("text"):
        return str(question["text"])
    name = str(question.get("scenario", ""))
    if name.startswith("gallery/"):
        return text_of_entry(name)
    return sample("scenarios", name).read_text(encoding="utf-8")


def _title(text: str) -> str:
    """The first comment of a scenario."""
    first = text.lstrip().partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""


def _has_spec(path: Any) -> bool:
    return "\nSPEC = " in path.read_text(encoding="utf-8")


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _where(error: Exception) -> str:
    """The last places of the traceback, for somebody who changed the code."""
    return "".join(traceback.format_exception(error)[-4:])
