"""Ways to make a scenario smaller: leave out a node, a group, a detail; write it simpler.

A scenario is here what `tomllib` makes of its text. Every function yields candidates, most daring
first; whether one still fails is for `shrink` to find out.
"""

import copy
from collections.abc import Iterator
from typing import Any

from causalcast.simulator.scenarios.director import SHAPES
from causalcast.swarm.generate import toml_text
from causalcast.trace.run_folder import Run

Data = dict[str, Any]

# Orders whose numbers are nodes; those of other orders stay as they are.
NAME_NODES = ("gone", "add", "replace")

# Key and simplest value of what a table can do without.
SIMPLEST: dict[str, dict[str, Any]] = {
    "network": {"latency_ms": 1.0, "loss": 0.0, "duplication": 0.0, "fifo": True},
    "disk": {"sync_ms": 0},
    "detector": {"delay_ms": 0},
    "limits": {},
    "world": {
        "links_lose_nothing": False,
        "keeps_records": True,
        "congestion": 0,
        "read_every_ms": 0,
    },
}


def text_of_scenario(data: Data) -> str:
    """A scenario as text: single values first, then tables, then lists of tables."""
    head = {k: v for k, v in data.items() if not isinstance(v, dict) and not _is_tables(v)}
    tables = [(name, table) for name, table in data.items() if isinstance(table, dict)]
    for name, entries in data.items():
        if _is_tables(entries):
            tables += [(f"[{name}]", entry) for entry in entries]
    return toml_text(head, tables)


def with_plain_publications(data: Data, run: Run) -> Data:
    """The same publications one by one, as the trace has them, instead of streams."""
    rows = run.events.select(["kind", "at_us", "node", "group", "payload_bytes"]).to_pylist()
    names = run.groups["name"].to_pylist()
    published = [row for row in rows if row["kind"] == "publish"]
    published.sort(key=lambda row: row["at_us"])
    plain = [
        {"at_ms": row["at_us"] / 1000, "node": row["node"], "group": names[row["group"]],
         "payload_bytes": row["payload_bytes"]}
        for row in published
    ]  # fmt: skip
    return {**data, "publish": plain}


def without_node(data: Data, gone: int) -> Data:
    """The scenario without one node; its neighbours are joined, larger numbers move down."""
    data = copy.deepcopy(data)

    def moved(node: Any) -> Any:
        return node - 1 if isinstance(node, int) and node > gone else node

    overlay = data["overlay"]
    edges = overlay["edges"]
    around = [a if b == gone else b for a, b in edges if gone in (a, b)]
    kept = [edge for edge in edges if gone not in edge]
    kept += [[around[0], other] for other in around[1:] if not _joined(kept, around[0], other)]
    overlay["edges"] = [[moved(a), moved(b)] for a, b in kept]
    overlay["nodes"] -= 1
    founders = data.get("options", {}).get("founders", 0)
    if gone < founders:
        data["options"]["founders"] = founders - 1
    for name, members in data.get("groups", {}).items():
        if isinstance(members, list):
            data["groups"][name] = [moved(node) for node in members if node != gone]
    for key in ("publish", "fault"):
        if key in data:
            data[key] = [_renumbered(e, moved) for e in data[key] if not _names(e, gone)]
    if "steps" in data:
        steps = [step.split() for step in data["steps"]]
        data["steps"] = [_moved_step(s, moved) for s in steps if gone not in _nodes_of(s)]
    return data


def smaller_groups(data: Data) -> Iterator[Data]:
    """Without a group (its publications go to another), or without one of its members."""
    groups = data.get("groups", {})
    for name in list(groups)[::-1]:
        if len(groups) > 1:
            other = next(group for group in groups if group != name)
            yield _without_group(data, name, other)
        members = groups[name]
        if members == "*":
            members = list(range(data["overlay"]["nodes"]))
        for member in members:
            fewer = [node for node in members if node != member]
            yield {**data, "groups": {**groups, name: fewer}}


