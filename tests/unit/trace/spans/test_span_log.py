"""The rules by which spans become a log, one by one, and what each would be without."""

from typing import Any

import pytest
from span_makers import Made, handled, otlp, sent

from causalcast.errors import TraceError
from causalcast.trace.spans.otlp_json import read_otlp_json
from causalcast.trace.spans.rules import SpanRules
from causalcast.trace.spans.span_log import SpanCounts, span_records


def read(*spans: Made, **decided: Any) -> tuple[list[dict[str, Any]], SpanCounts]:
    import json

    rules = SpanRules(**decided)
    records, counts = span_records(read_otlp_json(json.dumps(otlp(*spans)), rules.wanted), rules)
    return [record.raw for record in records], counts


def story(*spans: Made, **decided: Any) -> list[str]:
    """Each row as "process kind span", and what else it says."""
    told = []
    for raw in read(*spans, **decided)[0]:
        words = [raw["node"], raw["kind"], raw.get("message", raw.get("group"))[-2:].lstrip("0")]
        words += [f"{key}={raw[key]}" for key in ("share", "attempt", "key") if key in raw]
        words += ["tied"] * raw.get("tied", False)
        words += [f"after {cause[-2:].lstrip('0')}" for cause in raw.get("causes", [])]
        told.append(" ".join(words))
    return told


def test_a_message_is_its_producer_span_and_has_its_name_beside() -> None:
    same_id = {"messaging.message.id": "order-1"}
    rows, _ = read(sent("p0", 1, 0, more=same_id), sent("p0", 2, 50, more=same_id))
    assert [(row["message"][-2:], row["note"]) for row in rows] == [
        ("01", "order-1"),
        ("02", "order-1"),
    ]
    assert rows[0]["group"] == "chat" and rows[0]["at_us"] == 0


def test_a_message_without_a_link_is_its_parent() -> None:
    below = Made("p1", 3, 5, 20, 30, parent=2)
    between = Made("p1", 2, 1, 20, 40, parent=1)
    assert story(sent("p0", 1, 0), between, below) == ["p0 publish 1", "p1 deliver 1"]
    assert story(Made("p1", 3, 5, 20, 30, parent=9)) == ["p1 deliver 9"]  # its span is missing


def test_a_message_may_be_its_id() -> None:
    told = {"more": {"messaging.message.id": "m7"}}
    spans = (sent("p0", 1, 0, **told), Made("p1", 2, 5, 20, 30, trace=4, **told))
    assert story(*spans, message="id") == ["p0 publish m7", "p1 deliver m7"]
    with pytest.raises(TraceError):
        read(spans[1])  # no link, no parent: nothing to go by


def test_who_names_no_message_is_counted() -> None:
    _, counts = read(sent("p0", 1, 0), Made("p1", 2, 5, 20, 30, trace=4))
    assert counts.unnamed == 1
    assert any("1 consumer spans left out" in line for line in counts.told())


def test_delivered_when_processing_ends_or_starts() -> None:
    """Two threads: the first to start is the last to end."""
    spans = (sent("p0", 1, 0), sent("p0", 2, 1), handled("p1", 3, 20, 90, 1, trace=2),
             handled("p1", 4, 30, 60, 2, trace=3))  # fmt: skip
    assert story(*spans)[2:] == ["p1 deliver 2", "p1 deliver 1"]
    assert story(*spans, delivered="start")[2:] == ["p1 deliver 1", "p1 deliver 2"]


def test_what_is_answered_while_it_is_processed_is_delivered_before() -> None:
    answer = sent("p1", 3, 50, trace=2, parent=2)
    spans = (sent("p0", 1, 0), handled("p1", 2, 20, 90, 1, trace=2), answer)
    assert story(*spans) == ["p0 publish 1", "p1 deliver 1", "p1 publish 3 after 1"]


def test_an_answer_of_another_process_moves_nothing() -> None:
    """A child span may belong to another process: there the message was not delivered."""
    child = sent("p2", 3, 50, trace=2, parent=2)
    spans = (sent("p0", 1, 0), sent("p1", 5, 60), handled("p1", 2, 20, 90, 1, trace=2), child)
    assert story(*spans)[1:3] == ["p1 publish 5", "p1 deliver 1"]


