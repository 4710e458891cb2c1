"""Reports from records alone: terminal, JSON, HTML and PNG. Nothing here measures."""

from bathyscope.report.comparison import comparison_html
from bathyscope.report.files import check_destination, read_report, write, write_comparison
from bathyscope.report.glossary import GLOSSARY, quantity
from bathyscope.report.overview import overview
from bathyscope.report.overview_terminal import show_overview
from bathyscope.report.page import notebook_html, to_html
from bathyscope.report.picture import comparison_png, to_png
from bathyscope.report.quantity import Quantity
from bathyscope.report.record import Judgement, Level, Report
from bathyscope.report.reported import Reported
from bathyscope.report.saved import SCHEMA, from_json, schema, to_json
from bathyscope.report.terminal import show, text_of
from bathyscope.report.training_page import EventView, TrainingPage, training_html

__all__ = [
    "GLOSSARY",
    "SCHEMA",
    "EventView",
    "Judgement",
    "Level",
    "Quantity",
    "Report",
    "Reported",
    "TrainingPage",
    "check_destination",
    "comparison_html",
    "comparison_png",
    "from_json",
    "notebook_html",
    "overview",
    "quantity",
    "read_report",
    "schema",
    "show",
    "show_overview",
    "text_of",
    "to_html",
    "to_json",
    "to_png",
    "training_html",
    "write",
    "write_comparison",
]
