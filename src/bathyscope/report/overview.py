"""Several networks at a glance: for each the verdict, the forecast, one trace over depth, the outcome.

Terminal and picture show the same rows; the page has them block by block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.errors import UsageError
from bathyscope.foresight.record import Forecast
from bathyscope.report.panels import Panel, Trace, curve_trace, decisive_panel, depth_panels
from bathyscope.report.record import Judgment, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """A network at its first moment, the quantity that separates the networks, and the end."""

    title: str
    verdict: Judgment
    when: str
    forecast: Forecast | None
    outcome: str
    trace: Trace | None
    curve: Trace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The rows, and the panel whose traces they show."""

    rows: Sequence[OverviewRow]
    panel: Panel | None

    @property
    def label(self) -> str:
        """Of the quantity; empty where there is none."""
        return self.panel.title if self.panel else ""


def overview(reports: Sequence[Report]) -> Overview:
    """The networks at their first moment, with the main quantity that is worst in any of them.

    Raises:
        UsageError: there is no report.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> seen = overview([Report(title="mlp", verdict=clean, blocks=(), outcome="It trains.")])
        >>> seen.rows[0].outcome, seen.rows[0].trace
        ('It trains.', None)
    """
    if not reports:
        raise UsageError(
            "There is nothing to compare: no report was given, one or more are needed."
        )
    first = [report.moments[0] for report in reports]
    panel = decisive_panel(depth_panels([(str(at), state) for at, (_, state) in enumerate(first)]))
    traces = {trace.color: trace for trace in panel.traces} if panel else {}
    rows = [
        OverviewRow(
            title=report.title,
            verdict=state.verdict,
            when=when,
            forecast=report.forecast,
            outcome=report.outcome,
            trace=traces.get(at),
            curve=_first_curve(report),
        )
        for at, (report, (when, state)) in enumerate(zip(reports, first, strict=True))
    ]
    return Overview(rows=rows, panel=panel)


def _first_curve(report: Report) -> Trace | None:
    curve = next(iter(report.curves.values()), ())
    return curve_trace(report.title, 0, curve) if curve else None
