"""What the dashboard makes of what nodes say, and who gets to see it."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_nodes import FakeNodes, status_of

from causalcast.dashboard import cluster_view
from causalcast.dashboard.alarms import alarms_of, suspicions
from causalcast.dashboard.cluster_view import ClusterView
from causalcast.dashboard.serving import DashboardServer
from causalcast.errors import ConfigError, NodeError
from causalcast.runtime.links.address_book import Address


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[FakeNodes]:
    with FakeNodes(tmp_path, 3) as made:
        yield made


def looks(view: ClusterView, condition: Any) -> dict[str, Any]:
    """The first picture of which that holds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        picture = view.picture()
        if condition(picture):
            return picture
        time.sleep(0.05)
    raise AssertionError("it never was so")


def by_name(picture: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in picture["nodes"]}


def test_nodes_that_do_not_answer_are_shown_as_such(nodes: FakeNodes) -> None:
    nodes.stop(2)
    nodes.mute.add(3)
    (nodes.place / "node-4").mkdir()
    (nodes.place / "node-4" / "node.toml").write_text("[node]\nid = 4\n")
    view = ClusterView(nodes.place)
    picture = view.picture()
    states = {name: (node["state"], node.get("why")) for name, node in by_name(picture).items()}
    assert states["1"] == ("up", None)
    assert states["2"][0] == "down" and states["2"][1].startswith("does not run in")
    assert states["3"][0] == "silent" and "did not answer within" in states["3"][1]
    assert states["4"] == ("down", "does not run")
    told = {(alarm["node"], alarm["level"]) for alarm in picture["alarms"]}
    assert told == {("2", "bad"), ("3", "wait"), ("4", "bad")}
    assert [alarm["level"] for alarm in picture["alarms"]] == ["bad", "bad", "wait"]
    view.close()


def test_rates_links_groups_and_restarts(nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "EVERY", 0.2)
    view = ClusterView(nodes.place)
    first = view.picture()
    assert by_name(first)["1"]["rates"]["published"] == 0  # nothing is known of before
    busy = status_of(1, [2, 3], published={"chat": 105})
    busy["traffic"]["2"]["sent_bytes"] = 51_000
    nodes.said[1] = busy  # at once: it may be looked at in between
    picture = looks(view, lambda p: by_name(p)["1"]["rates"]["published"] > 0)
    (group,) = picture["groups"]
    assert group["name"] == "chat" and group["members"] == ["1", "2", "3"]
    assert group["published"] == by_name(picture)["1"]["rates"]["published"] <= 100 / 0.2
    links = {(link["a"], link["b"]): link for link in picture["links"]}
    assert set(links) == {("1", "2"), ("1", "3"), ("2", "3")}
    assert links["1", "2"]["rate_bytes"] > 0 == links["2", "3"]["rate_bytes"]
    assert picture["history"][-1]["bytes"] == links["1", "2"]["rate_bytes"]
    looks(view, lambda p: by_name(p)["1"]["rates"]["published"] == 0)
    nodes.said[2] = status_of(2, [1, 3], starts=2, published={"chat": 0})
    picture = looks(view, lambda p: by_name(p)["2"]["restarts"] == 1)
    assert by_name(picture)["2"]["rates"]["published"] == 0
    assert any("started again" in event["text"] for event in picture["events"])
    view.close()


def test_held_kept_and_events(nodes: FakeNodes) -> None:
    held = {
        "messages": 2,
        "bytes": 9,
        "oldest_seconds": 12.0,
        "oldest": [["1.7", 12.0], ["2.1", 3]],
    }
    nodes.said[2] |= {"held": held, "kept_for": {"1": 0, "3": 40}, "kept_bytes": 5000}
    nodes.said[3]["held"] = {**held, "oldest": [["1.7", 8.0]], "oldest_seconds": 8.0}
    event = {"name": "keeps_much", "subject": 3, "at_us": 5_000_000, "meaning": "much\x1b[2J"}
    nodes.events[2] = [event]
    view = ClusterView(nodes.place)
    picture = view.picture()
    assert [(one["node"], one["seconds"]) for one in picture["held"]] == [
        ("2", 12.0),
        ("3", 8.0),
        ("2", 3),
    ]
    assert picture["kept"] == [{"node": "2", "peer": "3", "messages": 40}]
    assert [alarm["text"] for alarm in picture["alarms"]] == ["1.7 has waited 12 s for a cause"]
    (told,) = picture["events"]
    assert told["node"] == "2" and told["at"] == 5.0 and "\x1b" not in told["text"]
    assert "\x1b" not in view.explain("2", "1.7")["reasons"][0]
    with pytest.raises(NodeError, match="no node 9"):
        view.explain("9", "1.7")
    view.close()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"publishers_wait": ["the disk"]}, "publishers wait: the disk"),
        ({"takes_part": False}, "has not found its place"),
        ({"links": []}, "has no links"),
        ({"loop_lag": {"last_seconds": 2.0}}, "2.0 s late"),
        ({"trace": {"lost_rows": 3}}, "3 rows of its trace"),
        ({"certificate_expires": 86400.0}, "lapses in 1 days"),
        ({"certificate_expires": -5.0}, "has lapsed"),
        ({"conditions": {"within_fault_budget": 0}}, "more nodes are away"),
        ({"trouble": {"bad_frames": 4, "dials_failed": 9}}, "bad frames: 3 since you look"),
    ],
)
def test_alarms(changes: dict[str, Any], text: str) -> None:
    before = status_of(1, [2], trouble={"bad_frames": 1})
    assert alarms_of("1", before, before, 0.0) == []
    (alarm,) = alarms_of(
        "1", status_of(1, [2], **{"trouble": {"bad_frames": 1}, **changes}), before, 0.0
    )
    assert text in alarm.text


