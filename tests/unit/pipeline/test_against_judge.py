"""The kernels and the judge agree on random runs, good and damaged: verdicts, nodes, first rows."""

from collections import Counter
from random import Random

import pytest

from causalcast.judge import judge
from causalcast.pipeline.check.check_run import check_run
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run
from causalcast.trace.schema import GUARANTEES


@pytest.mark.parametrize("first_seed", range(0, 3000, 500))
def test_kernels_agree_with_the_judge(first_seed: int) -> None:
    broken: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 500):
        random = Random(seed)
        draft = good_run(random)
        if seed % 4:
            damage(draft, random)
        run = draft.run()
        judgement = judge(run)
        assert differences(run, judgement, check_run(run).findings) == [], f"seed {seed}"
        broken.update(judgement.all_broken())
    assert set(broken) == set(GUARANTEES), "the sample must break every property"


def test_the_ideal_multicast_breaks_nothing() -> None:
    for seed in range(500):
        run = good_run(Random(seed)).run()
        assert judge(run).all_broken() == [], f"seed {seed}"
