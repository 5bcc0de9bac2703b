"""Options take what people write and refuse the rest with what they expected."""

import pytest

from causalcast.core import MILLISECOND, SECOND, Option
from causalcast.core.spec import LayerSpec

WAIT = Option("wait", 80 * MILLISECOND, "how long", unit="ms")
COUNT = Option("count", 3, "how many", least=1)
MODE = Option("mode", "a", "which", choices=["a", "b"])
FLAG = Option("flag", False, "whether")
SHARE = Option("share", 0.5, "how much")


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        (WAIT, 50, 50 * MILLISECOND),
        (WAIT, 0.5, MILLISECOND // 2),
        (WAIT, "2s", 2 * SECOND),
        (WAIT, "50ms", 50 * MILLISECOND),
        (WAIT, "50", 50 * MILLISECOND),
        (COUNT, "4", 4),
        (COUNT, 1, 1),
        (MODE, "b", "b"),
        (FLAG, "true", True),
        (FLAG, False, False),
        (SHARE, 1, 1.0),
        (SHARE, "0.25", 0.25),
    ],
)
def test_accepted(option: Option, given: object, value: object) -> None:
    accepted = option.accept(given)
    assert accepted == value and type(accepted) is type(value)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        (WAIT, "soon"),
        (WAIT, -1),
        (WAIT, True),
        (WAIT, "5parsecs"),
        (COUNT, 0),
        (COUNT, 1.5),
        (COUNT, True),
        (MODE, "c"),
        (FLAG, 1),
        (SHARE, "half"),
    ],
)
def test_refused(option: Option, given: object) -> None:
    with pytest.raises(ValueError, match="a |one of|true or"):
        option.accept(given)


def test_an_unknown_or_wrong_option_is_named() -> None:
    spec = LayerSpec("mine", "a test", [], [COUNT, MODE])
    assert spec.settings({"count": 7}) == {"count": 7, "mode": "a"}
    with pytest.raises(ValueError, match="cuont: no option of mine \\(it has: count, mode\\)"):
        spec.settings({"cuont": 7})
    with pytest.raises(ValueError, match="mode = 'z': expected one of a, b"):
        spec.settings({"mode": "z"})
