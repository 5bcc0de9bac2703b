"""Commands: what operators may tell a protocol, read in one place for every face."""

import pytest

from causalcast.core import NODE, CommandForm
from causalcast.errors import NodeError
from causalcast.registry import find_protocol
from causalcast.testing import Cluster


def test_a_command_is_read_by_its_form() -> None:
    form = CommandForm("gone", [NODE], "never comes back", gives_up=True)
    assert form.usage() == "gone NODE"
    command = form.read(["3"])
    assert (command.name, command.arguments, str(command)) == ("gone", [3], "gone 3")
    for wrong in ([], ["3", "4"], ["x"], ["-1"]):
        with pytest.raises(ValueError, match="expected gone NODE, with whole numbers"):
            form.read(wrong)


def test_a_protocol_names_the_commands_it_has() -> None:
    locamu, flood = find_protocol("locamu"), find_protocol("naive_flood")
    assert locamu.gives_up_nodes() and not flood.gives_up_nodes()
    with pytest.raises(ValueError, match=r"locamu has no command 'part' \(it has: gone NODE\)"):
        locamu.command("part 0 1")
    for words in ("gone 1", ""):
        with pytest.raises(ValueError, match=r"\(it has: none\)"):
            flood.command(words)


def test_a_cluster_for_tests_says_why_a_command_is_refused() -> None:
    cluster = Cluster(nodes=3, protocol="locamu", overlay="line")
    for words, reason in {
        "gone 9": "this cluster has no node 9",
        "gone 1": "gone 1: a node cannot declare itself gone",
        "dance": "no command 'dance'",
    }.items():
        with pytest.raises(NodeError, match=reason):
            cluster.command(1, words)
    cluster.crash(2)
    cluster.run_ms(2000)
    cluster.command(1, "gone 2")
    assert cluster.world.fired["gone"] == 1
