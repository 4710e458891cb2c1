import dataclasses
from dataclasses import replace

import pytest

from bathyscope.core.records import Severity
from bathyscope.report import Report
from bathyscope.report.findings import changes, facts, finding_views, fix, not_checked, setup
from tests.report.specimens import clean, exploding, treated
from tests.support.forecasts import FORECAST


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
    ("name", "text", "code"),
    [
        ("remedy", "Add identity shortcuts", "bs.treat("),
        ("no remedy", "no remedy is known.", ""),
        ("a mere note", "Train it;", "bs.watch("),
        ("clean", "Train it;", "bs.watch("),
        ("clean, forecast fails", "let bs.treat search", "bs.treat("),
        ("undecided", "a few hundred steps", "bs.watch("),
        ("treated", "Take the change into your own code", "for group in"),
    ],
)
def test_one_thing_to_do_and_code_to_copy(name, text, code):
    result = fix(case(name))
    assert text in result.text
    assert code in result.code
    assert bool(code) is bool(result.code)


def test_treat_is_named_for_what_it_can_treat():
    first = exploding(12).findings[0]
    for cause, named in (("architecture", True), ("labels", False)):
        report = replace(exploding(12), findings=(replace(first, cause=cause),))
        assert ("bs.treat tries" in fix(report).text) is named


def test_the_setup_in_one_line():
    report = replace(
        clean(3),
        provenance={"data": "digits", "batch": "64 × 8", "dtype": "float32", "device": "cpu"},
    )
    assert setup(report) == "digits · batch 64 × 8 · float32 on cpu"
    updates = next(m for m in report.measurements if m.name == "updates")
    result = replace(updates, settings={"optimizer": "SGD", "learning_rates": (0.1, 0.01)})
    others = tuple(m for m in report.measurements if m is not updates)
    line = setup(replace(report, measurements=(*others, result)))
    assert line == "digits · SGD · learning rate 0.1, 0.01 · batch 64 × 8 · float32 on cpu"


def test_effects_are_folded_under_their_root():
    report = replace(exploding(12), explained_by=(None, 0, 0, None))
    first, second = finding_views(report)
    codes = [finding.code for finding in report.findings]
    assert (first.code, [effect.code for effect in first.effects]) == (codes[0], codes[1:3])
    assert (second.code, list(second.effects)) == (codes[3], [])
    assert facts(report).endswith("1 problem, 1 note (and 2 that follow from them)")
    assert len(finding_views(exploding(12))) == len(
        codes
    )  # each stands alone where none is explained


def test_what_was_not_checked_is_told_by_its_reason():
    report = replace(
        clean(2), not_checked={"a": "no optimizer", "b": "no labels", "c": "no optimizer"}
    )
    assert not_checked(report) == [("no optimizer", ["a", "c"]), ("no labels", ["b"])]


def test_facts_count_by_severity():
    result = facts(exploding(12))
    assert result.endswith("2 problems, 1 warning, 1 note")
    assert result.startswith("12 blocks with ")
    sizeless = tuple(dataclasses.replace(b, num_parameters=0) for b in clean(2).blocks)
    assert facts(dataclasses.replace(clean(2), blocks=sizeless)) == "2 blocks · no findings"


def test_a_finding_is_drawn_where_its_blocks_are():
    view = finding_views(exploding(12))[0]
    assert dict(view.drawing.paths) == {"here": "M0 0h6v1h-6z"}
    assert ("ratio median", "8.91") in view.evidence


def test_what_became_of_each_finding():
    worse = exploding(12)
    first, second, third, fourth = worse.findings
    before = dataclasses.replace(
        worse,
        findings=(
            dataclasses.replace(first, severity=Severity.NOTE),  # more severe since
            dataclasses.replace(second, severity=Severity.PROBLEM),  # as it was
            dataclasses.replace(fourth, severity=Severity.PROBLEM),  # milder since
            dataclasses.replace(first, code="other"),  # gone
        ),
    )
    result = {c.code: c.what for c in changes(dataclasses.replace(worse, before=before))}
    assert result == {
        first.code: "more severe",
        second.code: "still there",
        fourth.code: "milder",
        "other": "gone",
        third.code: "new",
    }
    assert changes(worse) == []
    assert {c.what for c in changes(treated(12))} == {"gone"}


def test_the_most_severe_finding_of_a_code_is_compared():
    first = exploding(12).findings[0]
    mild = dataclasses.replace(first, severity=Severity.NOTE)
    for order in ((first, mild), (mild, first)):
        now = dataclasses.replace(exploding(12), findings=order)
        (change,) = changes(
            dataclasses.replace(now, before=dataclasses.replace(now, findings=(first,)))
        )
        assert change.what == "still there"
