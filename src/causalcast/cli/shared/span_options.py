"""Options of `trace import` that decide how spans are read; each rule has one."""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.trace.spans.rules import DELIVERED, MESSAGES, RETRIES, SpanRules


def add_span_options(parser: argparse.ArgumentParser) -> None:
    """`--process` and the others."""
    group = parser.add_argument_group(
        "spans", "how OpenTelemetry's and Jaeger's spans are read; every rule is told with the"
        " result",
    )  # fmt: skip
    group.add_argument(
        "--process", metavar="A,B", default="",
        help="attributes that name a process (default: service.instance.id, else host.name and"
        " process.pid); with thread.id each thread is one",
    )  # fmt: skip
    group.add_argument(
        "--message", choices=MESSAGES, default="span",
        help="what a message is: its producer span (default), or messaging.message.id",
    )  # fmt: skip
    group.add_argument(
        "--delivered", choices=DELIVERED, default="end",
        help="when: at the end of processing (default) or at its start",
    )  # fmt: skip
    group.add_argument(
        "--retries", choices=RETRIES, default="failed",
        help="which repetitions are attempts: after a failed span (default), all, none",
    )  # fmt: skip
    group.add_argument(
        "--key", metavar="A", default="",
        help="attribute of publications; order is wanted among equal values only",
    )  # fmt: skip
    group.add_argument(
        "--subscriptions", type=Path, metavar="FILE",
        help='who is subscribed to what, as TOML or JSON: p0 = ["orders", "news"] (default: who'
        " processes something)",
    )  # fmt: skip


def span_rules(options: argparse.Namespace) -> SpanRules:
    """The rules that the options ask for."""
    subscriptions = _subscriptions(options.subscriptions) if options.subscriptions else {}
    process = tuple(name.strip() for name in options.process.split(",") if name.strip())
    return SpanRules(
        process, options.message, options.delivered, options.retries, options.key, subscriptions
    )


def _subscriptions(path: Path) -> dict[str, list[str]]:
    try:
        text = path.read_text(encoding="utf-8")
        read: Any = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    for name, topics in read.items():
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise ConfigError(f"{path}: {name}: expected a list of topics")
    return dict(read)
