"""Reports from records alone: terminal, JSON, HTML and pictures. Nothing here measures."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.report.comparison import comparison_html as comparison_html
    from bathyscope.report.files import read_report as read_report
    from bathyscope.report.files import write as write
    from bathyscope.report.files import write_comparison as write_comparison
    from bathyscope.report.overview import overview as overview
    from bathyscope.report.page import notebook_html as notebook_html
    from bathyscope.report.page import to_html as to_html
    from bathyscope.report.picture import comparison_picture as comparison_picture
    from bathyscope.report.picture import plot_report as plot_report
    from bathyscope.report.picture import to_picture as to_picture
    from bathyscope.report.record import Judgment as Judgment
    from bathyscope.report.record import Level as Level
    from bathyscope.report.record import Report as Report
    from bathyscope.report.reported import Reported as Reported
    from bathyscope.report.saved import SCHEMA as SCHEMA
    from bathyscope.report.saved import from_json as from_json
    from bathyscope.report.saved import schema as schema
    from bathyscope.report.saved import to_json as to_json
    from bathyscope.report.terminal import show as show
    from bathyscope.report.terminal import show_overview as show_overview
    from bathyscope.report.terminal import text_of as text_of
    from bathyscope.report.training_page import EventView as EventView
    from bathyscope.report.training_page import TrainingPage as TrainingPage
    from bathyscope.report.training_page import training_html as training_html

# lazy: a diagnosis holds a report, and most are never drawn
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "SCHEMA": "saved",
        "EventView": "training_page",
        "Judgment": "record",
        "Level": "record",
        "Report": "record",
        "Reported": "reported",
        "TrainingPage": "training_page",
        "comparison_html": "comparison",
        "comparison_picture": "picture",
        "from_json": "saved",
        "notebook_html": "page",
        "overview": "overview",
        "plot_report": "picture",
        "read_report": "files",
        "schema": "saved",
        "show": "terminal",
        "show_overview": "terminal",
        "text_of": "terminal",
        "to_html": "page",
        "to_json": "saved",
        "to_picture": "picture",
        "training_html": "training_page",
        "write": "files",
        "write_comparison": "files",
    },
)
