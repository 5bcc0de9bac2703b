"""One HTML file about one or more runs: the verdict first, then plots, then tables.

Everything is inside the file, so that it opens offline and can be mailed.
"""

import shlex
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from causalcast.errors import ConfigError
from causalcast.pipeline.report import moving, plots, space_time
from causalcast.pipeline.report.moving import MovingRun
from causalcast.pipeline.report.report_figures import Figures
from causalcast.pipeline.report.run_picture import EXAMPLES
from causalcast.pipeline.verdicts import counter_example
from causalcast.pipeline.verdicts.verdict import (
    VIOLATED,
    WORST_FIRST,
    PropertyResult,
    Verdict,
)
from causalcast.version import VERSION

RUNS_IN_FULL = 12
RUNS_COMPARED = 12
NODES_SHOWN = 200
WAITED_FOR = 8
DRAWN = 3  # counter-examples of causal order
NO_TIMES = "The rows of this run say no times, so nothing is told of how long things took."
TOLD_AT_ONCE = 5  # others are folded away
SENTENCE = {
    "ok": "Everything that counts holds.",
    "violated": "A property that counts is violated.",
    "incomplete": "The run has no end, or no content; nothing that counts is violated so far.",
    "no_violation": "Rows are missing; nothing that is known breaks what counts.",
    "faulty_log": "The log cannot be true, so it judges nobody.",
}
# What people call the metrics, and how many digits matter.
METRICS = {
    "deliveries_per_second": ("deliveries per second", ",.0f", ""),
    "goodput_bytes_per_second": ("goodput", ",.0f", " B/s"),
    "fastest_origin_per_second": ("fastest publisher, per second", ",.1f", ""),
    "reliability": ("reliability", ".2%", ""),
    "latency_mean_ms": ("mean latency", ",.2f", " ms"),
    "latency_p50_ms": ("median latency", ",.2f", " ms"),
    "latency_p95_ms": ("95 % within", ",.2f", " ms"),
    "latency_p99_ms": ("99 % within", ",.2f", " ms"),
    "latency_max_ms": ("longest latency", ",.2f", " ms"),
    "redundancy": ("redundancy (RMR)", ".3f", ""),
    "held_share": ("held back", ".1%", ""),
    "wait_mean_ms": ("mean wait when held", ",.2f", " ms"),
    "wait_max_ms": ("longest wait", ",.2f", " ms"),
    "metadata_mean_bytes": ("metadata per message", ",.1f", " B"),
    "metadata_max_bytes": ("largest metadata", ",.0f", " B"),
    "payload_sent_bytes": ("payload sent", ",.0f", " B"),
    "metadata_sent_bytes": ("metadata sent", ",.0f", " B"),
    "state_mean": ("mean state of a node", ",.1f", ""),
    "state_max": ("largest state", ",.0f", ""),
    "recoveries": ("recoveries", ",.0f", ""),
    "recovery_mean_ms": ("mean time to catch up", ",.2f", " ms"),
    "recovery_max_ms": ("longest time to catch up", ",.2f", " ms"),
    "clock_entries_mean": ("vector entries per message", ",.1f", ""),
    "compaction_degree": ("share of a whole vector sent", ".1%", ""),
    "compaction_degree_max": ("largest share of a whole vector", ".1%", ""),
    "hops_mean": ("mean hops", ".2f", ""),
    "hops_max": ("most hops", ",.0f", ""),
}


def write_report(
    path: Path,
    verdicts: Sequence[Verdict],
    metrics: Sequence[dict[str, Any]],
    figures: Sequence[Figures],
) -> None:
    """Write the report on some runs."""
    runs = moving.moving_runs(verdicts[:RUNS_IN_FULL])
    parts = [_head(verdicts)]
    if len(verdicts) > 1:
        parts += [_together(verdicts), _overview(verdicts, metrics)]
        parts += [moving.side_by_side(runs), _compared(verdicts, metrics)]
    for run, values, figure in zip(runs, metrics, figures, strict=False):
        parts.append(_run(run, values, figure, alone=len(verdicts) == 1))
    parts.append(f"<footer>causalcast {escape(VERSION)}</footer></main>")
    parts += [moving.room_for(runs), "</body></html>\n"]
    try:
        path.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {path}: cannot be written ({error.strerror})") from None


