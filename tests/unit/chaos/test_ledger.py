"""Everything that an application was told and that turns out wrong is found in the ledgers."""

from pathlib import Path

import pyarrow as pa
import pytest

from causalcast.chaos.ledger import Ledger, hold_against, read_ledger
from causalcast.core.ids import MessageId, NodeId, message_id
from causalcast.trace.run_folder import Run

Row = tuple[int, str, int]


def ledger_of(folder: Path, *lines: str) -> Ledger:
    (folder / "ledger").write_text("".join(f"{line}\n" for line in lines))
    return read_ledger(folder)


def m(origin: int, number: int) -> MessageId:
    return message_id(NodeId(origin), number)


class SomeRun:
    """A run of these rows; nothing else of a run is looked at."""

    def __init__(self, *rows: Row) -> None:
        names = ("node", "kind", "message")
        self.events = pa.table({name: [row[n] for row in rows] for n, name in enumerate(names)})


def wrong(run: SomeRun, ledgers: dict[int, Ledger]) -> list[str]:
    as_run: Run = run  # type: ignore[assignment]
    return hold_against(as_run, ledgers, ledgers)


def test_a_good_history_has_nothing_wrong(tmp_path: Path) -> None:
    """Handed over again before its acknowledgement was durable: that is allowed."""
    ledger = ledger_of(tmp_path, "P 1.1", "D 1.1 all", "D 2.1 all", "D 2.1 all", "A 2.1", "A 1.1")
    run = SomeRun((1, "publish", m(1, 1)), (1, "deliver", m(1, 1)), (1, "deliver", m(2, 1)))
    assert wrong(run, {1: ledger}) == []


def test_a_publication_that_was_acknowledged_and_is_gone(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "P 1.1", "P 1.2")
    assert wrong(SomeRun((1, "publish", m(1, 1))), {1: ledger}) == [
        "node 1 acknowledged to publish, and lost: 1 (1.2)"
    ]


def test_a_delivery_that_no_application_saw(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, "D 2.1 all")
    run = SomeRun((1, "deliver", m(2, 1)), (1, "deliver", m(2, 2)))
    assert wrong(run, {1: ledger}) == ["node 1 delivered what its application never got: 1 (2.2)"]


def test_much_that_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    run = SomeRun(*[(1, "deliver", m(2, number)) for number in range(1, 1000)])
    assert wrong(run, {1: ledger_of(tmp_path)}) == [
        "node 1 delivered what its application never got: 999 (2.1, 2.2, 2.3, 2.4, 2.5, …)"
    ]


def test_nodes_that_never_hear_one_another_tried_nothing(tmp_path: Path) -> None:
    rows = [(node, kind, m(node, 1)) for node in (1, 2) for kind in ("publish", "deliver")]
    (tmp_path / "2").mkdir()
    ledgers = {1: ledger_of(tmp_path, "D 1.1 all"), 2: ledger_of(tmp_path / "2", "D 2.1 all")}
    told = ["no node ever delivered anything of another: nothing was tried here"]
    assert wrong(SomeRun(*rows), ledgers) == told
    assert wrong(SomeRun(*rows, (2, "deliver", m(1, 1))), ledgers) != told


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["D 2.1 all", "A 2.1", "D 2.1 all"], "2.1 handed over again after its ack"),
        (["D 2.2 all", "D 2.1 all"], "2.1 came after 2"),
    ],
)
def test_what_is_wrong_in_itself(tmp_path: Path, lines: list[str], told: str) -> None:
    ledger = ledger_of(tmp_path, *lines)
    run = SomeRun(*[(1, "deliver", message) for message in ledger.received])
    assert wrong(run, {1: ledger}) == [f"{tmp_path.name}: {told}"]


def test_groups_have_orders_of_their_own(tmp_path: Path) -> None:
    """The application iterates over each group by itself, so nothing is said of both."""
    assert ledger_of(tmp_path, "D 2.2 left", "D 2.1 right").wrong == []