def test_equal_times_order_nothing() -> None:
    """Unless one of them was published while the other was processed."""
    spans = (sent("p0", 1, 0), handled("p1", 2, 20, 50, 1, trace=2), sent("p1", 3, 50, trace=3))
    assert story(*spans)[1:] == ["p1 publish 3", "p1 deliver 1 tied"]
    assert read(*spans)[1].equal_times == 1
    begun_at_once = handled("p1", 2, 50, 90, 1, trace=2)
    children = [sent("p1", n, 50, trace=2, parent=2) for n in (3, 4)]
    assert story(spans[0], begun_at_once, *children)[1:] == [
        "p1 deliver 1", "p1 publish 3 after 1", "p1 publish 4 tied after 1"
    ]  # fmt: skip
    stranger = sent("p1", 5, 50, trace=7)
    told = story(spans[0], begun_at_once, children[0], stranger)[1:]
    assert sum("tied" in row for row in told) == 2


def test_a_batch_has_one_time() -> None:
    spans = (sent("p0", 2, 5), sent("p0", 1, 9), handled("p1", 3, 20, 50, 1, 2, trace=2))
    assert story(*spans)[2:] == ["p1 deliver 1", "p1 deliver 2 tied"]
    answer = sent("p1", 4, 20, trace=2, parent=3)
    assert story(*spans, answer)[2:] == [
        "p1 deliver 1", "p1 deliver 2 tied", "p1 publish 4 after 1 after 2"
    ]  # fmt: skip


def test_nanoseconds_count() -> None:
    spans = (sent("p0", 1, 1), sent("p0", 2, 2), handled("p1", 3, 20, 31, 1, trace=2),
             handled("p1", 4, 20, 30, 2, trace=3))  # fmt: skip
    assert story(*spans)[2:] == ["p1 deliver 2", "p1 deliver 1"]


def test_a_batch_is_one_delivery_per_link() -> None:
    spans = (sent("p0", 1, 0), sent("p0", 2, 1), handled("p1", 3, 20, 50, 1, 2, 2, trace=2))
    assert story(*spans)[2:] == ["p1 deliver 1", "p1 deliver 2 tied"]


def test_which_of_a_batch_is_not_told_by_a_span_inside() -> None:
    inside = Made("p1", 4, 5, 30, 40, trace=2, parent=3)
    of_two = (sent("p0", 1, 0), sent("p0", 2, 1), handled("p1", 3, 20, 50, 1, 2, trace=2), inside)
    assert read(*of_two)[1].unnamed == 1
    of_one = (sent("p0", 1, 0), handled("p1", 3, 20, 50, 1, trace=2), inside)
    assert read(*of_one)[1].unnamed == 0


def test_what_is_created_and_then_sent_is_published_once() -> None:
    created = [
        Made("p0", n, 4, n, n + 1, more={"messaging.operation.type": "create"}) for n in (1, 2)
    ]
    batch = Made("p0", 3, 3, 9, 12, links=[(1, 1), (1, 2)],
                 more={"messaging.operation.type": "send"})  # fmt: skip
    assert story(*created, batch) == ["p0 publish 1", "p0 publish 2"]
    below = Made("p0", 4, 3, 9, 12, parent=1, more={"messaging.operation.type": "send"})
    assert story(created[0], below) == ["p0 publish 1"]


def test_received_counts_only_where_nothing_is_processed() -> None:
    received = {"messaging.operation.type": "receive"}
    both = (sent("p0", 1, 0), handled("p1", 2, 20, 25, 1, trace=2, more=received),
            handled("p1", 3, 30, 50, 1, trace=3),
            handled("p2", 4, 20, 25, 1, trace=4, more=received))  # fmt: skip
    assert story(*both) == ["p0 publish 1", "p1 deliver 1", "p2 deliver 1"]
    assert read(*both)[0][1]["at_us"] == 0 and both[2].end == 50


def test_settling_delivers_nothing() -> None:
    settled = handled("p1", 2, 20, 25, 1, trace=2, more={"messaging.operation.type": "settle"})
    assert story(sent("p0", 1, 0), settled) == ["p0 publish 1"]


