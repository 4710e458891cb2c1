"""One self-contained page: it works offline, and asks nothing of any other place.

All markup stands in `templates`, where every value is escaped. Scripts run by their hash alone: what
is smuggled into a page, as an element or a handler, is refused by the browser. Styles may stand
inline, for plotly writes them; they can load nothing.
"""

import gzip
import hashlib
from base64 import b64encode
from dataclasses import replace
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from bathyscope.report.block_table import block_table
from bathyscope.report.moments import moments
from bathyscope.report.next_step import next_step
from bathyscope.report.numbers import range_of
from bathyscope.report.overview import overview
from bathyscope.report.palette import light_colour, style_sheet
from bathyscope.report.panels import curve_panels, depth_panels
from bathyscope.report.plots import plot
from bathyscope.report.record import Report
from bathyscope.report.series import columns_of
from bathyscope.report.shading import shade_class
from bathyscope.report.strips import Drawing, block_axis, draw, strip_groups, trunk_names
from bathyscope.report.verdicts import changes, finding_views, verdict_card
from bathyscope.report.words import notes, provenance, word_entries


def to_html(report: Report) -> str:
    """The report as one page: verdict, findings, strips over depth, plots, table, provenance.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> html = to_html(Report(title="<mlp>", verdict=clean, blocks=()))
        >>> html.startswith("<!doctype html>"), "&lt;mlp&gt;" in html
        (True, True)
    """
    states = moments(report)
    keys = dict.fromkeys(key for _, state in states for key in columns_of(state))
    return render(
        "report.html",
        title=report.title,
        # after a treatment the last state is the report; stages stand beside the verdict on them all
        verdict=verdict_card(report) if len(states) == 1 or report.stages else None,
        cards=[(when, verdict_card(state)) for when, state in states] if len(states) > 1 else [],
        forecast=report.forecast,
        outcome=report.outcome,
        next_step=next_step(report),
        findings=finding_views(report),
        changes=changes(report),
        depth=strip_groups(report) if keys else [],
        trunks=trunk_names(states),
        axis=block_axis(report),
        has_transitions=any(block.changes_dimension for block in report.blocks),
        depth_plot=plot("depth", depth_panels(states), x_title="block"),
        curve_plot=plot("curves", curve_panels(states), x_title="step"),
        table=block_table(report),
        words=word_entries(keys),
        notes=notes(report),
        code=report.code,
        provenance=provenance(report),
    )


def notebook_html(report: Report) -> str:
    """Verdict, worst strips, findings and code for a notebook, without scripts or a style sheet.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing <found>.")
        >>> "Nothing &lt;found&gt;." in notebook_html(Report(title="mlp", verdict=clean, blocks=()))
        True
    """
    return (
        _environment()
        .get_template("notebook.html")
        .render(
            title=report.title,
            before=None if report.before is None else verdict_card(report.before),
            verdict=verdict_card(report),
            forecast=report.forecast,
            outcome=report.outcome,
            next_step=next_step(report),
            strips=notebook_strips(report),
            findings=finding_views(report),
            notes=notes(report),
            code=report.code,
        )
    )


def notebook_strips(report: Report) -> list[tuple[str, str, Drawing]]:
    """The quantity that is worst at any moment: its name and range, and its strip in colours, at each.

    None where no quantity has a bad side.
    """
    states = moments(report)
    seen = overview([replace(state, before=None, stages=()) for _, state in states])
    strips = []
    for (when, _), row in zip(states, seen.rows, strict=True):
        if row.series is not None and seen.shading is not None:
            shades = [shade_class(v, seen.shading) for v in row.series.values]
            colours = draw([c and light_colour(c) for c in shades])
            strips.append((f"{seen.label} {when}".strip(), range_of(row.series.values), colours))
    return strips


def render(template: str, *, title: str, **values: object) -> str:
    """A whole document of a template, with style and scripts inside.

    Args:
        template: a file under `templates`.
        title: of the document.
        values: what the template shows. Plotly is put in where one ends in `_plot` and is not None.
    """
    has_plot = any(value for name, value in values.items() if name.endswith("_plot"))
    scripts = [_plotly(), _asset("page.js")] if has_plot else [_asset("page.js")]
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=style_sheet() + _asset("page.css"),
            scripts=scripts,
            policy=_policy(scripts),
            **values,
        )
    )


def _policy(scripts: list[str]) -> str:
    """The browser itself then refuses every request and every other script."""
    hashes = " ".join(f"'{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _hash(script: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bathyscope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


@cache
def _asset(name: str) -> str:
    return files("bathyscope.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """plotly.js with lines only (MIT, `assets/plotly.LICENSE`), made by `assets/bundle_plotly.mjs`."""
    packed = files("bathyscope.report").joinpath("assets", "plotly.min.js.gz").read_bytes()
    return gzip.decompress(packed).decode()
