"""The comparison of extrapolations on a made-up table: what it knows it says, with one task left out."""

from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from tools.real_trainings.case import Case
from tools.real_trainings.curve import encode_curve
from tools.real_trainings.draw import draw_cases
from tools.real_trainings.judge import compare, conformal_half_width, failure_scores
from tools.real_trainings.record import Record
from tools.real_trainings.rows import Row, make_rows, prefix_length
from tools.real_trainings.summary import summary

CASES = draw_cases()[:216]


def _made_up(case: Case) -> Record:
    """A power law whose depth depends on the learning rate alone; every fourth stays flat."""
    random = np.random.default_rng(crc32(case.id.encode()))
    t = np.arange(1, case.budget + 1)
    number = int(case.id[-1])
    depth = 0.02 if number == 4 else 1.5 - 0.1 * number
    losses = 2.3 - depth + depth * t**-0.4 + 0.02 * random.standard_normal(case.budget)
    norms = encode_curve(np.ones(case.budget).tolist())
    return Record(
        case.id, 0, case.budget, encode_curve(losses.tolist()), norms, [0, case.budget],
        [2.3, float(losses[-1])], [], 2.3, 2.3, None, 100, 0.0, 0.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return make_rows(CASES, [_made_up(case) for case in CASES], 0.1)


def test_held_out_rows_are_left_out(rows: list[Row]) -> None:
    assert rows
    held_out = {case.id for case in CASES if case.is_held_out}
    assert held_out
    assert not held_out & {row.id for row in rows}
    everything = make_rows(CASES, [_made_up(case) for case in CASES], 0.1, with_held_out=True)
    assert held_out <= {row.id for row in everything}


def test_features_know_nothing_of_the_end(rows: list[Row]) -> None:
    """Another second half of the curve gives the same features."""
    case = next(case for case in CASES if not case.is_held_out)
    group = [c for c in CASES if c.network_id == case.network_id]
    records = [_made_up(c) for c in group]
    curve = records[0].loss_curve().copy()
    curve[case.budget // 2 :] = 9.0
    changed = [replace(records[0], losses=encode_curve(curve.tolist())), *records[1:]]
    before = make_rows(group, records, 0.2)[0]
    after = make_rows(group, changed, 0.2)[0]
    assert before.features == pytest.approx(after.features)
    assert before.end != after.end


def test_the_right_family_wins(rows: list[Row]) -> None:
    scores = {score.method: score for score in compare(rows)}
    assert scores["power law"].error < 0.5 * scores["last value"].error
    for score in scores.values():
        assert 0.7 <= score.coverage <= 0.9


def test_fails_are_told_apart(rows: list[Row]) -> None:
    result = failure_scores(rows)
    assert result["fitted trees"] > 0.95
    assert result["wrong of decided"] < 0.05


def test_conformal_half_width() -> None:
    errors = np.arange(1.0, 10.0)
    assert conformal_half_width(errors) == 8
    assert conformal_half_width(np.array([1.0])) == 1


def test_prefix_length() -> None:
    assert prefix_length(1000, 0.1) == 100
    assert prefix_length(300, 0.01) == 12
    assert prefix_length(5, 0.5) == 5


def test_summary_counts_labels() -> None:
    lines = summary(CASES, [_made_up(case) for case in CASES])
    total = next(line for line in lines if line.startswith("all")).split()
    kept = [case for case in CASES if not case.is_held_out]
    failing = sum(case.id.endswith("/4") for case in kept)
    lagging = sum(case.id.endswith("/5") for case in kept)  # 1.0 of the way of 1.5
    assert [int(n) for n in total[1:]] == [len(kept) - failing - lagging, lagging, failing]
    assert lines[-1] == "no case has both seeds yet"
