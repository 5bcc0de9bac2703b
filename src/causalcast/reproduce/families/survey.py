"""The generations of the survey under one workload, as `causalcast compare` measures them."""

from dataclasses import asdict
from typing import Any

from causalcast.errors import ConfigError
from causalcast.sweep.survey_table import Contestant, Measured, measure, workload

FITS = "does not fit"


def survey(values: dict[str, Any]) -> dict[str, Any]:
    """One protocol on a mesh whose links reorder what is sent to different nodes.

    Everybody publishes, or the first `senders` nodes alone; links lose a share `loss`. With
    `against` another protocol has the same workload, and `share` is how many bytes there are
    beside the body, of what there are in its copies.
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
    if "senders" in values:
        senders = values["senders"]
        text = text[: text.index("[[publish]]")] + (
            f"[[publish]]\nat_ms = 100\nnode = {list(range(senders))}\n"
            f"count = {count * nodes // senders}\ninterval_ms = {5 * senders}\n"
            f"payload_bytes = {payload}\n"
        )
    if "loss" in values:
        text = text.replace("[network]", f"[network]\nloss = {values['loss']}")
    found = _measured(values["protocol"], settings, text, seed)
    told = asdict(found)
    for name in ("protocol", "label", "approach"):
        told.pop(name)
    return {
        **told,
        "kept_its_promises": int(found.verdict == "ok"),
        "causal": True,
        "held_percent": 100 * found.held_share,
        **({} if "against" not in values else _share(found, values["against"], text, seed)),
    }


def _measured(protocol: str, settings: dict[str, str], text: str, seed: int) -> Measured:
    found = measure(Contestant(protocol, "", settings), text, "survey", seed)
    if found.verdict.startswith(FITS):
        raise ConfigError(found.verdict)
    return found


def _share(found: Measured, against: str, text: str, seed: int) -> dict[str, float]:
    other = _measured(against, {"spread": "direct"}, text, seed)
    return {
        "share": found.overhead_mean / other.overhead_mean,
        "share_most": found.overhead_max / other.overhead_max,
    }
