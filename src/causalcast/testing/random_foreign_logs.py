"""Random logs as other systems write them: topics, keys, consumer groups, attempts, declared
causes, in any order that a careless bus may deliver in. And ways in which rows get lost.

Everything depends on the given random generator alone.
"""

from random import Random
from typing import Any

JsonLine = dict[str, Any]


class _Bus:
    """Processes that publish, answer and deliver, with delays that keep no order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.processes = [f"p{number}" for number in range(random.randint(2, 5))]
        self.topics = [f"t{number}" for number in range(random.choice([1, 1, 2, 3]))]
        self.keys: list[str | None] = random.choice(
            [[None], [None], ["k0", "k1", "k2"], [None, "k0", "k1"]]
        )
        self.numbered = random.random() < 0.5
        """Whether attempts are numbered; if not, a log that repeats says so."""
        self.repeats = random.random() < 0.4
        self.declares = random.random() < 0.7
        self.disorder = random.choice([0.0, 0.4, 0.9])
        self.shared = {topic for topic in self.topics if random.random() < 0.3}
        self.members = {
            topic: random.sample(self.processes, random.randint(1, len(self.processes)))
            for topic in self.topics
        }
        self.logs: dict[str, list[JsonLine]] = {process: [] for process in self.processes}
        self.waiting: dict[str, list[JsonLine]] = {process: [] for process in self.processes}
        self.waiting_again: list[tuple[str, str, str, int, JsonLine]] = []
        """What is to be delivered again, after the delivery at the end was."""
        self.published = 0

    def play(self, steps: int) -> list[JsonLine]:
        for process in self.processes:
            for topic in self.topics:
                if process in self.members[topic]:
                    join: JsonLine = {"kind": "join", "group": topic}
                    self._log(process, join | self._share(topic))
        for _ in range(steps):
            process = self.random.choice(self.processes)
            if self.random.random() < 0.4:
                self._publish(process)
            else:
                self._deliver(process)
        for process in self.processes:
            while self.waiting[process] and self.random.random() < 0.97:
                self._deliver(process)
        return [line for log in self.logs.values() for line in log]

    def _share(self, topic: str) -> JsonLine:
        return {"share": "workers"} if topic in self.shared else {}

    def _log(self, process: str, line: JsonLine) -> None:
        log = self.logs[process]
        log.append({"node": process, "pos": len(log), **line})

    def _publish(self, process: str) -> None:
        topic = self.random.choice(self.topics)
        self.published += 1
        line: JsonLine = {"kind": "publish", "message": f"m{self.published}", "group": topic}
        key = self.random.choice(self.keys)
        if key is not None:
            line["key"] = key
        seen = [row["message"] for row in self.logs[process] if row["kind"] == "deliver"][-3:]
        if self.declares and seen and self.random.random() < 0.6:
            line["causes"] = self.random.sample(seen, min(len(seen), self.random.randint(1, 2)))
        self._log(process, line)
        receivers = self.members[topic]
        if topic in self.shared:
            receivers = [self.random.choice(receivers)]
        for receiver in receivers:
            self._send(receiver, line["message"], topic, 1)

    def _send(self, receiver: str, message: str, topic: str, attempt: int) -> None:
        line: JsonLine = {"kind": "deliver", "message": message, "group": topic}
        line |= self._share(topic)
        if self.numbered:
            line["attempt"] = attempt
        waiting = self.waiting[receiver]
        late = self.random.random() < self.disorder
        waiting.insert(self.random.randint(0, len(waiting)) if late else len(waiting), line)
        if self.repeats and self.random.random() < 0.4 and attempt < 3:
            again = receiver
            if topic in self.shared and self.random.random() < 0.5:
                again = self.random.choice(self.members[topic])
            self.waiting_again.append((again, message, topic, attempt + 1, line))

    def _deliver(self, process: str) -> None:
        if not self.waiting[process]:
            return
        line = self.waiting[process].pop(0)
        self._log(process, line)
        for one in list(self.waiting_again):
            receiver, message, topic, attempt, first = one
            if first is line:
                self.waiting_again.remove(one)
                self._send(receiver, message, topic, attempt)


def random_log(random: Random) -> tuple[list[JsonLine], str]:
    """The lines of a whole log, and what its header says of redelivery."""
    bus = _Bus(random)
    lines = bus.play(random.randint(4, 60))
    return lines, "any" if bus.repeats else "none"


def by_time(lines: list[JsonLine], rows_at_once: int) -> list[JsonLine]:
    """The same log with a coarse clock instead of positions: so many rows have one time."""
    timed = []
    for line in lines:
        line = dict(line)
        line["at_us"] = line.pop("pos") // rows_at_once
        timed.append(line)
    return timed


def leave_out(lines: list[JsonLine], random: Random) -> list[JsonLine]:
    """The rest of a log of which rows were lost, in one way or several."""
    rest = lines
    if random.random() < 0.6:  # sampled
        kept = random.choice([0.95, 0.9, 0.5])
        rest = [line for line in rest if line["kind"] == "join" or random.random() < kept]
    if random.random() < 0.25:  # a process without a log
        silent = random.choice(sorted({line["node"] for line in lines}))
        rest = [line for line in rest if line["node"] != silent]
    if random.random() < 0.25:  # rotated: the beginning of some logs is gone
        first = {line["node"]: random.randint(0, 12) for line in lines}
        rest = [line for line in rest if line["pos"] >= first[line["node"]]]
    if random.random() < 0.25:  # the end of some logs is gone
        last = {line["node"]: random.randint(5, 40) for line in lines}
        rest = [line for line in rest if line["pos"] <= last[line["node"]]]
    return rest