def test_without_an_operation_the_kind_decides() -> None:
    bare = {"messaging.operation.type": "", "messaging.destination.name": ""}
    rows, _ = read(sent("p0", 1, 0, more=bare), handled("p1", 2, 20, 30, 1, trace=2, more=bare))
    assert [row["kind"] for row in rows] == ["publish", "deliver"]
    assert "group" not in rows[0]


def test_attempts() -> None:
    failed = handled("p1", 2, 20, 30, 1, trace=2, failed=True)
    again = handled("p1", 3, 40, 50, 1, trace=3)
    first = "p0 publish 1"
    assert story(sent("p0", 1, 0), failed, again) == [
        first, "p1 deliver 1 attempt=1", "p1 deliver 1 attempt=2"
    ]  # fmt: skip
    fine = handled("p1", 2, 20, 30, 1, trace=2)
    twice = (sent("p0", 1, 0), fine, again)
    assert story(*twice) == [first, "p1 deliver 1 attempt=1", "p1 deliver 1 attempt=1"]
    assert story(*twice, retries="all")[2] == "p1 deliver 1 attempt=2"
    assert story(*twice, retries="none") == [first, "p1 deliver 1", "p1 deliver 1"]
    counted = {"messaging.gcp_pubsub.message.delivery_attempt": 4}
    assert story(sent("p0", 1, 0), handled("p1", 2, 20, 30, 1, trace=2, more=counted))[1] == (
        "p1 deliver 1 attempt=4"
    )


def test_who_shares_makes_attempts_together() -> None:
    group = {"messaging.consumer.group.name": "workers"}
    failed = handled("p1", 2, 20, 30, 1, trace=2, failed=True, more=group)
    again = handled("p2", 3, 40, 50, 1, trace=3, more=group)
    assert story(sent("p0", 1, 0), failed, again)[1:] == [
        "p1 deliver 1 share=workers attempt=1",
        "p2 deliver 1 share=workers attempt=2",
    ]


def test_who_never_fails_or_repeats_gets_each_message_once() -> None:
    """So what comes late there is late, though another reader tries again."""
    failed = handled("p1", 2, 20, 30, 1, trace=2, failed=True)
    again = handled("p1", 3, 40, 50, 1, trace=3)
    steady, shares = handled("p2", 4, 20, 30, 1, trace=4), {"messaging.consumer.group.name": "w"}
    assert story(sent("p0", 1, 0), failed, again, steady)[3:] == ["p2 deliver 1 attempt=1"]
    assert story(sent("p0", 1, 0), failed, again, steady, retries="none")[3:] == ["p2 deliver 1"]
    assert story(sent("p0", 1, 0), steady)[1:] == ["p2 deliver 1"]
    unlucky = handled("p2", 5, 40, 50, 9, trace=5, failed=True)
    assert story(sent("p0", 1, 0), failed, again, steady, unlucky)[3] == "p2 deliver 1"
    sharing = [handled("p2", 4, 20, 30, 1, trace=4, more=shares),
               handled("p3", 5, 40, 50, 9, trace=5, failed=True, more=shares)]  # fmt: skip
    assert story(sent("p0", 1, 0), failed, again, *sharing)[3] == "p2 deliver 1 share=w"


def test_declared_causes_are_what_was_being_processed() -> None:
    """Through spans between, and through publications above; not through other traces."""
    spans = (
        sent("p0", 1, 0),
        handled("p1", 2, 20, 90, 1, trace=2),
        Made("p1", 3, 1, 30, 80, trace=2, parent=2),
        sent("p1", 4, 40, trace=2, parent=3),
        handled("p2", 5, 60, 70, trace=2, parent=4),
        sent("p2", 6, 65, trace=2, parent=5),
    )
    assert story(*spans) == [
        "p0 publish 1", "p1 deliver 1", "p1 publish 4 after 1", "p2 deliver 4",
        "p2 publish 6 after 4",
    ]  # fmt: skip


