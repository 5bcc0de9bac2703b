"""Flags that say how a newcomer reaches a running cluster."""

import argparse
from pathlib import Path

from causalcast.errors import ConfigError
from causalcast.runtime.links.address_book import Address
from causalcast.runtime.node_config import TRANSPORTS
from causalcast.runtime.operating.joining import WayIn


def add_way_in(parser: argparse.ArgumentParser, contact: str) -> None:
    """Declare them; `contact` says whose address it is."""
    parser.add_argument("contact", metavar="ADDRESS", help=f"{contact}, host:port")
    parser.add_argument("--transport", default="tcp", choices=TRANSPORTS)
    parser.add_argument(
        "--cluster", default="local", metavar="NAME", help="over UDP without a key: its name"
    )
    parser.add_argument(
        "--cluster-key", type=Path, metavar="FILE", help="over UDP: the key that seals datagrams"
    )


def way_in(options: argparse.Namespace) -> WayIn:
    """The way that the flags describe; ConfigError if they describe none."""
    try:
        contact = Address.parse(options.contact)
    except ValueError as error:
        raise ConfigError(f"expected {error}") from None
    if options.cluster_key is not None and options.transport != "udp":
        raise ConfigError("--cluster-key goes with --transport udp")
    return WayIn(contact, options.transport, options.cluster, options.cluster_key)
