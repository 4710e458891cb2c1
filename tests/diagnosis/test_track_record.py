import json
from dataclasses import replace

import pytest

from bathyscope.core.records import Finding, Severity
from bathyscope.diagnosis import thresholds, track_record
from bathyscope.diagnosis.track_record import (
    TrackRecord,
    judge_by_record,
    record_in_words,
    severities_found,
    tally,
    write_records,
)
from bathyscope.foresight.table.draw import draw
from bathyscope.foresight.table.parts import write_rows


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


def row(number, score):
    return {"number": number, "scores": [[score] * 3] * 2}


def test_a_tally_counts_every_network_with_a_finding():
    rows = [row(0, 0.1), row(1, 0.9), row(2, 0.6), row(3, 0.1), row(4, 0.1)]
    found = {
        0: {"dead-units": "problem"},
        1: {"dead-units": "problem"},
        2: {"dead-units": "problem", "large-update": "warning"},
        3: {"dead-units": "warning"},
    }
    seen = tally(rows, found)
    assert seen["dead-units"]["problem"] == TrackRecord(
        3, failed=1, trained=1, alone=3, alone_failed=1
    )
    assert seen["dead-units"]["warning"] == TrackRecord(
        1, failed=1, trained=0, alone=1, alone_failed=1
    )
    assert seen["large-update"] == {"warning": TrackRecord(networks=1, failed=0, trained=0)}


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
    found = some_finding(severity=Severity(given))
    record = TrackRecord(networks, failed, 0, alone, alone_failed)
    records = {found.code: {given: record}}
    (judged,) = judge_by_record([found], records)
    assert judged.severity == Severity(wanted)
    assert judge_by_record([found], {}) == [found]


def test_a_record_in_words():
    records = {"dead-units": {"problem": TrackRecord(30, 29, 1)}}
    said = record_in_words("dead-units", records)
    assert said.startswith("29 of 30 random networks with it as a problem failed")
    assert record_in_words("large-update", records) == "Planted tests only."
    few = {"dead-units": {"problem": TrackRecord(19, 19, 0)}}
    assert record_in_words("dead-units", few) == "Planted tests only."


def test_a_random_network_is_diagnosed_by_the_rules_alone():
    found = severities_found(7)  # 125 plain layers: nothing of the input arrives
    assert found
    assert set(found.values()) <= {"problem", "warning", "note"}
    assert "problem" in found.values()


def test_a_record_counts_what_the_rule_says_and_not_what_its_effects_raise_it_to():
    # this network's loss at the start is 3 times the best constant's: a warning, whatever follows from it
    assert severities_found(632)["poor-start"] == "warning"


def test_records_are_written_as_they_are_read(tmp_path):
    records = {"dead-units": {"problem": TrackRecord(30, 29, 1)}}
    write_records(47, records, tmp_path / "record.json")
    written = json.loads((tmp_path / "record.json").read_text())
    assert written["networks"] == 47
    assert TrackRecord(**written["codes"]["dead-units"]["problem"]) == TrackRecord(30, 29, 1)


def test_a_network_that_was_diagnosed_with_other_thresholds_is_diagnosed_again(
    tmp_path, monkeypatch
):
    asked = []

    def found(number):
        asked.append(number)
        return {"dead-units": "problem"}

    numbers = [n for n in range(12) if not draw(n).held_out][:3]
    monkeypatch.setattr(track_record, "severities_found", found)
    write_rows(tmp_path / "part-000.jsonl", [row(number, 0.1) for number in numbers])
    for _ in range(2):
        networks, records = track_record.diagnose_table(tmp_path)
        assert networks == 3
        assert records["dead-units"]["problem"] == TrackRecord(
            3, failed=3, trained=0, alone=3, alone_failed=3
        )
    assert asked == numbers
    limit = thresholds.THRESHOLDS["dead_share"]
    monkeypatch.setitem(thresholds.THRESHOLDS, "dead_share", replace(limit, value=limit.value / 2))
    track_record.diagnose_table(tmp_path)
    assert asked == numbers * 2
