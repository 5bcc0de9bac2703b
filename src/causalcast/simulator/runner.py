"""`causalcast.simulate`: runs a scenario from beginning to end and returns its trace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from causalcast.errors import ConfigError
from causalcast.limits import set_to
from causalcast.shipped import scenario_file
from causalcast.simulator.scenario_run import prepare
from causalcast.simulator.scenarios.saved_graph import save_graph
from causalcast.simulator.scenarios.scenario import Scenario
from causalcast.trace.kinds import LEVELS
from causalcast.trace.run_folder import Run, write_run


@dataclass
class SimulatedRun(Run):
    """A run that was simulated here: its trace, and what the simulation counted."""

    publications: int = 0
    messages: int = 0
    """How many messages nodes handled, recorded or not."""
    simulated_us: int = 0
    """How long it took in simulated time, in microseconds."""
    cpu_seconds: float = 0.0
    """How long the simulation took this process, without building nodes and trace."""


def simulate(
    scenario: Scenario | str | Path,
    trace: str | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    seed: int | None = None,
    protocol: str | None = None,
    options: Mapping[str, object] | None = None,
    out: str | Path | None = None,
    save_overlay: str | Path | None = None,
) -> SimulatedRun:
    """Run a scenario from beginning to end and return its trace.

    `scenario` is a TOML file, its text (more than one line), or a name that `causalcast scenarios`
    lists. `seed`, `protocol` and `options` of the protocol take the place of what stands in it.
    The same scenario and seed give the same trace, byte for byte.

    `trace` says how much is recorded: `none`, `deliveries`, `messages` or `full`. The default is
    messages, and with more than 1,000 nodes deliveries. `progress` is called from time to time
    with the share that is done, from 0 to 1. `out` is a new folder to write the run to,
    `save_overlay` a file for the links that stand when the workload begins.
    """
    if trace is not None and trace not in LEVELS:
        raise ConfigError(f"trace: unknown level {trace!r}, expected one of {', '.join(LEVELS)}")
    described = _scenario(scenario, seed, protocol, options)
    with set_to(described.limits):
        running = prepare(described, trace)
        if save_overlay is not None:
            save_graph(running.simulation, Path(save_overlay))
        started = process_time()
        running.run(progress)
        seconds = process_time() - started
    made, world = running.result(), running.simulation
    run = SimulatedRun(
        made.header, made.nodes, made.groups, made.members, made.events,
        world.lives.publications, world.shared.messages_handled, world.now, seconds,
    )  # fmt: skip
    if out is not None:
        write_run(Path(out), run)
    return run


def _scenario(
    given: Scenario | str | Path,
    seed: int | None,
    protocol: str | None,
    options: Mapping[str, object] | None,
) -> Scenario:
    if isinstance(given, Scenario):
        if (seed, protocol, options) != (None, None, None):
            raise ConfigError("a Scenario has its seed, protocol and options already")
        return given
    settings = {name: _as_text(value) for name, value in (options or {}).items()}
    if isinstance(given, str) and "\n" in given:
        return Scenario(given, "scenario", protocol, settings, seed)
    return Scenario.read(scenario_file(given), protocol, settings, seed)


def _as_text(value: object) -> str:
    """An option as it is written after `--set`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
