"""What each detector believes, in a simulated cluster with a crash, a cut, and silence."""

import pytest

from causalcast.core import Detector, LinkId, NodeId, Outbox
from causalcast.core.effects import Suspect, Trust
from causalcast.detectors.adaptive_heartbeat import AdaptiveBeat, AdaptiveHeartbeat, Rhythm
from causalcast.detectors.heartbeat import Heartbeat
from causalcast.simulator.runner import simulate
from causalcast.simulator.scenarios.scenario import Scenario


def beliefs(detector: str, fault: str) -> list[tuple[str, int, int]]:
    """Kind, watcher and peer of every suspicion before the calm, in order of time."""
    text = f"""
    protocol = "vector_clock_broadcast"
    until_ms = 4000
    [overlay]
    kind = "line"
    nodes = 3
    [detector]
    {detector}
    [[fault]]
    at_ms = 1000
    {fault}
    """
    rows = simulate(Scenario(text, "test"), "full").events.to_pylist()
    told = [r for r in rows if r["kind"] in ("suspect", "trust") and r["at_us"] < 4_000_000]
    told.sort(key=lambda row: row["at_us"])
    return [(row["kind"], row["node"], row["peer"]) for row in told]


CRASH = 'kind = "crash"\nnode = 2'
LOUD_CUT = 'kind = "cut"\nlink = [1, 2]\nloud = true'
SILENT_CUT = 'kind = "cut"\nlink = [1, 2]'
ADAPTIVE = 'kind = "adaptive_heartbeat"\ninterval = 100\nleast = 250'
BEATS = 'kind = "heartbeat"\ninterval = 100\ntimeout = 350'


def test_link_loss_believes_whoever_has_no_link_to_be_down() -> None:
    assert beliefs('kind = "link_loss"', CRASH) == [("suspect", 1, 2)]
    assert sorted(beliefs('kind = "link_loss"', LOUD_CUT)) == [("suspect", 1, 2), ("suspect", 2, 1)]
    assert beliefs('kind = "link_loss"', SILENT_CUT) == []


def test_perfect_suspects_the_crashed_and_nobody_else() -> None:
    assert beliefs('kind = "perfect"', CRASH) == [("suspect", 1, 2)]
    assert beliefs('kind = "perfect"', LOUD_CUT) == []


def test_heartbeat_hears_silence_and_takes_it_back() -> None:
    assert sorted(beliefs(BEATS, SILENT_CUT)) == [("suspect", 1, 2), ("suspect", 2, 1)]
    healing = SILENT_CUT + '\n[[fault]]\nat_ms = 2000\nkind = "heal"'
    told = beliefs(BEATS, healing)
    assert sorted(told[:2]) == [("suspect", 1, 2), ("suspect", 2, 1)]
    assert sorted(told[2:]) == [("trust", 1, 2), ("trust", 2, 1)]


def test_an_adaptive_heartbeat_hears_silence_and_takes_it_back() -> None:
    healing = SILENT_CUT + '\n[[fault]]\nat_ms = 2000\nkind = "heal"'
    told = beliefs(ADAPTIVE, healing)
    assert sorted(told[:2]) == [("suspect", 1, 2), ("suspect", 2, 1)]
    assert sorted(told[2:]) == [("trust", 1, 2), ("trust", 2, 1)]


def test_whoever_stood_still_suspects_nobody_for_it() -> None:
    """Node 1 is paused for longer than any timeout: others suspect it, and it suspects no one."""
    pause = 'kind = "pause"\nnode = 1\n[[fault]]\nat_ms = 2500\nkind = "resume"\nnode = 1'
    told = beliefs(ADAPTIVE, pause)
    assert sorted(told) == [("suspect", 0, 1), ("suspect", 2, 1), ("trust", 0, 1), ("trust", 2, 1)]


def test_timeouts_follow_the_rhythm_of_a_neighbour_and_its_wrong_suspicions() -> None:
    """What a fixed timeout of the same size suspects again and again is learnt here."""
    rhythm = Rhythm(0, 100)
    for number in range(1, 51):
        rhythm.beat(100 * number)
    regular = rhythm.timeout(1)
    assert 100 <= regular < 130
    now = rhythm.last
    for number in range(50):
        now += 20 if number % 2 else 180
        rhythm.beat(now)
    assert 300 < rhythm.timeout(1) < 600
    assert rhythm.timeout(5000) == 5000
    rhythm.patience = 4
    assert rhythm.timeout(5000) == 20000


def test_wrong_suspicions_make_patient() -> None:
    """Node 1 stands still for a second, again and again: it is suspected ever more seldom."""
    pauses = "\n".join(
        f'[[fault]]\nat_ms = {at}\nkind = "pause"\nnode = 1\n'
        f'[[fault]]\nat_ms = {at + 500}\nkind = "resume"\nnode = 1'
        for at in range(1600, 4000, 600)
    )
    fault = (
        f'kind = "pause"\nnode = 1\n[[fault]]\nat_ms = 1500\nkind = "resume"\nnode = 1\n{pauses}'
    )

    def suspicions(detector: str) -> int:
        return beliefs(detector, fault).count(("suspect", 0, 1))

    assert suspicions('kind = "heartbeat"\ninterval = 100\ntimeout = 250') >= 4
    assert 1 <= suspicions(ADAPTIVE) <= 2


@pytest.mark.parametrize("detector", ['kind = "link_loss"', 'kind = "perfect"', BEATS, ADAPTIVE])
def test_nobody_is_suspected_without_a_fault(detector: str) -> None:
    assert beliefs(detector, 'kind = "delay"\nlink = [0, 1]\nextra_ms = 20') == []


@pytest.mark.parametrize("detector", [Heartbeat(100, 350), AdaptiveHeartbeat(100, 250)])
def test_whoever_sends_anything_is_not_suspected(detector: Detector) -> None:
    """Beats wait behind a large message for as long as that takes."""
    out = Outbox()
    peer = NodeId(2)
    detector.on_neighbour_up(peer, LinkId(1), False, out)
    for _ in range(40):
        out.now += 100
        detector.on_heard(peer, out)
        detector.on_timer("beat", 0, out)
    assert not any(isinstance(notice, Suspect) for notice in out.notices)
    for _ in range(10):
        out.now += 100
        detector.on_timer("beat", 0, out)
    assert isinstance(out.notices[-1], Suspect)
    detector.on_heard(peer, out)
    assert isinstance(out.notices[-1], Trust)


def test_what_is_no_beat_says_nothing_of_the_rhythm() -> None:
    detector, out, peer = AdaptiveHeartbeat(100, 250), Outbox(), NodeId(2)
    detector.on_neighbour_up(peer, LinkId(1), False, out)
    for _ in range(40):
        out.now += 100
        detector.on_heard(peer, out)  # the bytes of the beat itself
        detector.on_message(peer, AdaptiveBeat(), out)
    assert detector.rhythms[peer].mean == 100
