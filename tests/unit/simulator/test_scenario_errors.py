"""A wrong scenario is refused before anything runs: file, key, and what was expected."""

from pathlib import Path

import pytest

from causalcast.errors import ConfigError
from causalcast.simulator.scenario_run import ScenarioRun
from causalcast.simulator.scenarios.scenario import Scenario

GOOD = {
    "": 'protocol = "vector_clock_broadcast"\nuntil_ms = 100',
    "overlay": 'kind = "ring"\nnodes = 4',
    "network": "latency_ms = 1",
}


def scenario(changes: dict[str, str], extra: str = "") -> Scenario:
    tables = {**GOOD, **changes}
    text = tables.pop("") + "\n"
    text += "".join(f"[{name}]\n{body}\n" for name, body in tables.items()) + extra
    return Scenario(text, "test.toml")


def test_the_plain_one_is_fine() -> None:
    assert scenario({}).nodes() == 4


@pytest.mark.parametrize(
    ("changes", "extra", "message"),
    [
        ({"": "until_ms = 1"}, "", "key 'protocol' is missing"),
        ({"": 'protocol = "naive_flood"'}, "", "key 'until_ms' is missing"),
        ({"": 'protocol = "naive_flod"\nuntil_ms = 1'}, "", "did you mean naive_flood?"),
        (
            {"": 'protocol = "naive_flood"\nuntil_ms = "soon"'},
            "",
            "until_ms = 'soon': expected a n",
        ),
        (
            {"": 'protocol = "naive_flood"\nuntil_ms = 1\nsede = 1'},
            "",
            "'sede'; did you mean 'seed'",
        ),
        (
            {"network": "latency = 1"},
            "",
            "unknown key 'network.latency'; did you mean 'latency_ms'",
        ),
        ({"world": "records = true"}, "", "unknown key 'world.records'; did you mean 'keeps_rec"),
        ({"world": "congestion = 1"}, "", "world.congestion = 1: expected a chance from 0 to"),
        ({"world": "congestion = true"}, "", "world.congestion = True: expected a chance from"),
        ({"world": 'congestion = "bandwidth"'}, "", "expected a chance where bandwidth is unlim"),
        ({"world": "read_every_ms = -1"}, "", "world.read_every_ms = -1: expected"),
        (
            {"network": "loss = 0.1", "world": "links_lose_nothing = true"},
            "",
            "world.links_lose_nothing = True: expected false, or a network with fifo = true and",
        ),
        (
            {"world": "links_lose_nothing = true"},
            '[[fault]]\nat_ms = 1\nkind = "cut"\nlink = [0, 1]\nloud = false',
            "fault.loud = false: expected true, links lose nothing",
        ),
        (
            {"disk": "sync_ms = 1", "world": "keeps_records = false"},
            "",
            "world.keeps_records = False: expected true, or disk.sync_ms = 0",
        ),
        (
            {"world": "keeps_records = false"},
            "[calm]\nrecover_all = true",
            "world.keeps_records = false: expected true beside calm.recover_all, for vector_clock",
        ),
        (
            {"network": 'latency_ms = {kind="pareto", low=0, high=5}'},
            "",
            "network.latency_ms.low = 0: expected a number above 0 for a heavy tail",
        ),
        ({"network": "loss = 1.5"}, "", "network.loss = 1.5: expected a probability"),
        (
            {"network": 'latency_ms = "fast"'},
            "",
            "network.latency_ms = 'fast': expected a number or",
        ),
        (
            {"network": 'latency_ms = {kind = "odd"}'},
            "",
            "latency_ms.kind = 'odd': expected one of",
        ),
        ({"network": "tick_us = 100\nbandwidth_mbps = 1"}, "", "tick_us = 100: expected 1"),
        ({"network": "nodes_per_host = 2"}, "", "expected both or neither"),
        ({"overlay": 'kind = "rong"\nnodes = 4'}, "", "no overlay 'rong'"),
        ({"overlay": 'kind = "ring"'}, "", "key 'overlay.nodes' is missing"),
        ({"overlay": 'kind = "ring"\nnodes = 0'}, "", "nodes = 0: expected a whole number from 1"),
        ({"overlay": 'kind = "edges"\nnodes = 2\nedges = [[0, 7]]'}, "", "there is no node 7"),
        ({"overlay": 'kind = "edges"\nnodes = 2\nedges = [[0]]'}, "", "expected pairs of nodes"),
        ({"overlay": 'kind = "ring"\nnodes = 4\nsize = 1'}, "", "overlay.size: no option of"),
        ({"overlay": 'from = "nowhere.parquet"'}, "", "nowhere.parquet"),
        ({"groups": "left = [0, 9]"}, "", "groups.left = 9: expected a node from 0 to 3"),
        ({"groups": 'left = "some"'}, "", "expected a list of nodes"),
        ({"groups": "subtrees = true"}, "", "expected a tree overlay"),
        ({"options": "windows = 1"}, "", "options.windows: no option of vector_clock_broadcast"),
        ({"options": "window = 0"}, "", "window = 0: expected a whole number from 1 on"),
        ({"detector": 'kind = "magic"'}, "", "no detector 'magic'"),
        ({}, "[[publish]]\nnode = 4", "publish[0].node = 4: expected a node from 0 to 3"),
        ({}, '[[publish]]\ngroup = "none"', "group = 'none': expected one of all"),
        ({}, "[[publish]]\nnode = 0\ninterval_ms = 0", "above 0 where bandwidth is unlimited"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "melt"', "kind = 'melt': expected one of crash"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "crash"\nnode = 9', "node = 9: expected a node from 0"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "crash"', "key 'fault[0].node' is missing"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "cut"\nlink = [1, 1]', "expected two nodes"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "cut"\nlink = [0, 1]\nnode = 1', "unknown key"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "partition"\nsides = [[0]]', "expected two or more"),
        ({}, '[[fault]]\nat_ms = 1\nkind = "crash"\nnode = 1\nkeep = 2', "a share from 0 to 1"),
        ({}, "[random_faults]\ndowntime_ms = [5, 1]", "expected a pair such as [20, 200]"),
        ({}, "[calm]\nlong = true", "unknown key 'calm.long'"),
    ],
)
def test_refused(changes: dict[str, str], extra: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scenario(changes, extra)
    assert message in str(caught.value)
    assert "test.toml" in str(caught.value) or "no " in str(caught.value)


def test_options_that_do_not_fit_the_overlay_are_refused_when_nodes_are_built() -> None:
    fitting = scenario({"overlay": 'kind = "full_mesh"\nnodes = 4', "options": 'spread = "direct"'})
    ScenarioRun(fitting)
    with pytest.raises(ConfigError, match="needs everybody to be a neighbour"):
        ScenarioRun(scenario({"options": 'spread = "direct"'}))


def test_a_protocol_that_needs_more_than_there_is_is_refused(tmp_path: Path) -> None:
    flood = {"": 'protocol = "naive_flood"\nuntil_ms = 1', "network": "loss = 0.1"}
    with pytest.raises(ConfigError, match="naive_flood needs reliable links"):
        scenario(flood)
    picky = tmp_path / "picky.py"
    picky.write_text(PICKY)
    for overlay, reason in ((GOOD["overlay"], "needs a tree"), ('kind = "line"\nnodes = 3', "")):
        head = {"": f'protocol = "{picky}"\nuntil_ms = 1', "overlay": overlay}
        if reason:
            with pytest.raises(ConfigError, match=reason):
                scenario(head)
        else:
            with pytest.raises(ConfigError, match="needs FIFO links"):
                scenario({**head, "network": "fifo = false"})
            scenario(head)


CPTCAST = 'protocol = "cptcast"\nuntil_ms = 1'


@pytest.mark.parametrize(
    ("changes", "extra", "message"),
    [
        ({}, '[[fault]]\nat_ms = 1\nkind = "cut"\nlink = [0, 1]\nloud = false', "reliable"),
        (
            {},
            '[[fault]]\nat_ms = 1\nkind = "partition"\nsides = [[0], [1]]\nloud = false',
            "reliable",
        ),
        ({"network": "duplication = 0.1"}, "", "FIFO"),
        ({"": 'protocol = "cptcast"\nsteps = ["lose 0 1"]'}, "", "reliable"),
        ({"": 'protocol = "cptcast"\nsteps = ["double 0 1"]'}, "", "FIFO"),
    ],
)
def test_what_reliable_links_never_do_is_refused(
    changes: dict[str, str], extra: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"test.toml.*cptcast needs {message} links"):
        scenario({"": CPTCAST, **changes}, extra)


@pytest.mark.parametrize(("protocol", "loud"), [("cptcast", True), ("cbcast", False)])
def test_a_cut_is_loud_by_default_where_links_must_be_reliable(protocol: str, loud: bool) -> None:
    cut = '[[fault]]\nat_ms = 1\nkind = "cut"\nlink = [0, 1]\n'
    partition = '[[fault]]\nat_ms = 1\nkind = "partition"\nsides = [[0], [1, 2, 3]]\n'
    head = {
        "": f'protocol = "{protocol}"\nuntil_ms = 1',
        "overlay": 'kind = "full_mesh"\nnodes = 4',
    }
    assert [fault.loud for fault in scenario(head, cut + partition).faults] == [loud, loud]


PICKY = """
from causalcast.core import Multicast, Needs, ProtocolSpec
SPEC = ProtocolSpec("picky", "needs a tree and FIFO links", lambda setup: Multicast(), [], [],
                    needs=Needs(overlay="tree", links="fifo"))
"""