def _head(verdicts: Sequence[Verdict]) -> str:
    style = files("causalcast.pipeline.report").joinpath("report.css").read_text()
    title = _title(verdicts[0]) if len(verdicts) == 1 else f"{len(verdicts)} runs"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} – causalcast</title><style>{style}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>"
    )


def _title(verdict: Verdict) -> str:
    """What people call a run: the log that it was made of, else its folder."""
    imported = verdict.header.world == "imported"
    return verdict.header.run_id if imported else verdict.place.name


def _together(verdicts: Sequence[Verdict]) -> str:
    """The verdict on all runs: that of the worst."""
    counts = {name: sum(v.verdict == name for v in verdicts) for name in SENTENCE}
    worst = next(name for name in WORST_FIRST if counts[name])
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    deliveries = sum(verdict.counts.deliveries for verdict in verdicts)
    return (
        f'<div class="verdict {worst}"><strong>{worst}</strong><span>{said}</span>'
        f'<span class="soft">{len(verdicts):,} runs, {deliveries:,} deliveries</span></div>'
    )


def _compared(verdicts: Sequence[Verdict], metrics: Sequence[dict[str, Any]]) -> str:
    """What was measured, runs side by side."""
    shown = list(zip(verdicts, metrics, strict=True))[:RUNS_COMPARED]
    rows = []
    for name, (title, _, _) in METRICS.items():
        values = [_value(name, of_run.get(name)) for _, of_run in shown]
        if any(value is not None for value in values):
            rows.append([title, *(value or "–" for value in values)])
    titles = ["measured", *(escape(verdict.place.name) for verdict, _ in shown)]
    table = _table(titles, rows, numbers=range(1, len(titles)))
    svg = plots.comparison_plot([(verdict.place.name, of_run) for verdict, of_run in shown])
    caption = "<figcaption>Half, 95 % and 99 % of deliveries took at most so long.</figcaption>"
    figure = f"<h3>Latency compared</h3><figure>{svg}{caption}</figure>" if svg else ""
    return f"{figure}<h3>Measured, side by side</h3>{table}"


def _overview(verdicts: Sequence[Verdict], metrics: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            escape(verdict.place.name),
            f'<b class="{verdict.verdict}">{verdict.verdict}</b>',
            escape(verdict.header.protocol or verdict.header.world),
            f"{verdict.counts.nodes:,}",
            f"{verdict.counts.deliveries:,}",
            _value("latency_p50_ms", values.get("latency_p50_ms")) or "–",
        ]
        for verdict, values in zip(verdicts, metrics, strict=True)
    ]
    titles = ["run", "verdict", "protocol", "nodes", "deliveries", "median latency"]
    more = (
        f'<p class="soft">Only the first {RUNS_IN_FULL} follow in full.</p>'
        if len(verdicts) > RUNS_IN_FULL
        else ""
    )
    return _table(titles, rows, numbers={3, 4, 5}) + more


def _run(run: MovingRun, metrics: dict[str, Any], figures: Figures, alone: bool) -> str:
    verdict = run.verdict
    parts = [] if alone else [f"<h2>{escape(verdict.place.name)}</h2>"]
    parts += [_about(verdict), _verdict(verdict), _properties(verdict)]
    opens = run.link("See it move") or f'<span class="soft">{escape(run.why_not)}</span>'
    parts += [f"<p>{opens}</p>", _diagnosis(verdict)]
    parts += [_examples(run, result) for result in verdict.results if result.examples]
    timed = verdict.header.timed
    parts += [_metrics(metrics, timed), *_plots(verdict, figures), _waited_for(verdict, figures)]
    parts.append(_nodes(verdict, figures))
    if verdict.header.scenario:
        scenario = escape(verdict.header.scenario)
        parts.append(f"<details><summary>scenario</summary><pre>{scenario}</pre></details>")
        command = f"causalcast lab --run {shlex.quote(str(verdict.place))}"
        parts.append(
            f'<p class="soft">To run it again and interfere: <code>{escape(command)}</code></p>'
        )
    return "\n".join(parts)