def test_a_dead_letter_is_a_publication_with_a_cause() -> None:
    letter = sent("p1", 3, 40, trace=2, parent=2, more={"messaging.destination.name": "dead"})
    spans = (sent("p0", 1, 0), handled("p1", 2, 20, 50, 1, trace=2, failed=True), letter)
    rows, _ = read(*spans)
    assert rows[2]["group"] == "dead" and rows[2]["causes"] == [spans[0].key]


def test_order_per_key_if_asked_for() -> None:
    keyed = sent("p0", 1, 0, more={"messaging.kafka.message.key": "ada"})
    assert story(keyed) == ["p0 publish 1"]
    assert story(keyed, key="messaging.kafka.message.key") == ["p0 publish 1 key=ada"]


def test_a_span_that_was_exported_twice_counts_once() -> None:
    assert story(sent("p0", 1, 0), sent("p0", 1, 0)) == ["p0 publish 1"]


def test_spans_that_are_their_own_ancestors_are_a_fault_of_the_log() -> None:
    """What such consumers processed is not told; those below them do not say it either."""
    circle = [Made("p1", n, 5, 20, 30, trace=7, parent=3 + n % 3) for n in (3, 4, 5)]
    below = Made("p1", 6, 5, 20, 30, trace=7, parent=4)
    itself = Made("p1", 8, 5, 20, 30, trace=5, parent=8)
    fine = handled("p1", 2, 20, 30, 1, trace=2)
    spans = (sent("p0", 1, 0), fine, *circle, below, itself)
    assert story(*spans) == ["p0 publish 1", "p1 deliver 1"]
    _, counts = read(*spans)
    assert (counts.circular, counts.unnamed) == (4, 5)
    assert f"4 spans are their own ancestors (one is in trace {5:032x})" in counts.told()[-1]
    with pytest.raises(TraceError, match="3 spans are their own ancestors"):
        read(*circle, below)


def test_who_consumes_deep_below_knows_its_message() -> None:
    deep = [Made("p1", n, 5, 20, 30, trace=1, parent=n - 1) for n in range(2, 2000)]
    assert read(sent("p0", 1, 0), *deep)[1].deliveries == len(deep)


def test_subscriptions_may_be_declared() -> None:
    told = story(sent("p0", 1, 7), subscriptions={"p0": ["chat", "news"]})
    assert told == ["p0 join at", "p0 join ws", "p0 publish 1"]


def test_processes_that_cannot_be_told_apart_are_not_merged() -> None:
    with pytest.raises(TraceError, match=r"set OTEL_RESOURCE_ATTRIBUTES=service.instance.id=NAME"):
        read(sent("", 1, 0))


def test_a_process_may_be_named_by_other_attributes() -> None:
    hosted = sent("", 1, 0, more={"host.name": "h1", "process.pid": 77})
    assert story(hosted) == ["h1:77 publish 1"]
    threads = [sent("p0", n, n, more={"thread.id": n}) for n in (1, 2)]
    by_thread = ("service.instance.id", "thread.id")
    assert story(*threads, process=by_thread) == ["p0:1 publish 1", "p0:2 publish 2"]
    with pytest.raises(TraceError, match=r"have no 'thread.id', as --process wants"):
        read(sent("p0", 1, 0), process=by_thread)


def test_only_messaging_spans_must_say_their_process() -> None:
    assert story(sent("p0", 1, 0), Made("", 2, 1, 0, 5)) == ["p0 publish 1"]


def test_two_services_may_have_instances_of_one_name() -> None:
    other = sent("p0", 2, 5, more={"service.name": "billing"})
    assert story(sent("p0", 1, 0), other) == ["billing/p0 publish 2", "shop/p0 publish 1"]


def test_spans_without_messages_are_refused() -> None:
    with pytest.raises(TraceError, match="none of the spans publishes or processes a message"):
        read(Made("p0", 1, 1, 0, 5))


def test_every_rule_is_told_with_its_option() -> None:
    said = "\n".join(SpanRules().told())
    for option in ("process", "message", "delivered", "subscriptions", "retries", "key"):
        assert f"(--{option})" in said
    for word in ("equal times are not ordered", "one delivery per link", "some may be missing"):
        assert word in said
    assert "all of them (--whole)" in "\n".join(SpanRules().told(whole=True))
