"""Lists for overlapping groups are the same however work is cut, and wherever pasts are kept."""

from random import Random

import numpy as np
import pytest

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.pipeline.logs import requirements
from causalcast.pipeline.logs.logs import logs_of_table
from causalcast.pipeline.logs.memberships import read_memberships
from causalcast.pipeline.logs.publications import number_publications, publish_rows
from causalcast.pipeline.logs.publish_graph import CauseTable, build_graph, direct_causes
from causalcast.pipeline.logs.requirements import requirement_lists
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.run_folder import Run


def lists_of(run: Run) -> CauseTable | None:
    """The lists of a run with several groups and no cycle."""
    logs = logs_of_table(run.events, "run")
    publications = number_publications([publish_rows(logs)])
    graph = build_graph(publications, [direct_causes(logs, publications)])
    if graph.cyclic.any() or len(np.unique(publications.group)) < 2:
        return None
    return requirement_lists(graph, read_memberships(run.nodes, run.members))


def test_one_publication_at_a_time_and_pasts_in_a_file_give_the_same_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = followed = 0
    for seed in range(60):
        run = good_run(Random(seed)).run()
        with monkeypatch.context() as patched:
            whole = lists_of(run)
            patched.setattr(requirements, "OPEN_AT_ONCE", 1)
            patched.setattr(requirements, "IN_MEMORY", 0)  # also finds exact last uses
            cut = lists_of(run)
        if whole is None or cut is None:
            continue
        compared += 1
        followed += len(whole.words)
        for one, other in zip(vars(whole).values(), vars(cut).values(), strict=True):
            assert np.array_equal(one, other), seed
    assert compared >= 20 and followed >= 100, (compared, followed)


def test_cut_small_the_check_agrees_with_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "OPEN_AT_ONCE", 1)
    monkeypatch.setattr(requirements, "IN_MEMORY", 0)
    broken = 0
    for seed in range(80):
        random = Random(seed)
        draft = good_run(random)
        damage(draft, random)
        run = draft.run()
        judgement = judge(run)
        broken += bool(judgement.all_broken())
        assert differences(run, judgement, check_run(run).findings) == [], seed
    assert broken >= 25
