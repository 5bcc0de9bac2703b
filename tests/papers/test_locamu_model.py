"""Nobody waits in a circle: all that can happen in small trees, f = 1; what f = 2 would lack."""

import pytest
from locamu_model import Search, Tree, settings, trees

LINE_OF_4 = ((0, 1), (0, 2), (1, 3))  # 2 - 0 - 1 - 3


def test_there_are_so_many_trees() -> None:
    assert [len(trees(size)) for size in range(2, 7)] == [1, 1, 2, 3, 6]


def test_the_fault_budget_is_that_of_the_protocol() -> None:
    line = Tree(((0, 1), (1, 2), (2, 3)), f=1)
    assert line.may_fall == [0b0001, 0b0010, 0b0100, 0b1000, 0b1001]


@pytest.mark.parametrize(
    ("nodes", "messages", "everybody", "states"),
    [(3, 2, False, 666), (4, 2, False, 20_502), (5, 2, True, 25_924), (3, 3, True, 1_891)],
)
def test_nobody_waits_for_ever(nodes: int, messages: int, everybody: bool, states: int) -> None:
    visited = 0
    for edges in trees(nodes):
        tree = Tree(edges, f=1)
        for chosen in settings(tree, messages, everybody):
            search = Search(tree, chosen)
            assert search.run() is None, (edges, chosen)
            visited += search.states
    assert visited == states


@pytest.mark.parametrize("rules", ["lead", "replay", ""])
def test_without_one_of_the_rules_somebody_does(rules: str) -> None:
    tree = Tree(((0, 1), (0, 2)), f=1)
    found = [Search(tree, chosen, rules).run() for chosen in settings(tree, 2, False)]
    assert any(stuck is not None for stuck in found)


def test_with_f_of_2_two_in_a_row_take_one_message_with_them() -> None:
    """Also with both rules: who has it has nothing of its publisher's own. The same schedule, for
    the program, stands in `test_locamu_goes_on.py`."""
    search = Search(Tree(LINE_OF_4, f=2), [(0, 0b1111)])
    found = search.run()
    assert found is not None
    state, fallen, waiting, message = found
    assert search.story(state) == ["0: publishes m0", "1: m0 from 0", "2: ", "3: m0 from 1"]
    assert (fallen, waiting, message) == (0b0011, 2, 0)
