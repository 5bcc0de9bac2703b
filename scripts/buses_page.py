"""Puts what `causalcast buses` measured into the page about it: the last step of `make buses`.

    python scripts/buses_page.py build/buses

The tables, the versions and the counter-examples of docs/buses.md and their images become those of
the run; what one sees in them is for a person to read again. A bus that was not run is refused: the
page would lose its rows.
"""

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path

from causalcast.buses.conditions import CONDITIONS
from causalcast.buses.page import (
    counter_example,
    order_plot,
    order_table,
    speed_table,
    systems_table,
)
from causalcast.buses.registry import SYSTEMS
from causalcast.buses.trial import NO_SERVER, Outcome, folder_name

ROOT = Path(__file__).parent.parent
WIDTH = 100
# Whose counter-examples are shown, and under which conditions they are looked for first.
SHOWN = (
    ("NATS", "one subscription", ("slow route", "moderate", "high rate")),
    ("Zenoh", "peers, one subscriber", ("moderate", "high rate", "slow route")),
    ("RabbitMQ", "a queue per topic", ("moderate", "high rate", "slow route")),
)


def main() -> int:
    """Write the page, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path, help="what `causalcast buses --out` wrote")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    told = json.loads((options.measured / "results.json").read_text())
    outcomes = [Outcome(**one) for one in told]
    try:
        refuse_gaps(outcomes)
        page = options.docs / "buses.md"
        text = with_tables(page.read_text(), outcomes)
        text = with_examples(text, examples(outcomes, options.measured, options.docs / "images"))
    except ValueError as error:
        print(f"buses: {error}", file=sys.stderr)
        return 2
    order_plot(outcomes, options.docs / "images" / "buses_order.svg")
    page.write_text(text)
    print(f"{page}: {len(outcomes)} trials; read again what it says of them")
    return 0


def refuse_gaps(outcomes: list[Outcome]) -> None:
    """Every bus in every set-up, under every condition."""
    for one in outcomes:
        if one.skipped not in ("", NO_SERVER):
            raise ValueError(f"{one.system}, {one.setup}, {one.condition}: {one.skipped}")
    there = {(one.system, one.setup, one.condition) for one in outcomes}
    for system in SYSTEMS:
        for setup in system.setups:
            for condition in CONDITIONS:
                if (system.name, setup, condition.name) not in there:
                    why = system.lacking() or "was not run"
                    raise ValueError(f"{system.name}, {setup}, {condition.name}: {why}")


def with_tables(text: str, outcomes: list[Outcome]) -> str:
    """The page with other tables; each is known by its first line."""
    for table in (order_table(outcomes), speed_table(outcomes), systems_table(outcomes)):
        head = re.escape(table.splitlines()[0])
        text, found = re.subn(rf"^{head}\n(\|.*\n)+", lambda _, new=table: new, text, flags=re.M)
        if found != 1:
            raise ValueError(f"the page has no table that begins with {table.splitlines()[0]!r}")
    return text


def with_examples(text: str, parts: str) -> str:
    """The page with other counter-examples."""
    section = r"(^## Counter-examples\n\n).*?(?=^## )"
    text, found = re.subn(section, lambda match: match[1] + parts, text, flags=re.M | re.S)
    if found != 1:
        raise ValueError("the page has no section 'Counter-examples'")
    return text


def examples(outcomes: list[Outcome], measured: Path, images: Path) -> str:
    """A sentence and a diagram for each of `SHOWN`, as far as something was found."""
    words = {condition.name: condition.words for condition in CONDITIONS}
    parts = []
    for system, setup, conditions in SHOWN:
        for condition in conditions:
            of = next((one for one in outcomes if (one.system, one.setup, one.condition)
                       == (system, setup, condition)), None)  # fmt: skip
            if of is None or not of.causal:
                continue
            image = f"buses_{system.lower()}.svg"
            run = measured / folder_name(system, setup, condition) / "run"
            said = counter_example(run, images / image)
            if said is not None:
                quoted = textwrap.fill(said, WIDTH, initial_indent="> ", subsequent_indent="> ")
                parts.append(
                    f"{system}, {setup}; {words[condition]}:\n\n{quoted}\n\n"
                    f"![A counter-example of {system}](images/{image})\n\n"
                )
                break
    return "".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
