"""Several networks at a glance: for each what was found, forecast, seen over depth, and what came of it.

The terminal and the picture show the same rows; the page has them block by block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.errors import UsageError
from bathyscope.core.forecast import Forecast
from bathyscope.report.moments import moments
from bathyscope.report.record import Curve, Judgement, Report
from bathyscope.report.series import Series, main_keys, series_of
from bathyscope.report.shading import Shading, shading


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRow:
    """A network at its start, the quantity that tells the networks apart, and the end."""

    title: str
    verdict: Judgement
    when: str
    forecast: Forecast | None
    outcome: str
    series: Series | None
    curve: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The rows, and the one quantity that they are drawn by, on one scale."""

    rows: Sequence[OverviewRow]
    label: str
    shading: Shading | None


def overview(reports: Sequence[Report]) -> Overview:
    """The networks at their start, with the main quantity that is worst in any of them.

    Raises:
        UsageError: there is no report.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> seen = overview([Report(title="mlp", verdict=clean, blocks=(), outcome="It trains.")])
        >>> seen.rows[0].outcome, seen.rows[0].series
        ('It trains.', None)
    """
    if not reports:
        raise UsageError(
            "There is nothing to compare: no report was given, one or more are needed."
        )
    starts = [moments(report)[0] for report in reports]
    found = [series_of(state) for _, state in starts]
    scales = _scales([state for _, state in starts], found)
    key = max(scales, key=lambda k: _badness(k, found, scales[k]), default=None)
    return Overview(
        rows=[
            OverviewRow(
                title=report.title,
                verdict=state.verdict,
                when=when,
                forecast=report.forecast,
                outcome=report.outcome,
                series=series.get(key) if key else None,
                curve=next(iter(report.curves.values()), ()),
            )
            for report, (when, state), series in zip(reports, starts, found, strict=True)
        ],
        label=next(s[key].quantity.label for s in found if key in s) if key else "",
        shading=scales[key] if key else None,
    )


def _scales(states: Sequence[Report], found: Sequence[dict[str, Series]]) -> dict[str, Shading]:
    """The main quantities that have a bad side, with the scale that is common to all networks."""
    scales = {}
    for key in main_keys(*states):
        known = [series[key] for series in found if key in series]
        scales[key] = shading(known[0].quantity, [v for s in known for v in s.values])
    return {key: scale for key, scale in scales.items() if scale.family != "cool"}


def _badness(key: str, found: Sequence[dict[str, Series]], scale: Shading) -> float:
    """How bad the worst network is on average over its blocks; what is not finite counts as worst."""
    means = []
    for series in found:
        if key in series:
            shades = [scale.shade(v) for v in series[key].values if v is not None]
            means.append(sum(1.0 if s is None else abs(s) for s in shades) / len(shades))
    return max(means)
