import math

import pytest

from tests.support.forecast_rows import rows
from tools.forecast_table.fit import fit
from tools.forecast_table.score import Count, Guess, _weight, guess, late_events, summary


def guessed(number, verdict, spent, end):
    row = {"number": number, "scores": [[end] * 3, [end] * 3]}
    p = {"trains": 0.95, "fails": 0.05, "undecided": 0.5}[verdict]
    return Guess(row, dict.fromkeys((1, 8, 16, 32), p), verdict, spent)


def test_a_tally_counts_decided_wrong_and_sure():
    result = [
        guessed(0, "trains", 1, 0.9),
        guessed(1, "fails", 8, 0.1),
        guessed(2, "trains", 16, 0.2),  # wrong
        guessed(3, "undecided", 32, 0.85),
        guessed(4, "fails", 32, 0.6),  # neither trained nor failed
    ]
    reported = summary(result, budget=300)
    assert (reported["networks"], reported["train"], reported["fail"], reported["between"]) == (
        5,
        2,
        2,
        1,
    )
    assert reported["decided"].startswith("3 of 4 ")
    assert reported["wrong"].startswith("1 of 3 ")
    assert reported["wrong networks"] == [2]
    assert reported["between but decided"].startswith("1 of 1 ")
    assert reported["sure within 8 steps"].startswith("2 of 5 ")
    assert reported["mean steps"] == round((1 + 8 + 16 + 32 + 32) / 5, 1)
    # pairs of (trains, fails): 0.95 and 0.5 against 0.05 and 0.95
    assert reported["auroc"][32] == pytest.approx((1 + 0.5 + 1 + 0) / 4)


def test_a_guess_asks_the_stages_in_turn():
    table = rows(60)
    calibrated = fit(table)
    result = [guess(calibrated, row, budget=300) for row in table]
    for one in result:
        asked = [s for s in (1, 8, 16, 32) if s < one.spent]
        for step in asked:
            stage = calibrated.stages[step]
            assert stage.fails_below < one.probabilities[step] < stage.trains_above
        last = calibrated.stages[one.spent]
        if one.verdict == "trains":
            assert one.probabilities[one.spent] >= last.trains_above
        elif one.verdict == "fails":
            assert one.probabilities[one.spent] <= last.fails_below
        else:
            assert one.spent == 32


def test_counts_and_severities():
    assert str(Count(0, 0)) == "0 of 0"
    assert math.isnan(Count(0, 0).fraction)
    assert Count(1, 4).fraction == 0.25
    assert (
        _weight(["note"]) > _weight(["warning"]) > _weight(["warning"] * 9) > _weight(["problem"])
    )


def test_what_had_learned_and_lost_it_is_counted_at_eighty_percent():
    def row(number, *scores):
        return {"number": number, "scores": [list(scores), [0.0, 0.0, 0.0]]}

    result = late_events(
        [
            row(1, 0.8, 0.8, 0.79),
            row(2, 0.8, 0.8, 0.8),
            row(3, 0.79, 0.9, None),
            row(4, 0.1, 0.1, 0.9),
        ]
    )
    assert result["passed at step 100, not at the end"].startswith("1 of 2 ")
    assert result["passed at step 300, not at the end"].startswith("2 of 3 ")
