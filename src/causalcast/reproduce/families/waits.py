"""What messages wait for: a true cause, or one that a protocol only takes for a cause."""

from typing import Any

from causalcast.pipeline.report.small_run import SmallRun
from causalcast.reproduce.families.judged_run import judged_run, options_of


def waits(values: dict[str, Any]) -> dict[str, Any]:
    """One run, and of which share of the messages that waited the missing one was a true cause.

    True: the origin had delivered it when it published. On a mesh whose links take 1 to 20 ms
    answers overtake what they answer. On a tree nothing overtakes anything, so there `falls` inner
    nodes are down in the middle third.
    """
    made = judged_run(scenario_of(values))
    return {**made.facts, **accuracy(made.rows)}


def accuracy(rows: SmallRun) -> dict[str, Any]:
    """Of the first time that each node held each message for one that has a name."""
    at: dict[tuple[int, int | None], int] = {}
    for event in rows.of_kind["deliver"]:
        at.setdefault((event.node, event.message), event.pos)
    held: dict[tuple[int, int | None], int | None] = {}
    for event in rows.of_kind["hold"]:
        held.setdefault((event.node, event.message), event.value)
    true = named = 0
    for (_, message), missing in held.items():
        published = rows.published.get(message)
        if missing is None or published is None:
            continue
        named += 1
        had = at.get((published.node, missing))
        true += had is not None and had < published.pos
    deliveries = max(1, len(rows.elsewhere()))
    return {
        "held": len(held),
        "held_percent": 100 * len(held) / deliveries,
        "named": named,
        "true_share": true / named if named else None,
        "waited_in_vain_percent": 100 * (named - true) / deliveries,
    }


def scenario_of(values: dict[str, Any]) -> str:
    """The text of what is simulated: senders at even distances, in turn."""
    nodes, interval = values["nodes"], values["interval_ms"]
    senders = [place * nodes // values["senders"] for place in range(values["senders"])]
    count = values["messages"] // len(senders)
    on_tree = values["overlay"] == "tree"
    streams = "".join(
        f"[[publish]]\nat_ms = {100 + place * interval}\nnode = {node}\ncount = {count}\n"
        f"interval_ms = {interval * len(senders)}\npayload_bytes = 32\n"
        for place, node in enumerate(senders)
    )
    whole = interval * len(senders) * count
    fallen = [node for node in range(3, 7) if node not in senders][: values.get("falls", 0)]
    faults = "".join(
        f'[[fault]]\nat_ms = {100 + share * whole / 3}\nkind = "{kind}"\nnode = {node}\n'
        for node in fallen
        for share, kind in ((1, "crash"), (2, "recover"))
    )
    latency = "1.0" if on_tree else '{kind = "uniform", low = 1, high = 20}'
    shape = 'kind = "tree"\ndegree = 3' if on_tree else 'kind = "full_mesh"'
    return f"""
protocol = "{values["protocol"]}"
until_ms = {100 + whole}
seed = {values.get("seed", 1)}
{options_of(values)}
[overlay]
{shape}
nodes = {nodes}
[network]
latency_ms = {latency}
{streams}{faults}
[calm]
ms = 5000
recover_all = true
"""
