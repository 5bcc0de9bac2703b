"""An album of three processes, traced with OpenTelemetry: whose photos are seen before their time?

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-json-file --pre
    python examples/traced_album.py spans
    causalcast trace import spans --out runs/album
    causalcast verify runs/album --local

Each process has a queue from which it reads, and puts what it publishes into everybody's. The way
from ada to cleo is 30 ms longer than the others. Nothing here knows of causalcast.
"""

import multiprocessing as mp
import queue
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind

PEOPLE = ("ada", "bob", "cleo")
SECONDS = 2.0


class Person:
    """One process: publishes now and then, and answers some of what it sees."""

    def __init__(self, name: str, queues: dict[str, Any], folder: str) -> None:
        self.name, self.queues = name, queues
        # The instance id is what tells processes apart; without it spans cannot be judged.
        resource = Resource({"service.name": "album", "service.instance.id": name})
        self.provider = TracerProvider(resource=resource)
        exporter = FileSpanExporter(str(Path(folder) / f"{name}.jsonl"))
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("album")
        self.published = 0
        self.slow_way: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self.carry_slowly, daemon=True).start()

    def publish(self, topic: str) -> None:
        self.published += 1
        about = {"messaging.operation.type": "send", "messaging.destination.name": topic,
                 "messaging.message.id": f"{self.name}-{self.published}"}  # fmt: skip
        with self.tracer.start_as_current_span(f"send {topic}", kind=SpanKind.PRODUCER,
                                               attributes=about):  # fmt: skip
            headers: dict[str, str] = {}
            propagate.inject(headers)  # the trace context travels with the message
            for reader in PEOPLE:
                if (self.name, reader) == ("ada", "cleo"):
                    self.slow_way.put((time.monotonic() + 0.03, (topic, headers)))
                else:
                    self.queues[reader].put((topic, headers))

    def carry_slowly(self) -> None:
        while True:
            due, message = self.slow_way.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self.queues["cleo"].put(message)

    def process(self, topic: str, headers: dict[str, str]) -> None:
        sender = trace.get_current_span(propagate.extract(headers)).get_span_context()
        about = {"messaging.operation.type": "process", "messaging.destination.name": topic}
        with self.tracer.start_as_current_span(f"process {topic}", kind=SpanKind.CONSUMER,
                                               attributes=about, links=[Link(sender)]):  # fmt: skip
            if random.random() < 0.2:
                self.publish(random.choice(("access", "posts")))

    def run(self) -> None:
        end = time.monotonic() + SECONDS
        following = 0.0
        while (now := time.monotonic()) < end + 1:
            if now > following and now < end:
                self.publish(random.choice(("access", "posts")))
                following = now + 0.03
            try:
                self.process(*self.queues[self.name].get(timeout=0.01))
            except queue.Empty:
                continue
        self.provider.shutdown()


def live(name: str, queues: dict[str, Any], folder: str) -> None:
    """The life of one process."""
    Person(name, queues, folder).run()


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "spans"
    Path(where).mkdir(exist_ok=True)
    inboxes: dict[str, Any] = {person: mp.Queue() for person in PEOPLE}
    processes = [mp.Process(target=live, args=(person, inboxes, where)) for person in PEOPLE]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