def simpler_details(data: Data) -> Iterator[Data]:
    """With the simplest value in one place, or without a whole table."""
    for table in ("options", *SIMPLEST):
        if table in data:
            yield {key: value for key, value in data.items() if key != table}
    for option in data.get("options", {}):
        rest = {k: v for k, v in data["options"].items() if k != option}
        yield {**data, "options": rest}
    for table, values in SIMPLEST.items():
        for key, simplest in values.items():
            if key in data.get(table, {}) and data[table][key] != simplest:
                yield {**data, table: {**data[table], key: simplest}}
    for key in ("publish", "fault"):
        for number, entry in enumerate(data.get(key, [])):
            for simpler in _simpler_entry(entry):
                yield {**data, key: [*data[key][:number], simpler, *data[key][number + 1 :]]}
    for number, step in enumerate(data.get("steps", [])):
        for shorter in _simpler_step(step):
            yield {
                **data,
                "steps": [*data["steps"][:number], shorter, *data["steps"][number + 1 :]],
            }


def _simpler_entry(entry: Data) -> Iterator[Data]:
    if entry.get("payload_bytes", 0) > 0:
        yield {**entry, "payload_bytes": 0}
    for key in ("keep", "after_effects"):  # a cut stays as loud as it was: that is its kind
        if entry.get(key):
            yield {**entry, key: type(entry[key])(0)}
    at = entry["at_ms"]
    for unit in (100, 10, 1):
        rounded = round(at / unit) * unit
        if rounded != at:
            yield {**entry, "at_ms": rounded}


def _simpler_step(step: str) -> Iterator[str]:
    words = step.split()
    optional = SHAPES[words[0]].count("[")
    if words[0] != "expire" and optional and len(words) > 1 + SHAPES[words[0]].count(" "):
        yield " ".join(words[:-1])
    if words[0] == "arrive":
        yield " ".join(["bring", *words[1:3]])


def _without_group(data: Data, name: str, other: str) -> Data:
    data = copy.deepcopy(data)
    del data["groups"][name]
    for entry in [*data.get("publish", []), *data.get("fault", [])]:
        if entry.get("group") == name:
            entry["group"] = other
    if "steps" in data:
        steps = [step.split() for step in data["steps"]]
        data["steps"] = [
            " ".join([*s[:2], other] if SHAPES[s[0]] == "node group" and s[2] == name else s)
            for s in steps
        ]
    return data


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _joined(edges: list[list[int]], a: int, b: int) -> bool:
    return [a, b] in edges or [b, a] in edges


def _names(entry: Data, node: int) -> bool:
    """Whether a publication or fault is about this node alone or about a link of it."""
    named = [entry.get("node"), entry.get("by"), entry.get("via"), *entry.get("link", [])]
    return node in named or node in _nodes_in_order(entry.get("order", ""))


def _nodes_in_order(order: str) -> list[int]:
    name, *words = order.split() or [""]
    return [int(word) for word in words] if name in NAME_NODES else []


def _renumbered(entry: Data, moved: Any) -> Data:
    entry = dict(entry)
    named = _nodes_in_order(entry.get("order", ""))
    if named:
        entry["order"] = " ".join([entry["order"].split()[0], *(str(moved(n)) for n in named)])
    for key in ("node", "by", "via"):
        if key in entry:
            entry[key] = moved(entry[key])
    if "link" in entry:
        entry["link"] = [moved(node) for node in entry["link"]]
    if "sides" in entry:
        entry["sides"] = [[moved(node) for node in side] for side in entry["sides"]]
    return entry


def _nodes_of(words: list[str]) -> list[int]:
    kinds = SHAPES[words[0]].split()
    if words[0] == "order" and words[2] in NAME_NODES:
        kinds = ["node", "word", "node", "node"]
    return [int(w) for w, kind in zip(words[1:], kinds, strict=False) if kind == "node"]


def _moved_step(words: list[str], moved: Any) -> str:
    kinds = ["", *SHAPES[words[0]].split()]
    if words[0] == "order" and words[2] in NAME_NODES:
        kinds = ["", "node", "word", "node", "node"]
    named = zip(words, kinds, strict=False)
    return " ".join(str(moved(int(w))) if kind == "node" else w for w, kind in named)
