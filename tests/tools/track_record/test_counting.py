import json
from dataclasses import replace

from bathyscope.rules.findings import TrackRecord
from tools.forecast_table.draw import draw
from tools.forecast_table.parts import write_rows
from tools.track_record import counting
from tools.track_record.counting import severities_of, summary, write_records


def row(number, score):
    return {"number": number, "scores": [[score] * 3] * 2}


def test_a_tally_counts_every_network_with_a_finding():
    rows = [row(0, 0.1), row(1, 0.9), row(2, 0.6), row(3, 0.1), row(4, 0.1)]
    result = {
        0: {"dead-units": "problem"},
        1: {"dead-units": "problem"},
        2: {"dead-units": "problem", "large-update": "warning"},
        3: {"dead-units": "warning"},
    }
    seen = summary(rows, result)
    assert seen["dead-units"]["problem"] == TrackRecord(
        3, failed=1, trained=1, alone=3, alone_failed=1
    )
    assert seen["dead-units"]["warning"] == TrackRecord(
        1, failed=1, trained=0, alone=1, alone_failed=1
    )
    assert seen["large-update"] == {"warning": TrackRecord(networks=1, failed=0, trained=0)}


def test_a_random_network_is_diagnosed_by_the_rules_alone():
    result = severities_of(7)  # 125 plain layers: nothing of the input arrives
    assert result
    assert set(result.values()) <= {"problem", "warning", "note"}
    assert "problem" in result.values()


def test_a_record_counts_what_the_rule_says_and_not_what_its_effects_raise_it_to():
    # this network's loss at the start is 3 times the constant baseline's: a warning, whatever follows from it
    assert severities_of(632)["poor-start"] == "warning"


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

    def result(number):
        asked.append(number)
        return {"dead-units": "problem"}

    numbers = [n for n in range(12) if not draw(n).held_out][:3]
    monkeypatch.setattr(counting, "severities_of", result)
    write_rows(tmp_path / "part-000.jsonl", [row(number, 0.1) for number in numbers])
    for _ in range(2):
        networks, records = counting.diagnose_table(tmp_path)
        assert networks == 3
        assert records["dead-units"]["problem"] == TrackRecord(
            3, failed=3, trained=0, alone=3, alone_failed=3
        )
    assert asked == numbers
    known = dict(counting.all_thresholds())
    known["dead_fraction"] = replace(known["dead_fraction"], value=known["dead_fraction"].value / 2)
    monkeypatch.setattr(counting, "all_thresholds", lambda: known)
    counting.diagnose_table(tmp_path)
    assert asked == numbers * 2
