from dataclasses import replace

import pytest

from bathyscope.core.records import Severity
from bathyscope.report import Report
from bathyscope.report.next_step import next_step
from tests.report.specimens import clean, exploding
from tests.report.test_overview import FORECAST


def case(name: str) -> Report:
    broken = exploding(12)
    first = broken.findings[0]
    return {
        "remedy": broken,
        "no remedy": replace(broken, findings=(replace(first, remedy=None, cause="labels"),)),
        "a mere note": replace(broken, findings=(replace(first, severity=Severity.NOTE),)),
        "clean": clean(12),
        "clean, forecast fails": replace(clean(12), forecast=FORECAST),
        "undecided": replace(clean(12), forecast=replace(FORECAST, verdict="undecided", kind=None)),
        "treated": replace(broken, code="for group in optimizer.param_groups: ..."),
    }[name]


@pytest.mark.parametrize(
    ("name", "words", "section"),
    [
        ("remedy", "Add identity shortcuts", "findings"),
        ("no remedy", "no remedy is known.", "findings"),
        ("a mere note", "Train it.", ""),
        ("clean", "Train it.", ""),
        ("clean, forecast fails", "let bathyscope treat look", ""),
        ("undecided", "a few hundred steps", ""),
        ("treated", "Take the change into your own code", "code"),
    ],
)
def test_one_thing_to_do(name, words, section):
    found = next_step(case(name))
    assert words in found.text
    assert found.section == section


def test_treat_is_named_for_what_it_can_treat():
    first = exploding(12).findings[0]
    for cause, named in (("architecture", True), ("labels", False)):
        report = replace(exploding(12), findings=(replace(first, cause=cause),))
        assert ("bathyscope treat tries" in next_step(report).text) is named
