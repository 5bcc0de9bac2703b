"""The page of a campaign: each figure beside the claims that it decides, and a table of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from causalcast.reproduce.figure import Figure
from causalcast.reproduce.store import Row
from causalcast.reproduce.verdicts import CONFIRMED, REFUTED, ListedClaim, Verdict, counted
from causalcast.version import VERSION

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
h2 { margin-top: 3rem; border-top: 1px solid #d5d9de; padding-top: 1.2rem; }
.pair { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.pair > div { flex: 1 1 30rem; min-width: 0; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
td, th { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0;
  border-bottom: 1px solid #e6e9ed; }
.confirmed { color: #1a7f45; font-weight: 600; } .refuted { color: #b3261e; font-weight: 600; }
.other { color: #6a737d; } .small { font-size: 0.88rem; color: #57606a; }
"""


@dataclass
class Shown:
    """One figure on the page."""

    figure: Figure
    rows: list[Row]
    svg: str
    verdicts: list[Verdict]


def page(
    size: str, shown: Sequence[Shown], claims: Sequence[ListedClaim], all_of: Sequence[Verdict]
) -> str:
    """The whole page."""
    by_id = {claim.id: claim for claim in claims}
    counts = counted(all_of)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    rows = [row for one in shown for row in one.rows]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>The sources, measured again</title><style>{STYLE}</style>",
        "<h1>The sources, measured again</h1>",
        f"<p>causalcast {escape(VERSION)}, size <b>{escape(size)}</b>. "
        f"{len(claims)} claims: {told}.</p>",
        f"<p>{escape(judged_line(rows))}</p>",
    ]
    for one in shown:
        parts.append(_figure(one, by_id))
    parts.append("<h2>All claims</h2>")
    parts.append(_claims_table(claims, {verdict.claim: verdict for verdict in all_of}))
    return "\n".join(parts) + "\n"


def judged_line(rows: Sequence[Row]) -> str:
    """What the judge saw of the runs behind some rows."""
    causal = [row for row in rows if row.get("causal")]
    bad = [row for row in causal if row.get("verdict") != "ok"]
    plain = [row for row in rows if row.get("verdict") and not row.get("causal")]
    failed = sum(bool(row.get("error")) for row in rows)
    line = (
        f"{len(causal)} runs of causal protocols, {sum(r['deliveries'] for r in causal):,} "
        f"deliveries judged, {len(bad)} runs broke a promise; {len(plain)} runs of protocols that "
        f"promise no causal order, judged by what they promise."
    )
    return line + (f" {failed} points failed." if failed else "")


def _figure(one: Shown, claims: Mapping[str, ListedClaim]) -> str:
    figure = one.figure
    name = escape(figure.name)
    return f"""
<h2 id="{name}">{escape(figure.source)} {escape(figure.number)}: {escape(figure.title)}</h2>
<div class="pair"><div>{one.svg}
<p class="small">{escape(figure.setting)}</p>
<p class="small">{escape(judged_line(one.rows))} <a href="{name}.csv">CSV</a>,
<a href="{name}.parquet">Parquet</a>, <a href="{name}.png">PNG</a>, <a href="{name}.svg">SVG</a>;
<code>causalcast reproduce --figure {name}</code></p></div>
<div><table><tr><th>claim<th>verdict<th>measured</tr>
{"".join(_row(verdict, claims.get(verdict.claim)) for verdict in one.verdicts)}
</table></div></div>"""


def _row(verdict: Verdict, claim: ListedClaim | None) -> str:
    words = f"{escape(claim.section)}: {escape(claim.words)}" if claim else ""
    because = f"<br><span class='small'>{escape(verdict.because)}</span>" if verdict.because else ""
    return (
        f"<tr><td><b>{escape(verdict.claim)}</b> {words}"
        f"<td class='{_class(verdict.verdict)}'>{escape(verdict.verdict)}"
        f"<td>{escape(verdict.numbers)}{because}</tr>\n"
    )


def _claims_table(claims: Sequence[ListedClaim], verdicts: Mapping[str, Verdict]) -> str:
    lines = ["<table><tr><th>claim<th>verdict<th>decided by<th>measured</tr>"]
    for claim in claims:
        verdict = verdicts[claim.id]
        told = " ".join(filter(None, [verdict.numbers, verdict.because]))
        lines.append(
            f"<tr><td><b>{escape(claim.id)}</b> {escape(claim.section)}: {escape(claim.words)}"
            f"<td class='{_class(verdict.verdict)}'>{escape(verdict.verdict)}"
            f"<td class='small'>{escape(verdict.decided_by)}<td>{escape(told)}</tr>"
        )
    return "\n".join([*lines, "</table>"])


def _class(verdict: str) -> str:
    return verdict if verdict in (CONFIRMED, REFUTED) else "other"
