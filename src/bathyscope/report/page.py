"""One self-contained page: it works offline, and asks nothing of any other place.

All markup stands in `templates`, where every value is escaped. Scripts run by their hash alone: what
is smuggled into a page, as an element or a handler, is refused by the browser. Plots are graphics of
the page itself: they are seen without scripts, and print.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bathyscope.report.block_table import block_table
from bathyscope.report.document import environment, render
from bathyscope.report.findings import changes, finding_views, fix, not_checked, setup, verdict_card
from bathyscope.report.glossary import glossary, notes, provenance, recorded_settings
from bathyscope.report.overview import overview
from bathyscope.report.palette import light_color
from bathyscope.report.panels import (
    Panel,
    columns_of,
    curve_panels,
    decisive_panel,
    depth_panels,
    main_panels,
)
from bathyscope.report.position_matrix import position_matrix
from bathyscope.report.record import Report
from bathyscope.report.svg import Drawing, DrawnPanel, drawn_panel, strip

Places = list[list[tuple[float, str]]]
"""For each trace its blocks or steps: where they lie, and their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StripGroup:
    """The quantities of one measurement: the main ones, and the others."""

    title: str
    main: Sequence[DrawnPanel]
    detail: Sequence[DrawnPanel]


def to_html(report: Report) -> str:
    """The report as one page: verdict, decisive curve, fix, root causes, strips, plots, table.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing found.")
        >>> html = to_html(Report(title="<mlp>", verdict=clean, blocks=()))
        >>> html.startswith("<!doctype html>"), "&lt;mlp&gt;" in html
        (True, True)
    """
    states = report.moments
    panels = depth_panels(states)
    curves = curve_panels(states)
    decisive = decisive_panel(panels, report.decisive or _decisive_before(report))
    return render(
        "report.html",
        title=report.title,
        verdict=verdict_card(report),
        order=_order(report),
        setup=setup(report),
        fix=fix(report),
        first=_first_curves(report, curves, decisive),
        forecast=report.forecast,
        outcome=report.outcome,
        findings=finding_views(report),
        passed=report.passed,
        not_checked=not_checked(report),
        changes=changes(report),
        depth=strip_groups(panels),
        positions=position_matrix(report),
        locations=block_places(states),
        steps=step_places(curves),
        axis=strip(["tick" if block.changes_dimension else "" for block in report.blocks]),
        extent=report.extent,
        ends=[report.blocks[at].label for at in (0, -1)] if report.blocks else ["", ""],
        has_transitions=any(block.changes_dimension for block in report.blocks),
        depth_plots=[drawn_panel(panel) for panel in main_panels(panels)],
        curve_plots=[drawn_panel(panel, locations="steps") for panel in curves],
        table=block_table(report),
        glossary=glossary(dict.fromkeys(key for _, state in states for key in columns_of(state))),
        notes=notes(report),
        provenance=provenance(report),
        recorded=recorded_settings(report),
    )


def _order(report: Report) -> list[tuple[str, str, str]]:
    """When, level and sentence of the other states; empty where the sentence was said already."""
    said = {report.verdict.sentence}
    order: list[tuple[str, str, str]] = []
    for when, state in report.moments:
        if when and state is not report:
            sentence = state.verdict.sentence
            order.append((when, state.verdict.level, "" if sentence in said else sentence))
            said.add(sentence)
    return order


def _decisive_before(report: Report) -> str:
    """The quantity that showed the fault of an earlier state, which a treatment is judged by."""
    return "" if report.before is None else report.before.decisive


def _first_curves(
    report: Report, curves: Sequence[Panel], decisive: Panel | None
) -> list[DrawnPanel]:
    """What the first screen draws: the losses of a training, and the decisive quantity over depth."""
    shows_training = report.before is not None or not report.stages
    first = [drawn_panel(panel, locations="steps") for panel in curves[:1] if shows_training]
    # beside a loss of its own, a curve over depth that shows no finding only distracts
    is_about = report.before is not None or bool(report.decisive) or not first
    return first + ([drawn_panel(decisive)] if decisive and is_about else [])


def notebook_html(report: Report) -> str:
    """Verdict, worst strips, findings and code for a notebook, without scripts or a style sheet.

    Examples:
        >>> from bathyscope.report import Judgment
        >>> clean = Judgment(level="clean", sentence="Nothing <found>.")
        >>> "Nothing &lt;found&gt;." in notebook_html(Report(title="mlp", verdict=clean, blocks=()))
        True
    """
    template = environment().get_template("notebook.html")
    return template.render(
        title=report.title,
        before=None if report.before is None else verdict_card(report.before),
        verdict=verdict_card(report),
        setup=setup(report),
        forecast=report.forecast,
        outcome=report.outcome,
        fix=fix(report),
        strips=notebook_strips(report),
        findings=finding_views(report),
        notes=notes(report),
    )


def notebook_strips(report: Report) -> list[tuple[str, str, Drawing]]:
    """The quantity that is worst at any moment: its name and range, and its strip in colors, at each.

    None where no quantity has a bad side.
    """
    states = report.moments
    seen = overview([replace(state, before=None, stages=()) for _, state in states])
    return [
        (
            f"{seen.label} {when}".strip(),
            row.trace.span,
            strip([c and light_color(c) for c in row.trace.shades]),
        )
        for (when, _), row in zip(states, seen.rows, strict=True)
        if row.trace is not None
    ]


def strip_groups(panels: Sequence[Panel]) -> list[StripGroup]:
    """The panels by measurement, those of settings left out."""
    groups: dict[str, dict[str, list[DrawnPanel]]] = {}
    for panel in panels:
        if panel.quantity and panel.quantity.role != "setting":
            group = groups.setdefault(panel.key.partition(".")[0], {"main": [], "detail": []})
            group[panel.quantity.role].append(drawn_panel(panel))
    return [
        StripGroup(title=name.replace("_", " "), main=group["main"], detail=group["detail"])
        for name, group in groups.items()
    ]


def block_places(states: Sequence[tuple[str, Report]]) -> Places:
    """Index and name of every block of every state, for the page's script."""
    return [[(block.index, block.label) for block in state.blocks] for _, state in states]


def step_places(panels: Sequence[Panel]) -> Places:
    """The steps of every trace, by its color; those of the longest where curves differ."""
    longest: dict[int, list[tuple[float, str]]] = {}
    for trace in (trace for panel in panels for trace in panel.traces):
        if len(trace.x) > len(longest.get(trace.color, ())):
            longest[trace.color] = [(x, "") for x in trace.x]
    return [longest.get(color, []) for color in range(max(longest, default=-1) + 1)]
