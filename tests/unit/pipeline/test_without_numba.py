"""Without numba the same loops run in plain Python, and say the same."""

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["numba"] = None
from random import Random
from causalcast.judge import judge
from causalcast.pipeline.kernels import close_look
from causalcast.pipeline.check.check_run import check_run
from causalcast.testing.comparison import differences
from causalcast.testing.random_traces import damage, good_run
assert not hasattr(close_look.first_rows, "py_func")
for seed in range(150):
    random = Random(seed)
    draft = good_run(random)
    damage(draft, random)
    run = draft.run()
    assert differences(run, judge(run), check_run(run).findings) == [], seed
"""


def test_plain_python_agrees_with_the_judge() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT], check=True, timeout=120)
