"""All commands by what people want: which module declares each, what it needs, a line about it."""

from typing import NamedTuple


class Command(NamedTuple):
    """One word after `causalcast`."""

    name: str
    module: str
    line: str
    needs: str = ""  # the extra without which it cannot begin


TOOLS = "tools"

COMMANDS_BY_PURPOSE: dict[str, tuple[Command, ...]] = {
    "simulate": (
        Command(
            "simulate",
            "simulate.simulate",
            "run a scenario in the simulator, write its trace",
            TOOLS,
        ),
        Command("lab", "simulate.lab", "see it in a browser: run, interfere, change a protocol"),
        Command("scenarios", "shared.samples", "list the scenarios that came with the package"),
        Command(
            "swarm", "simulate.swarm", "random scenarios from seeds, judged and made small", TOOLS
        ),
        Command("explore", "simulate.explore", "every interleaving of a small scenario", TOOLS),
        Command("sweep", "simulate.sweep", "a grid of scenarios times seeds, on Spark", "spark"),
        Command(
            "compare", "simulate.compare", "one workload over the protocols of the survey", TOOLS
        ),
        Command(
            "reproduce", "simulate.reproduce", "redo the figures and claims of the papers", TOOLS
        ),
        Command(
            "protocols", "simulate.list_protocols", "what each protocol promises, needs and costs"
        ),
    ),
    "run": (
        Command("up", "run.node", "run a cluster on this machine until Ctrl-C"),
        Command("node", "run.node", "run one node from its TOML file"),
        Command("join", "run.node", "run a new node that joins a running cluster"),
        Command("leave", "run.node", "let a node leave its cluster in good order"),
        Command("pub", "run.node", "publish a text"),
        Command("sub", "run.node", "print what a group delivers at a node"),
        Command("chat", "run.chat", "talk in a group through a node that runs"),
        Command("udp", "udp.program", "causal multicast over reliable UDP, by members.dat"),
        Command(
            "udp-ptp", "udp.program", "messages to one peer over the reliable layer of `udp` alone"
        ),
        Command("demo", "run.demo", "kill nodes of a real cluster and verify its trace", TOOLS),
        Command(
            "examples", "shared.samples", "list the example programs that came with the package"
        ),
    ),
    "judge": (
        Command("verify", "judge.verify", "judge runs by their traces", TOOLS),
        Command("report", "judge.report", "write an HTML report on runs", TOOLS),
        Command(
            "metrics", "judge.report", "measure runs: latency, throughput, redundancy, …", TOOLS
        ),
        Command("watch", "judge.watch", "verify runs while they grow", TOOLS),
        Command("trace", "judge.trace", "gather, import and export traces", TOOLS),
        Command("chaos", "judge.chaos", "kill, stop and cut off real nodes; judge them", TOOLS),
        Command(
            "buses", "judge.buses", "which message buses keep causal order, measured here", TOOLS
        ),
        Command(
            "experiment", "judge.experiment", "many real nodes, triggered at one, judged", TOOLS
        ),
    ),
    "operate": (
        Command("status", "run.node", "what a node is doing, in numbers"),
        Command("dashboard", "operate.dashboard", "see a cluster live in a browser, read-only"),
        Command("doctor", "operate.doctor", "what is wrong with a node, and what to do about it"),
        Command("explain", "run.node", "what a held message waits for"),
        Command("gone", "operate.command", "give up a node that never comes back"),
        Command("command", "operate.command", "what else its protocol can be told while it runs"),
        Command("group", "operate.zones", "let a node join or leave a group"),
        Command(
            "zones", "operate.zones", "join and part zones of causal_separators while they run"
        ),
        Command(
            "keys", "operate.keys", "make and revoke the keys with which nodes know one another"
        ),
        Command(
            "limits", "operate.limits", "every limit: its default, what it may be, who sets it"
        ),
        Command("completion", "operate.completion", "make the shell complete commands and options"),
    ),
}
COMMANDS: dict[str, Command] = {
    command.name: command for group in COMMANDS_BY_PURPOSE.values() for command in group
}


def listing() -> str:
    """All commands with their lines, as `--help` shows them."""
    width = max(map(len, COMMANDS)) + 2
    parts = []
    for purpose, commands in COMMANDS_BY_PURPOSE.items():
        lines = [f"  {command.name:{width}}{command.line}" for command in commands]
        parts.append("\n".join([f"{purpose}:", *lines]))
    return "\n\n".join(parts)
