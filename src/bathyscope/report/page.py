"""One self-contained page: it works offline, and asks nothing of any other place."""

from functools import cache

from bathyscope.report.html_findings import changes, findings, verdicts
from bathyscope.report.html_plots import plot, plots
from bathyscope.report.html_strips import strips
from bathyscope.report.html_table import table
from bathyscope.report.html_text import asset, escape, joined, section
from bathyscope.report.html_words import notes, provenance, words
from bathyscope.report.moments import moments
from bathyscope.report.palette import style_sheet
from bathyscope.report.panels import curve_panels
from bathyscope.report.record import Report
from bathyscope.report.series import columns_of

# the browser itself then refuses every request, whatever a script tries
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)


def to_html(report: Report) -> str:
    """The report as one page: verdict, findings, strips over depth, plots, table, provenance.

    Examples:
        >>> from bathyscope.report import Judgement
        >>> clean = Judgement(level="clean", sentence="Nothing found.")
        >>> html = to_html(Report(title="<mlp>", verdict=clean, blocks=()))
        >>> html.startswith("<!doctype html>"), "&lt;mlp&gt;" in html
        (True, True)
    """
    keys = dict.fromkeys(key for _, state in moments(report) for key in columns_of(state))
    sections = (
        section("Findings", findings(report), name="findings"),
        section("What changed", changes(report), name="changes"),
        section("Over depth", strips(report) if keys else "", name="depth"),
        section(
            "Plots", plots(report), name="plots", lead="Drag to zoom, double-click to go back."
        ),
        section(
            "Training",
            plot("curves", curve_panels(moments(report)), x_title="step"),
            name="training",
        ),
        section("Blocks", table(report), name="blocks"),
        section("What the quantities mean", words(keys), name="words"),
        section("Notes", notes(report), name="notes"),
        section("How this was measured", provenance(report), name="provenance"),
    )
    head = f"<header><h1>{escape(report.title)}</h1>{verdicts(report)}</header>"
    return page(report.title, joined((head, *sections)))


def page(title: str, body: str) -> str:
    """A whole document around a body, with style and scripts inside."""
    return joined(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',  # else a browser asks for one
            f"<title>{escape(title)} · bathyscope</title>",
            f"<style>{style_sheet()}{asset('page.css')}</style></head><body><main>",
            body,
            '</main><div id="tip" role="status" hidden></div>',
            f"<script>{_plotly() if 'data-plot=' in body else ''}</script>",
            f"<script>{asset('page.js')}</script></body></html>",
        )
    )


@cache
def _plotly() -> str:
    # five megabytes: loaded when a page is written, read once, embedded once a page
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
