"""Whatever a protocol or part reads of its world is set by both worlds, and told by both."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import causalcast
from causalcast.core.outbox import Outbox
from causalcast.core.stack import Stack
from causalcast.core.world_facts import WorldFacts

PACKAGE = Path(causalcast.__file__).parent
BELOW_THE_WORLDS = ("parts", "protocols", "overlays", "detectors")
WORLDS = ("runtime", "simulator", "testing")
# Of the outbox itself, with what the step has asked for; all else is one of the facts.
ANYBODY_MAY_READ = {"now", "layer", "world", "effects", "records", "notices", "requests"}
BETWEEN_OUTBOXES = {"tells_duplicates"}  # of a protocol that contains others
FACTS = list(vars(WorldFacts()))
# What both worlds let happen to a node; the rest of the stack's methods are its own.
NO_INPUTS = {"settle", "is_joining", "note_joined"}
INPUTS = [
    name
    for name, _ in inspect.getmembers(Stack, inspect.isfunction)
    if not name.startswith("_") and name not in NO_INPUTS
]


def trees(*rooms: str) -> Iterator[tuple[Path, ast.Module]]:
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield path, ast.parse(path.read_text())


def attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def facts_set_in(tree: ast.Module) -> set[str]:
    """Assigned as `….world.FACT = …`, or given when the facts are made."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Attribute) and node.value.attr in ("world", "_facts"):
                found.add(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "WorldFacts":
            names = list(inspect.signature(WorldFacts).parameters)
            found |= set(names[: len(node.args)]) | {word.arg or "" for word in node.keywords}
    return found


def facts_read_in(tree: ast.Module) -> set[str]:
    """What stands behind `out.world.`"""
    return {
        node.attr
        for node in attributes(tree)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "world"
    }


def read_of_the_outbox(tree: ast.Module) -> set[str]:
    plain = {name for name in vars(Outbox()) if not name.startswith("_")}
    return {
        node.attr
        for node in attributes(tree)
        if isinstance(node.value, ast.Name) and node.value.id == "out" and node.attr in plain
    }


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("fact", FACTS)
def test_every_world_sets_it(world: str, fact: str) -> None:
    assert any(fact in facts_set_in(tree) for _, tree in trees(world)), f"{world} never sets {fact}"


@pytest.mark.parametrize("fact", FACTS)
def test_somebody_reads_it(fact: str) -> None:
    assert any(fact in facts_read_in(tree) for _, tree in trees(*BELOW_THE_WORLDS))


def test_protocols_know_their_world_by_its_facts_alone() -> None:
    for path, tree in trees(*BELOW_THE_WORLDS):
        allowed = ANYBODY_MAY_READ
        if "_inside = Outbox()" in path.read_text():
            allowed = allowed | BETWEEN_OUTBOXES
        assert read_of_the_outbox(tree) <= allowed, path
        assert facts_read_in(tree) <= set(FACTS), path


def test_a_protocol_inside_another_knows_the_same() -> None:
    for path, _ in trees("protocols"):
        text = path.read_text()
        if "= Outbox()" in text:
            assert ".world = out.world" in text, f"{path}: its own outbox knows nothing"


@pytest.mark.parametrize("world", ["runtime", "simulator"])
@pytest.mark.parametrize("name", INPUTS)
def test_both_worlds_give_every_input(world: str, name: str) -> None:
    called = {
        node.attr
        for _, tree in trees(world)
        for node in attributes(tree)
        if "stack" in ast.unparse(node.value)
    }
    if name in ("suspect", "trust") and world == "runtime":
        return  # the detector of a real node says so itself
    assert name in called, f"no node in {world} ever meets {name}"


def test_a_fact_that_only_one_world_sets_is_noticed() -> None:
    setting = ast.parse("out.world = WorldFacts(True)\nself.out.world.congested = found")
    assert facts_set_in(setting) == {"keeps_records", "congested"}
    assert facts_read_in(ast.parse("if out.world.links_lose_nothing: pass")) == {
        "links_lose_nothing"
    }
    assert read_of_the_outbox(ast.parse("out.now + out.closes_link")) == {"now", "closes_link"}
