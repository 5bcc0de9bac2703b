"""One figure of a source as its file describes it: what is run, what is drawn, what is claimed."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.reproduce.checks import CHECKS
from causalcast.reproduce.families import FAMILIES
from causalcast.toml_table import Table

FIGURES = Path(__file__).parent / "figures"
SIZES = ("quick", "large", "full")
SOURCES = ("S000", "S001", "S002", "S003", "S004")


@dataclass(frozen=True)
class FigurePoint:
    """One measurement: it can be made anywhere from this alone."""

    figure: str
    family: str
    series: str
    values: dict[str, Any]
    """What the family is given, the seed included."""

    def label(self) -> dict[str, Any]:
        """What tells its row apart."""
        return {"figure": self.figure, "series": self.series, **self.values}


@dataclass(frozen=True)
class Claim:
    """A claim, and the check of the result table that decides it."""

    id: str
    check: str
    settings: dict[str, Any]
    because: str = ""
    """Why it does not hold, if it does not: what in this table, or which other experiment, says."""
    full: dict[str, Any] = field(default_factory=dict)
    """Settings that are others at full and large size, such as which bandwidth is looked at."""
    words: str = ""
    """Of an explanation: what the check shows about a claim that does not hold."""

    def settings_at(self, size: str) -> dict[str, Any]:
        """What its check is given."""
        return {**self.settings, **({} if size == "quick" else self.full)}


@dataclass(frozen=True)
class Plot:
    """What is drawn of the result table."""

    x: str
    y: str
    x_label: str
    y_label: str
    x_scale: str = "linear"
    y_scale: str = "linear"
    kind: str = "line"
    panel: str = ""
    """A column: one chart for each of its values."""
    panel_label: str = ""
    series: tuple[str, ...] = ()
    """Those that are drawn; all if none is named."""


@dataclass
class Figure:
    """One figure of a source."""

    name: str
    source: str
    number: str
    title: str
    setting: str
    """How it was run, in words: what the source says, and what had to be chosen."""
    family: str
    plots: list[Plot]
    series: dict[str, dict[str, Any]]
    fixed: dict[str, Any]
    varied: dict[str, dict[str, Any]]
    """By size: lists are varied, single values are not."""
    claims: list[Claim] = field(default_factory=list)
    explanations: list[Claim] = field(default_factory=list)
    """What this table says about why claims, of whichever figure, do not hold."""

    def points(self, size: str) -> list[FigurePoint]:
        """All measurements of a size, series by series."""
        made = []
        for series, own in self.series.items():
            given = {**self.fixed, **self.varied[size], **own}
            lists = {key: value for key, value in given.items() if isinstance(value, list)}
            single = {key: value for key, value in given.items() if key not in lists}
            for chosen in itertools.product(*lists.values()):
                values = {**single, **dict(zip(lists, chosen, strict=True))}
                made.append(FigurePoint(self.name, self.family, series, values))
        return made


def all_figures(folder: Path = FIGURES) -> list[Figure]:
    """The figures that came with the package, in the order of the sources."""
    return [read_figure(path) for path in sorted(folder.glob("*.toml"))]


def chosen_figures(names: Sequence[str]) -> list[Figure]:
    """The figures of these names, or all of them."""
    figures = {figure.name: figure for figure in all_figures()}
    for name in names:
        if name not in figures:
            raise ConfigError(
                f"no figure is called {name!r}; `causalcast reproduce --list` names them"
            )
    return [figure for name, figure in figures.items() if not names or name in names]


def chosen_points(points: Sequence[FigurePoint], where: Sequence[str]) -> list[FigurePoint]:
    """Those of which every condition `name=value,value` holds."""
    chosen = list(points)
    for condition in where:
        name, _, told = condition.partition("=")
        if not told:
            raise ConfigError(f"--where {condition}: expected NAME=VALUE")
        labels = [(point, point.label()) for point in chosen]
        values = {told, *told.split(",")}  # a name of a series may have a comma in it
        chosen = [point for point, label in labels if str(label.get(name)) in values]
        if not chosen:
            raise ConfigError(f"--where {condition}: no point has it")
    return chosen


def read_figure(path: Path) -> Figure:
    """Read and check one file."""
    table = Table.read(path)
    figure = Figure(
        path.stem,
        table.text("source", choices=list(SOURCES)),
        table.text("figure"),
        table.text("title"),
        table.text("setting"),
        table.text("family", choices=list(FAMILIES)),
        [_plot(one) for one in table.tables("plot")],
        {one.text("name"): one.rest() for one in table.tables("series")},
        table.table("fixed").rest(),
        _sizes(table),
        [_claim(one) for one in table.tables("claim")],
        [_claim(one) for one in table.tables("explanation")],
    )
    table.finish()
    if not figure.series:
        raise ConfigError(f"{path}: no [[series]]: nothing would be measured")
    return figure


def _sizes(table: Table) -> dict[str, dict[str, Any]]:
    """Values by size; where full size is within reach, a large run is a full one."""
    found = {size: table.table(size).rest() for size in SIZES}
    return {**found, "large": found["large"] or found["full"]}


def _plot(table: Table) -> Plot:
    plot = Plot(
        table.text("x"),
        table.text("y"),
        table.text("x_label"),
        table.text("y_label"),
        table.text("x_scale", "linear", ["linear", "log"]),
        table.text("y_scale", "linear", ["linear", "log"]),
        table.text("kind", "line", ["line", "bars"]),
        table.text("panel", ""),
        table.text("panel_label", ""),
        tuple(map(str, table.items("series"))) if table.has("series") else (),
    )
    table.finish()
    return plot


def _claim(table: Table) -> Claim:
    return Claim(
        table.text("id"),
        table.text("check", choices=list(CHECKS)),
        because=table.text("because", ""),
        full=table.table("full").rest(),
        words=table.text("words", ""),
        settings=table.rest(),
    )
