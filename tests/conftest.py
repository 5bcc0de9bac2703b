"""What tests share, and on which worker they run.

Tests run side by side, in any order, but what is dear to make is made on one worker only: the Spark
session and the compiled package. All tests that need it run there, one after the other.
"""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Any:
    from causalcast.pipeline.session import make_session

    return make_session("local[2]", brief=True)


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xdist_group") is not None:
            continue
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "compiled" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("compiled"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write transcripts down as they happen now"
    )
