import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bathyscope.core import UsageError
from bathyscope.foresight.model import read_model
from tests.support.forecast_rows import rows
from tools.forecast_table.fit import data_hash, fit, logistic_weights, write_model
from tools.forecast_table.labels import outcome
from tools.forecast_table.score import (
    auroc,
    calibration_gap,
    held_out_score,
    late_events,
    score,
    simple_answers,
)


def test_without_signs_the_weights_are_those_of_scikit_learn():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 5))
    y = (x @ [1, -2, 0, 0.5, 0] + draw.normal(size=200) > 0).astype(float)
    weights, bias = logistic_weights(x, y, signs=[0] * 5, penalty=1.0)
    reference = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(x, y)
    assert weights == pytest.approx(reference.coef_[0], abs=1e-3)
    assert bias == pytest.approx(reference.intercept_[0], abs=1e-3)


def test_signs_are_kept_and_cost_little_where_they_are_right():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 2))
    y = (x[:, 0] - x[:, 1] + draw.normal(size=200) > 0).astype(float)
    free, _ = logistic_weights(x, y, signs=[0, 0])
    right, _ = logistic_weights(x, y, signs=[1, -1])
    wrong, _ = logistic_weights(x, y, signs=[-1, 1])
    assert right == pytest.approx(free, abs=1e-3)
    assert wrong == pytest.approx([0, 0], abs=1e-9)


def test_a_model_is_a_readable_file_and_comes_back(tmp_path):
    model = fit(rows())
    write_model(model, tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert read_model(text) == model
    written = json.loads(text)
    assert written["about"]["data"] == data_hash(rows())
    assert written["about"]["networks"] == 120
    assert written["about"]["data"] != data_hash(rows(seed=1))
    assert written["stages"]["32"]["features"]["score"]["weights"][1] > 1
    with pytest.raises(UsageError, match=r"cut\.json is not a forecast model"):
        read_model(text[:-40], source="cut.json")


def test_the_probability_lies_between_those_of_the_budgets_around_it():
    table = rows()
    for row in table[::3]:
        row["scores"] = [[0.1, 0.1, s[2]] for s in row["scores"]]
    model = fit(table)
    values = table[0]["features"]["32"]
    low, middle, high = (model.logit(32, values, budget) for budget in (300, 600, 1000))
    fraction = np.log(2) / np.log(10 / 3)
    assert middle == pytest.approx((1 - fraction) * low + fraction * high, abs=1e-9)
    assert model.logit(32, values, 5000) == high
    assert model.logit(32, values, 7) == model.logit(32, values, 100)


def test_a_score_finds_what_can_be_told_and_nothing_in_noise():
    seen = score(rows(), "family")
    assert seen["auroc"][32] > 0.97
    assert seen["auroc"][1] < 0.7
    assert (seen["train"] + seen["fail"], seen["between"]) == (120, 0)
    noise = rows()
    order = np.random.default_rng(0).permutation(len(noise))
    mixed = [row | {"scores": noise[k]["scores"]} for row, k in zip(noise, order, strict=True)]
    assert score(mixed, "family")["auroc"][32] < 0.65


def test_a_network_whose_loss_was_non_finite_counts_as_a_failure():
    table = rows()
    table[5]["features"] = {"1": table[5]["features"]["1"], "3": {"depth": 1.0, "excess": 3.0}}
    table[5]["scores"] = [[0.0] * 3] * 2
    seen = score(table, "family")
    assert 5 not in seen["wrong networks"]


def test_what_is_kept_to_the_end_is_scored_by_a_model_of_the_rest():
    table = rows(240)
    seen = held_out_score(table[:200], table[200:])
    assert seen["networks"] == 40
    assert seen["auroc"][32] > 0.97
    turned = [
        row | {"scores": [[1.0 - s for s in seed] for seed in row["scores"]]} for row in table
    ]
    assert held_out_score(table[:200], turned[200:])["auroc"][32] < 0.03


def test_trainings_that_lose_what_they_had_learned_are_counted():
    table = rows(16)
    for row in table:
        row["scores"] = [[0.9, 0.9, 0.9], [0.1, 0.1, 0.1]]
    table[3]["scores"] = [[0.9, 0.3, 0.2], [0.1, 0.9, None]]
    seen = late_events(table)
    assert seen["passed at step 100, not at the end"].startswith("1 of 16")
    assert seen["passed at step 300, not at the end"].startswith("1 of 16")
    assert seen["the same from step 300, trained to the end"].startswith("0 of 2 ")


def test_a_second_training_is_a_ceiling_of_one_where_seeds_agree():
    assert simple_answers(rows())["a second training (ceiling)"] == 1.0


def test_networks_that_were_tuned_on_can_be_left_out_of_a_score():
    table = rows()
    tuned = {row["number"] for row in table[:40]}
    whole, rest = score(table, "family"), score(table, "family", but=tuned)
    assert rest["networks"] == whole["networks"] - 40
    assert not tuned & set(rest["wrong networks"])


def test_findings_are_an_answer_where_networks_were_diagnosed():
    table = rows()
    ends = {row["number"]: outcome(row, 300) for row in table}
    result = {n: {"dead-units": "problem"} if end == "fails" else {} for n, end in ends.items()}
    (answer,) = (v for k, v in simple_answers(table, findings=result).items() if "findings" in k)
    assert answer == 1.0
    assert not any("findings" in name for name in simple_answers(table))


def test_auroc_counts_pairs():
    draw = np.random.default_rng(0)
    scores, trains = draw.integers(5, size=40).astype(float), draw.random(40) < 0.5
    pairs = [(a > b) + (a == b) / 2 for a in scores[trains] for b in scores[~trains]]
    assert auroc(scores.tolist(), trains.tolist()) == pytest.approx(np.mean(pairs))


def test_calibration_gap():
    assert calibration_gap([0.1] * 10, [True] + [False] * 9) == pytest.approx(0.0)
    assert calibration_gap([0.9] * 10, [False] * 10) == pytest.approx(0.9)


def test_too_few_networks():
    with pytest.raises(UsageError, match="too few to fit"):
        fit(rows(10))
