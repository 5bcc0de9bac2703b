"""Five nodes on a line publish as fast as they can, and some of them fall: the others go on.

`benchmarks/locamu_goes_on.py` has it, with every node and every pair that may fall.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def benchmark() -> ModuleType:
    path = Path(__file__).parent.parent.parent / "benchmarks" / "locamu_goes_on.py"
    spec = importlib.util.spec_from_file_location("locamu_goes_on", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("freezes", [False, True], ids=["killed", "frozen"])
def test_the_others_go_on(tmp_path: Path, freezes: bool) -> None:
    # Nobody comes back before the others have gone on: it raises if they do not.
    assert len(benchmark().measure(tmp_path / "cluster", True, [(3,), (2, 5)], freezes)) == 2
