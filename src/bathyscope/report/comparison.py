"""Several networks side by side on one page."""

from collections.abc import Sequence

from bathyscope.core.errors import UsageError
from bathyscope.report.html_findings import verdict
from bathyscope.report.html_plots import plot
from bathyscope.report.html_strips import Row, block_names, legend, quantity_link, strip_row
from bathyscope.report.html_text import escape, joined, number_list, section
from bathyscope.report.html_words import words
from bathyscope.report.moments import moments
from bathyscope.report.numbers import counted, number
from bathyscope.report.page import page
from bathyscope.report.panels import curve_panels, depth_panels
from bathyscope.report.record import Report
from bathyscope.report.series import main_keys, series_of
from bathyscope.report.shading import shading

_MOST_FINDINGS = 4


def comparison_html(reports: Sequence[Report]) -> str:
    """Verdicts in a row, strips of a quantity under each other on one scale, and common plots.

    Raises:
        UsageError: there is no report to compare.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> pair = [Report(title=title, verdict=clean, blocks=()) for title in ("plain", "residual")]
        >>> "plain and residual" in comparison_html(pair)
        True
    """
    if not reports:
        raise UsageError(
            "There is nothing to compare: no report was given, one or more are needed."
        )
    title = told_together([report.title for report in reports])
    states = named_states(reports)
    finals = [(report.title, report) for report in reports]
    keys = main_keys(*(state for _, state in states))
    cards = joined(_card(report) for report in reports)
    curves = plot("curves", curve_panels(finals), x_title="step")
    sections = (
        section("Training", curves, name="training"),
        section("Over depth", _strips(states, keys), name="depth"),
        section(
            "Plots",
            plot("depth", depth_panels(finals), x_title="block"),
            name="plots",
            lead="Drag to zoom, double-click to go back.",
        ),
        section("What the quantities mean", words(keys), name="words"),
        section("How this was measured", _provenance(reports), name="provenance"),
    )
    head = f'<header><h1>{escape(title)}</h1><div class="side-by-side">{cards}</div></header>'
    return page(title, joined((head, *sections)))


def named_states(reports: Sequence[Report]) -> list[tuple[str, Report]]:
    """Every network at every moment, named by both."""
    return [
        (f"{report.title}, {label}" if label else report.title, state)
        for report in reports
        for label, state in moments(report)
    ]


def told_together(names: Sequence[str]) -> str:
    """Names as one phrase.

    Examples:
        >>> told_together(["plain", "residual", "procrustes"])
        'plain, residual and procrustes'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _card(report: Report) -> str:
    """A network's verdict, how it came about, and the gravest of its findings."""
    states = moments(report)
    order = " → ".join(
        f'{escape(label)} <span class="severity {state.verdict.level}">{state.verdict.level}</span>'
        for label, state in states
    )
    told = verdict(report) + (f'<p class="order">{order}</p>' if len(states) > 1 else "")
    items = [
        f'<li><span class="severity {finding.severity}">{finding.severity}</span> '
        f"<span>{escape(finding.title)}</span></li>"
        for finding in report.findings[:_MOST_FINDINGS]
    ]
    if len(report.findings) > _MOST_FINDINGS:
        items.append(f"<li>{counted(len(report.findings) - _MOST_FINDINGS, 'more finding')}</li>")
    found = f'<ul class="changes">{"".join(items)}</ul>' if items else ""
    return f'<div class="card"><h2>{escape(report.title)}</h2>{told}{found}</div>'


def _strips(states: Sequence[tuple[str, Report]], keys: Sequence[str]) -> str:
    found = [(name, state, series_of(state)) for name, state in states]
    sets = []
    for key in keys:
        rows = [
            Row(name=name, series=series[key], blocks_id=f"blocks-{at}")
            for at, (name, _, series) in enumerate(found)
            if key in series
        ]
        shades = shading(rows[0].series.quantity, [v for row in rows for v in row.series.values])
        drawn = joined(strip_row(row, shades, label=escape(row.name)) for row in rows)
        name = quantity_link(key, rows[0].series.quantity.label)
        sets.append(f'<div class="set strips"><div class="of">{name}</div>{drawn}</div>')
    names = [block_names(f"blocks-{at}", state.blocks) for at, (_, state) in enumerate(states)]
    return joined((*names, legend(transitions=False), *sets)) if sets else ""


def _provenance(reports: Sequence[Report]) -> str:
    """What the networks share once, and what differs by network."""
    names = dict.fromkeys(name for report in reports for name in report.provenance)
    pairs = []
    for name in names:
        values = [number(report.provenance.get(name)) for report in reports]
        pairs.append((name, values[0] if len(set(values)) == 1 else " | ".join(values)))
    return number_list(pairs, style="provenance")