def test_who_is_believed_to_be_down_is_told_once() -> None:
    told = suspicions({"1": [9], "2": [9, 4], "3": []})
    assert [(alarm.node, alarm.text) for alarm in told] == [
        ("9", "is believed to be down by 1, 2"),
        ("4", "is believed to be down by 2"),
    ]
    (many,) = suspicions({str(node): [9] for node in range(1, 9)})
    assert many.text == "is believed to be down by 1, 2, 3, 4, 5 and 3 more"


def test_suspicions_are_among_the_alarms(nodes: FakeNodes) -> None:
    nodes.said[1]["suspected"] = nodes.said[2]["suspected"] = [3]
    view = ClusterView(nodes.place)
    texts = [(alarm["node"], alarm["text"]) for alarm in view.picture()["alarms"]]
    assert texts == [("3", "is believed to be down by 1, 2")]
    view.close()


def test_fifty_nodes_are_asked_in_a_moment(tmp_path: Path) -> None:
    with FakeNodes(tmp_path, 50) as made:
        view = ClusterView(tmp_path)
        begun = time.monotonic()
        picture = view.picture()
        assert time.monotonic() - begun < 10
        assert len(picture["nodes"]) == len(picture["links"]) == 50
        assert [node["name"] for node in picture["nodes"]] == [str(n) for n in range(1, 51)]
        assert set(made.asked) == {"status", "events"}  # it only reads
        view.close()


def test_nobody_looks_while_nobody_watches(
    nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "EVERY", 0.05)
    monkeypatch.setattr(cluster_view, "UNWATCHED", 0.2)
    view = ClusterView(nodes.place)
    view.picture()
    deadline = time.monotonic() + 30
    while any(one.name == "dashboard" for one in threading.enumerate()):
        assert time.monotonic() < deadline, "it looks on"
        time.sleep(0.05)
    asked = len(nodes.asked)
    time.sleep(0.5)
    assert len(nodes.asked) == asked
    nodes.said[1]["starts"] = 5
    assert by_name(view.picture())["1"]["starts"] == 5  # who comes again sees what is now
    view.close()


# Over HTTP


@pytest.fixture
def server(nodes: FakeNodes) -> Iterator[DashboardServer]:
    made = DashboardServer(ClusterView(nodes.place), Address("127.0.0.1", 0))
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.close()
    thread.join()


def ask(server: DashboardServer, path: str, method: str = "GET", **headers: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def test_only_who_has_the_token_is_answered(server: DashboardServer) -> None:
    for path in ("/", "/main.js", "/state.json", "/explain.json?node=1&message=1.1", "/?token="):
        for cookie in ("", f"{server.cookie}=", f"{server.cookie}=wrong", "x=\xff;;=", "token"):
            status, headers, body = ask(server, path, Cookie=cookie)
            assert status == 403 and b"open the whole address" in body, (path, cookie)
            assert server.token.encode() not in body and "Set-Cookie" not in headers
    assert ask(server, "/?token=%ff%fe")[0] == 403
    status, headers, _ = ask(server, f"/?token={server.token}")
    assert status == 303 and headers["Location"] == "/"
    assert "HttpOnly" in headers["Set-Cookie"] and "SameSite" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].partition(";")[0]
    status, headers, body = ask(server, "/", Cookie=cookie)
    assert status == 200 and b"causalcast dashboard" in body
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    state = json.loads(ask(server, "/state.json", Cookie=cookie)[2])
    assert len(state["nodes"]) == 3
    told = json.loads(ask(server, "/explain.json?node=2&message=1.1", Cookie=cookie)[2])
    assert told["waits_for"] == ["1.1"]
    wrong = json.loads(ask(server, "/explain.json?node=7&message=1.1", Cookie=cookie)[2])
    assert "no node 7" in wrong["error"]
    for name in ("layout.js", "graph.js", "numbers.js", "style.css"):
        assert ask(server, f"/{name}", Cookie=cookie)[0] == 200
    for path in ("/../serving.py", "/%2e%2e/serving.py", "/nothing"):
        assert ask(server, path, Cookie=cookie)[0] == 404
    assert ask(server, f"//evil.example/?token={server.token}")[1]["Location"] == "/"
    assert ask(server, f"//main.js?token={server.token}")[1]["Location"] == "/main.js"


def test_nothing_can_be_changed_and_no_foreign_name_leads_here(
    server: DashboardServer, nodes: FakeNodes
) -> None:
    cookie = f"{server.cookie}={server.token}"
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(server, "/state.json", method, Cookie=cookie)[0] == 501
    assert ask(server, "/", Cookie=cookie, Host="evil.example")[0] == 421
    assert ask(server, f"/?token={server.token}", Host="evil.example")[0] == 421
    assert "publish" not in nodes.asked and "stop" not in nodes.asked


def test_wrong_places_and_addresses_are_told(server: DashboardServer, nodes: FakeNodes) -> None:
    with pytest.raises(NodeError, match="no such folder"):
        ClusterView(nodes.place / "nowhere")
    view = ClusterView(nodes.place)
    with pytest.raises(ConfigError, match="choose another address"):
        DashboardServer(view, Address("127.0.0.1", server.port))
    view.close()
