import pytest

from bathyscope.core.records import Finding, Severity
from bathyscope.rules.findings import TrackRecord, describe_record, judge_by_record


def some_finding(*, severity):
    return Finding(
        code="dead-units",
        severity=severity,
        title="dead",
        blocks=("0",),
        evidence={},
        why="they are",
        source="",
        remedy=None,
        cause="activation",
    )


@pytest.mark.parametrize(
    ("failed", "networks", "alone_failed", "alone", "given", "wanted"),
    [
        (18, 20, 18, 20, "warning", "problem"),
        (30, 30, 17, 20, "warning", "warning"),
        (30, 30, 19, 19, "warning", "warning"),
        (18, 20, 0, 0, "problem", "problem"),
        (17, 20, 17, 20, "problem", "warning"),
        (17, 20, 17, 20, "note", "note"),
        (0, 19, 0, 19, "problem", "problem"),
        (19, 19, 19, 19, "warning", "warning"),
    ],
)
def test_severity_follows_from_the_record(failed, networks, alone_failed, alone, given, wanted):
    result = some_finding(severity=Severity(given))
    record = TrackRecord(networks, failed, 0, alone, alone_failed)
    records = {result.code: {given: record}}
    (judged,) = judge_by_record([result], records)
    assert judged.severity == Severity(wanted)
    assert judge_by_record([result], {}) == [result]


def test_a_describe_record():
    records = {"dead-units": {"problem": TrackRecord(30, 29, 1)}}
    said = describe_record("dead-units", records)
    assert said.startswith("29 of 30 random networks with it as a problem failed")
    assert describe_record("large-update", records) == "Planted tests only."
    few = {"dead-units": {"problem": TrackRecord(19, 19, 0)}}
    assert describe_record("dead-units", few) == "Planted tests only."
