"""The generations of the survey under one workload, as `causalcast compare` measures them."""

from dataclasses import asdict
from typing import Any

from causalcast.errors import ConfigError
from causalcast.sweep.survey_table import Contestant, measure, workload

FITS = "does not fit"


def survey(values: dict[str, Any]) -> dict[str, Any]:
    """One protocol on a mesh whose links reorder what is sent to different nodes.

    Everybody publishes, or with `senders = 1` one node alone.
    """
    prefix = "options."
    settings = {
        key.removeprefix(prefix): str(value)
        for key, value in values.items()
        if key.startswith(prefix)
    }
    nodes, count = values["nodes"], values["count"]
    payload, seed = values.get("payload_bytes", 32), values.get("seed", 1)
    text = workload(nodes, count, payload, seed)
    if values.get("senders") == 1:
        text = text[: text.index("[[publish]]")] + (
            f"[[publish]]\nat_ms = 100\nnode = 0\ncount = {count * nodes}\ninterval_ms = 5\n"
            f"payload_bytes = {payload}\n"
        )
    found = measure(Contestant(values["protocol"], "", settings), text, "survey", seed)
    if found.verdict.startswith(FITS):
        raise ConfigError(found.verdict)
    told = asdict(found)
    for name in ("protocol", "label", "approach"):
        told.pop(name)
    return {
        **told,
        "kept_its_promises": int(found.verdict == "ok"),
        "causal": True,
        "held_percent": 100 * found.held_share,
    }
