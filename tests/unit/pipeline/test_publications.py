"""From message ids to dense numbers, with small node ids and with ids that fit in no table."""

import numpy as np
import pytest

from causalcast.errors import TraceError
from causalcast.pipeline.logs.logs import logs_of_table
from causalcast.pipeline.logs.publications import number_publications, publish_rows
from causalcast.testing.draft_run import DraftRun, message_id


@pytest.mark.parametrize(("a", "b"), [(0, 3), (7, 2**31 - 1)])
def test_ids_become_dense_numbers_in_order_of_time(a: int, b: int) -> None:
    draft = DraftRun()
    draft.found(0, a, b)
    draft.add(b, "publish", message_id(b, 1), 0)
    draft.add(a, "publish", message_id(a, 1), 0)
    draft.add(b, "publish", message_id(b, 2), 0)
    rows = publish_rows(logs_of_table(draft.run().events, "run"))
    publications = number_publications([rows])
    asked = [(b, 1), (a, 1), (b, 2), (b, 3), (a, 0), (a, 2), (1, 1), (b - 1, 1)]
    ids = np.array([message_id(*one) for one in asked] + [-1])
    assert publications.dense(ids).tolist() == [0, 1, 2, -1, -1, -1, -1, -1, -1]


def test_a_number_left_out_is_refused() -> None:
    draft = DraftRun()
    draft.found(0, 4)
    draft.add(4, "publish", message_id(4, 1), 0)
    draft.add(4, "publish", message_id(4, 3), 0)
    with pytest.raises(TraceError, match="node 4, pos 1: published message"):
        publish_rows(logs_of_table(draft.run().events, "run"))
