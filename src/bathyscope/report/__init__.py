"""Reports from records alone: terminal, JSON, HTML and PNG. Nothing here measures."""

from bathyscope.report.glossary import GLOSSARY, Quantity, quantity
from bathyscope.report.json_form import SCHEMA, from_json, schema, to_json
from bathyscope.report.record import Judgement, Level, Report
from bathyscope.report.terminal import show

__all__ = [
    "GLOSSARY",
    "SCHEMA",
    "Judgement",
    "Level",
    "Quantity",
    "Report",
    "from_json",
    "quantity",
    "schema",
    "show",
    "to_json",
]