def _about(verdict: Verdict) -> str:
    header = verdict.header
    said = [
        header.protocol and f"protocol {header.protocol}",
        f"{header.world} run",
        header.overlay and f"overlay {header.overlay}",
        None if header.seed is None else f"seed {header.seed}",
        header.started_at and f"started {header.started_at}",
        *(f"{name} {value}" for name, value in header.options.items()),
    ]
    faults = [f"{count:,} × {name.replace('_', ' ')}" for name, count in header.faults.items()]
    lines = [" · ".join(part for part in said if part)]
    if faults:
        lines.append("fired: " + " · ".join(faults))
    return "".join(f'<p class="soft">{escape(line)}</p>' for line in lines)


def _verdict(verdict: Verdict) -> str:
    counts = verdict.counts
    size = (
        f"{counts.nodes:,} nodes, {counts.publications:,} publications,"
        f" {counts.deliveries:,} deliveries"
    )
    if not verdict.header.whole and counts.deliveries:
        size += f"; {counts.judged / counts.deliveries:.1%} of them could be judged"
        size += f", {counts.unseen:,} publications never seen" if counts.unseen else ""
    remarks = "".join(f"<p>Note: {escape(remark)}.</p>" for remark in verdict.remarks)
    if verdict.fault is not None:
        remarks += f"<p>{escape(verdict.fault.sentence(verdict.names))}.</p>"
    word = verdict.verdict.replace("_", " ")
    return (
        f'<div class="verdict {verdict.verdict}"><strong>{word}</strong>'
        f'<span>{_sentence(verdict)}</span><span class="soft">{size}</span></div>{remarks}'
    )


def _sentence(verdict: Verdict) -> str:
    """What the verdict is about; a violated property is named."""
    broken = [r for r in verdict.results if r.counted and r.status == VIOLATED]
    if not broken:
        return SENTENCE[verdict.verdict]
    said = [f"{result.name.replace('_', ' ')} ({result.violations:,})" for result in broken]
    return f"Violated: {', '.join(said)}."


def _properties(verdict: Verdict) -> str:
    rows = []
    for result in verdict.results:
        nodes = "1 node" if result.nodes == 1 else f"{result.nodes:,} nodes"
        found = f"{result.violations:,} at {nodes}" if result.violations else ""
        if result.unknown:
            found += f"{', ' if found else ''}{result.unknown:,} cannot be known"
        promised = result.promised_as or ("counted" if result.counted else "–")
        rows.append(
            [
                result.name.replace("_", " "),
                "yes" if promised == result.name else escape(promised.replace("_", " ")),
                f'<b class="{result.status}">{result.status}</b>',
                found,
            ]
        )
    return _table(["property", "promised", "result", "found"], rows)


def _diagnosis(verdict: Verdict) -> str:
    lines = verdict.diagnosis.lines()
    if not lines:
        return ""
    said = "".join(f"<p>{escape(line[0].upper() + line[1:])}.</p>" for line in lines)
    return f"<h3>Diagnosis</h3>{said}"


