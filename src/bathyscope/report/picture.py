"""Reports as PNG: the strips over depth above the main curves, for a document or a chat."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from bathyscope.core.errors import UsageError
from bathyscope.report.moments import moments
from bathyscope.report.overview import overview
from bathyscope.report.panels import Panel, curve_panels, depth_panels
from bathyscope.report.record import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def to_png(report: Report, path: str | PathLike[str]) -> None:
    """Draw a report: verdict, a strip a main quantity and state, and the main curves.

    Raises:
        UsageError: the file cannot be written.
    """
    states = moments(report)
    named = [(report.title, report)] if report.stages or not report.before else []
    named += [(f"{report.title}, {label}", state) for label, state in states if label]
    _save(named, states, [*depth_panels(states), *curve_panels(states)], path)


def comparison_png(reports: Sequence[Report], path: str | PathLike[str]) -> None:
    """Draw several reports, a row each: verdict, forecast, outcome, one strip over depth, the loss.

    Raises:
        UsageError: there is no report to compare, or the file cannot be written.
    """
    from bathyscope.report.overview_picture import draw_overview  # matplotlib is slow to load

    _write(draw_overview(overview(reports)), path)


def _save(
    headline: Sequence[tuple[str, Report]],
    states: Sequence[tuple[str, Report]],
    panels: Sequence[Panel],
    path: str | PathLike[str],
) -> None:
    from bathyscope.report.sheet import draw_sheet  # matplotlib is slow to load

    _write(draw_sheet([(name, state.verdict) for name, state in headline], states, panels), path)


def _write(figure: "Figure", path: str | PathLike[str]) -> None:
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"The picture {path} cannot be written: {error.strerror}.") from error
