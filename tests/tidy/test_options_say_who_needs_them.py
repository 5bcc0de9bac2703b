"""Every option says who needs another value than its default."""

import re

import pytest

from causalcast.core import Option
from causalcast.registry import (
    detector_names,
    find_detector,
    find_overlay,
    find_protocol,
    overlay_names,
    protocol_names,
)

OPTIONS: list[tuple[str, Option]] = [
    (name, option)
    for names, find in (
        (protocol_names(), find_protocol),
        (overlay_names(), find_overlay),
        (detector_names(), find_detector),
    )
    for name in names
    for option in find(name).options  # type: ignore[operator]
]


def says_when(text: str) -> bool:
    """A clause that goes on from "change it if": some words, no capital, no full stop."""
    return len(text.split()) >= 4 and bool(re.fullmatch(r"[a-z].*[^.]", text))


@pytest.mark.parametrize(
    ("name", "option"), OPTIONS, ids=[f"{name}.{option.name}" for name, option in OPTIONS]
)
def test_it_says_when_to_change_it(name: str, option: Option) -> None:
    assert says_when(option.change_if), f"{name}: {option.name} does not say who needs it"
    assert option.change_if != option.meaning


def test_an_option_that_says_nothing_is_noticed() -> None:
    assert not says_when("") and not says_when("Always.") and not says_when("if needed")
    assert says_when("links are slower than that")
