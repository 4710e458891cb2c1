"""Several networks side by side on one page."""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.errors import UsageError
from bathyscope.foresight.record import Forecast
from bathyscope.report.document import render
from bathyscope.report.findings import FindingView, VerdictCard, finding_views, verdict_card
from bathyscope.report.glossary import common_provenance, glossary
from bathyscope.report.numbers import amount
from bathyscope.report.page import block_places, step_places
from bathyscope.report.panels import curve_panels, decisive_panel, depth_panels, main_panels
from bathyscope.report.record import Level, Report
from bathyscope.report.svg import drawn_panel

_MOST_FINDINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCard:
    """A network's verdict, how it came about, and the most severe of its root causes."""

    title: str
    verdict: VerdictCard
    order: Sequence[tuple[str, Level]]
    findings: Sequence[FindingView]
    more: str
    forecast: Forecast | None
    outcome: str
    code: str


def comparison_html(reports: Sequence[Report]) -> str:
    """Verdicts in a row, the loss, strips of a quantity under each other on one scale, common plots.

    Raises:
        UsageError: there is no report to compare.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> pair = [Report(title=title, verdict=clean, blocks=()) for title in ("plain", "residual")]
        >>> "plain and residual" in comparison_html(pair)
        True
    """
    if not reports:
        raise UsageError(
            "There is nothing to compare: no report was given, one or more are needed."
        )
    states = named_states(reports)
    starts = [(report.title, _start(report)) for report in reports]
    curves = curve_panels([(report.title, report) for report in reports])
    shown = main_panels(depth_panels(states))
    plots = main_panels(depth_panels(starts))
    decisive = decisive_panel(plots)
    return render(
        "comparison.html",
        title=join_names([report.title for report in reports]),
        cards=[_card(report) for report in reports],
        curve_plots=[drawn_panel(panel, locations="steps") for panel in curves],
        decisive=drawn_panel(decisive, locations="starts") if decisive else None,
        when=next((when for report in reports for when, _ in report.stages[:1]), ""),
        depth=[drawn_panel(panel) for panel in shown],
        locations=block_places(states),
        starts=block_places(starts),
        steps=step_places(curves),
        depth_plots=[drawn_panel(panel, locations="starts") for panel in plots],
        glossary=glossary(panel.key for panel in shown),
        provenance=common_provenance(reports),
    )


def _start(report: Report) -> Report:
    """The state that a card is about: untrained, as that of a treated network is."""
    return report.stages[0][1] if report.stages else report


def named_states(reports: Sequence[Report]) -> list[tuple[str, Report]]:
    """Every network at every moment, named by both."""
    return [
        (f"{report.title}, {label}" if label else report.title, state)
        for report in reports
        for label, state in report.moments
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
    states, start = report.moments, _start(report)
    findings = finding_views(start)
    rest = len(findings) - _MOST_FINDINGS
    return NetworkCard(
        title=report.title,
        verdict=verdict_card(start),
        forecast=report.forecast,
        outcome=report.outcome,
        code=report.code,
        order=[(when, s.verdict.level) for when, s in states] if len(states) > 1 else [],
        findings=findings[:_MOST_FINDINGS],
        more=amount(rest, "more finding") if rest > 0 else "",
    )
