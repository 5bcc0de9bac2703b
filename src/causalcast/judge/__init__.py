"""The brute-force checker: plain Python sets, no numpy, no Spark, nothing shared with `pipeline`.

It exists to be believed. The pipeline is fast and therefore intricate; this one is short, follows
the definitions word by word, and the two are compared on thousands of random runs.
"""

from causalcast.judge.judge import judge
from causalcast.judge.judgement import Judgement, Violation, without_losses

__all__ = ["Judgement", "Violation", "judge", "without_losses"]
