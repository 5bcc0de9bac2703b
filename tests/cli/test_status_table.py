"""`causalcast status` is a table for people: no marks of Python, nothing of others obeyed."""

from typing import Any

from causalcast.cli.shared.status_table import status_lines

STATUS: dict[str, Any] = {
    "node": 3,
    "name": "berlin",
    "version": "0.1.0",
    "build": "compiled",
    "starts": 2,
    "takes_part": True,
    "groups": ["chat", "news"],
    "asked_for": [],
    "links": [1, 2],
    "certificate_expires": 1_826_532_360,
    "published": {"chat": 12345, "old": 7},
    "delivered": {"chat": 2, "news": 1},
    "suspected": [2],
    "publishers_wait": ["node 2 lacks 3,000 bytes"],
    "waiting": 0,
    "unacknowledged": 4,
    "journal": {"bytes": 3210, "held_bytes": 0, "syncs": 4, "sync_seconds": 0.002},
    "kept_bytes": 2_500_000,
    "kept_for": {"1": 0, "2": 3000},
    "held": {"messages": 7, "bytes": 7700, "oldest_seconds": 4.25, "oldest": [["1.9", 4.25]]},
    "inbox": {"chat": 2},
    "traffic": {
        "1": {"sent_bytes": 9, "received_bytes": 0, "sent_messages": 1, "received_messages": 0},
        "2": {"sent_bytes": 1e6, "received_bytes": 0, "sent_messages": 0, "received_messages": 0},
    },
    "queues": {"1": 0, "2": 64000},
    "repeated": {"reliable_sending": 2},
    "delivery_seconds": {"below": [], "count": 4, "sum": 0.02},
    "whole_way_seconds": {"below": [], "count": 2, "sum": 0.2},
    "from_the_future": 3,
    "process": {"cpu_seconds": 1.5, "resident_bytes": 50_000_000},
    "trace": {"bytes": 10, "lost_rows": 1500},
    "trouble": {},
    "conditions": {"f_left": 1},
    "notes": {"locamu.asked": 2},
}


def test_it_reads_like_this() -> None:
    assert (
        "\n".join(status_lines(STATUS))
        == """\
               node  3 (berlin), version 0.1.0, compiled
             starts  2
         takes_part  yes
             groups         published  delivered
                     chat      12,345          2
                     news           0          1
                     old            7          0  (not in it)
          asked_for  none
              links  1, 2
certificate_expires  2027-11-18 10:06 UTC
          suspected  2
    publishers_wait  node 2 lacks 3,000 bytes
            waiting  0
     unacknowledged  4
            journal  3.2 kB, 4 syncs of 0.5 ms
         kept_bytes  2.5 MB
           kept_for  1 0, 2 3,000
               held  7 messages, 7.7 kB; longest 1.9 for 4.2 s
              inbox  chat 2
            traffic  node 1: 1 sent (9 B), 0 received (0 B)
                     node 2: 0 sent (1.0 MB), 0 received (0 B)
             queues  2 64.0 kB
           repeated  reliable_sending 2
   delivery_seconds  5.0 ms in the mean of 4
  whole_way_seconds  100.0 ms in the mean of 2
    from_the_future  3
            process  50.0 MB, 1.5 s of CPU
              trace  10 B, 1,500 rows lost
            trouble  none
         conditions  f_left 1
              notes  locamu.asked 2"""
    )


def test_what_others_wrote_is_shown_and_not_obeyed() -> None:
    wild = {**STATUS, "groups": ["a\x1b[2J\nb"], "notes": {"x\ry": 1}, "trace": {}}
    text = "\n".join(status_lines(wild))
    assert "\x1b" not in text and "\r" not in text and "a\\x1b[2J\\nb" in text
    assert "not written" in text


def test_a_node_without_groups_and_with_much_on_its_way() -> None:
    empty = {**STATUS, "groups": [], "published": {}, "delivered": {}}
    empty["journal"] = {"bytes": 5e9, "held_bytes": 1000, "syncs": 0, "sync_seconds": 0.0}
    text = "\n".join(status_lines(empty))
    assert "groups  none" in text
    assert "5.0 GB, 0 syncs of 0.0 ms, 1.0 kB on their way to it" in text