def _examples(run: MovingRun, result: PropertyResult) -> str:
    verdict = run.verdict
    parts = [f"<h3>{result.name.replace('_', ' ').capitalize()}: what happened</h3>"]
    told = [escape(counter_example.sentence(one, verdict.names)) for one in result.examples]
    for place, (said, finding) in enumerate(zip(told, result.examples, strict=True)):
        if place == TOLD_AT_ONCE:
            break
        link = run.link("Show it in the run", f"-{result.name}-{place}")
        parts.append(f"<p>{said}. {link if place < EXAMPLES else ''}</p>")
        if place < DRAWN and result.name in ("causal_order", "reply_order") and finding.chain:
            steps = counter_example.steps_of(finding, verdict.folder)
            parts.append(f"<figure>{space_time.diagram(steps, verdict.names)}</figure>")
    further = "".join(f"<p>{said}.</p>" for said in told[TOLD_AT_ONCE:])
    if further:
        count = len(told) - TOLD_AT_ONCE
        parts.append(f"<details><summary>{count:,} more</summary>{further}</details>")
    untold = result.violations - len(told)
    if untold > 0:
        parts.append(f'<p class="soft">{untold:,} more are counted and not told here.</p>')
    return "\n".join(parts)


def _metrics(metrics: dict[str, Any], timed: bool) -> str:
    cells = [
        f"<div><dt>{METRICS[name][0]}</dt><dd>{shown}</dd></div>"
        for name in METRICS
        if (shown := _value(name, metrics.get(name))) is not None
    ]
    untold = "" if timed else f'<p class="soft">{NO_TIMES}</p>'
    return f"<h3>Measured</h3><dl>{''.join(cells)}</dl>{untold}" if cells else ""


def _value(name: str, value: Any) -> str | None:
    if value is None:
        return None
    _, form, unit = METRICS[name]
    return f"{value:{form}}{unit}"


def _plots(verdict: Verdict, figures: Figures) -> Iterable[str]:
    drawn = [
        (
            "Latency",
            "From publishing to delivering at another node; the line is the share within.",
            plots.latency_plot(figures),
        ),
        ("Over time", "Own deliveries included.", plots.over_time_plot(figures)),
        (
            "Held back, and superfluous copies",
            "Per node; a node that forwards for others may hold more than it delivers.",
            plots.nodes_plot(figures, verdict.names),
        ),
        (
            "Who was down, who came and went",
            "Red: down, a cross if for good. Triangles: joins and leaves.",
            plots.timeline_plot(figures, verdict.names),
        ),
    ]
    for title, caption, svg in drawn:
        if svg is not None:
            text = f"<figcaption>{escape(caption)}</figcaption>"
            yield f"<h3>{escape(title)}</h3><figure>{svg}{text}</figure>"


def _waited_for(verdict: Verdict, figures: Figures) -> str:
    """Why messages were held: whose messages they waited for."""
    if not figures.waited_for:
        return ""
    most = [f"{verdict.names.node(n)} ({times:,})" for n, times in figures.waited_for[:WAITED_FOR]]
    more = len(figures.waited_for) - len(most)
    rest = f" and {more:,} more nodes" if more > 0 else ""
    return f"<p>Held back for messages of {escape(', '.join(most))}{rest}.</p>"


def _nodes(verdict: Verdict, figures: Figures) -> str:
    down = set(verdict.down)
    rows = [
        [
            escape(verdict.names.node(node.node)) + (" (down)" if node.node in down else ""),
            f"{node.published:,}",
            f"{node.delivered:,}",
            f"{node.held:,}",
            f"{node.duplicates:,}",
            "–" if node.latency_p50_ms is None else f"{node.latency_p50_ms:,.2f}",
        ]
        for node in figures.nodes[:NODES_SHOWN]
    ]
    titles = ["node", "published", "delivered", "held", "copies", "median latency, ms"]
    more = len(figures.nodes) - len(rows)
    note = f'<p class="soft">and {more:,} more nodes</p>' if more > 0 else ""
    return "<h3>Nodes</h3>" + _table(titles, rows, numbers={1, 2, 3, 4, 5}) + note


def _table(titles: list[str], rows: list[list[str]], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)

    def cell(tag: str, place: int, text: str) -> str:
        kind = ' class="number"' if place in right else ""
        return f"<{tag}{kind}>{text}</{tag}>"

    head = "".join(cell("th", place, title) for place, title in enumerate(titles))
    body = "".join(
        f"<tr>{''.join(cell('td', place, text) for place, text in enumerate(row))}</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
