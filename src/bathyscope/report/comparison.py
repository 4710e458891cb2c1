"""Several networks side by side on one page."""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.errors import UsageError
from bathyscope.core.forecast import Forecast
from bathyscope.core.records import Finding
from bathyscope.report.moments import moments
from bathyscope.report.numbers import amount, number
from bathyscope.report.page import render
from bathyscope.report.panels import curve_panels, depth_panels
from bathyscope.report.plots import plot
from bathyscope.report.record import Level, Report
from bathyscope.report.series import main_keys, series_of
from bathyscope.report.strips import strips_of, trunk_names
from bathyscope.report.verdicts import VerdictCard, verdict_card
from bathyscope.report.words import word_entries

_MOST_FINDINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCard:
    """A network's verdict, how it came about, and the gravest of its findings."""

    title: str
    verdict: VerdictCard
    order: Sequence[tuple[str, Level]]
    findings: Sequence[Finding]
    more: str
    forecast: Forecast | None
    outcome: str
    code: str


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
    states = named_states(reports)
    finals = [(report.title, report) for report in reports]
    keys = main_keys(*(state for _, state in states))
    series = [(name, series_of(state)) for name, state in states]
    return render(
        "comparison.html",
        title=join_names([report.title for report in reports]),
        cards=[_card(report) for report in reports],
        curve_plot=plot("curves", curve_panels(finals), x_title="step"),
        depth=[strips_of(key, series) for key in keys],
        trunks=trunk_names(states),
        depth_plot=plot("depth", depth_panels(finals), x_title="block"),
        words=word_entries(keys),
        provenance=_provenance(reports),
    )


def named_states(reports: Sequence[Report]) -> list[tuple[str, Report]]:
    """Every network at every moment, named by both."""
    return [
        (f"{report.title}, {label}" if label else report.title, state)
        for report in reports
        for label, state in moments(report)
    ]


def join_names(names: Sequence[str]) -> str:
    """Names as one phrase.

    Examples:
        >>> join_names(["plain", "residual", "procrustes"])
        'plain, residual and procrustes'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _card(report: Report) -> NetworkCard:
    states = moments(report)
    rest = len(report.findings) - _MOST_FINDINGS
    return NetworkCard(
        title=report.title,
        verdict=verdict_card(report),
        forecast=report.forecast,
        outcome=report.outcome,
        code=report.code,
        order=[(when, s.verdict.level) for when, s in states] if len(states) > 1 else [],
        findings=report.findings[:_MOST_FINDINGS],
        more=amount(rest, "more finding") if rest > 0 else "",
    )


def _provenance(reports: Sequence[Report]) -> list[tuple[str, str]]:
    """What the networks share once, and what differs by network."""
    names = dict.fromkeys(name for report in reports for name in report.provenance)
    pairs = []
    for name in names:
        values = [number(report.provenance.get(name)) for report in reports]
        pairs.append((name, values[0] if len(set(values)) == 1 else " | ".join(values)))
    return pairs
