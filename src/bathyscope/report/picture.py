"""Reports as PNG: the strips over depth above the main curves, for a document or a chat."""

from collections.abc import Sequence
from os import PathLike

from bathyscope.core.errors import UsageError
from bathyscope.report.comparison import named_states
from bathyscope.report.moments import moments
from bathyscope.report.panels import Panel, curve_panels, depth_panels
from bathyscope.report.record import Report


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
    """Draw several reports: verdicts, strips of a quantity under each other, common curves.

    Raises:
        UsageError: there is no report to compare, or the file cannot be written.
    """
    if not reports:
        raise UsageError(
            "There is nothing to compare: no report was given, one or more are needed."
        )
    states = named_states(reports)
    finals = [(report.title, report) for report in reports]
    _save(states, states, [*curve_panels(finals), *depth_panels(finals)], path)


def _save(
    headline: Sequence[tuple[str, Report]],
    states: Sequence[tuple[str, Report]],
    panels: Sequence[Panel],
    path: str | PathLike[str],
) -> None:
    from bathyscope.report.sheet import drawn  # matplotlib is slow to load

    figure = drawn([(name, state.verdict) for name, state in headline], states, panels)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"The picture {path} cannot be written: {error.strerror}.") from error
