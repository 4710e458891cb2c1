"""The fit and its score on a made-up table, and the user's form of every task."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tools.real_trainings.as_given import as_given
from tools.real_trainings.case import read_cases
from tools.real_trainings.examples import Example, decade_gains, make_examples, read_observed
from tools.real_trainings.fit import _fails_of_seeds, _forest_of_fails, conformal_half_width, matrix
from tools.real_trainings.labels import Labeled
from tools.real_trainings.score import Said, summarize
from tools.real_trainings.store import read_records
from tools.real_trainings.tasks.registry import TASKS

CASE = read_cases()[0]
NEEDS_NO_DATA = (
    "tagging",
    "adding",
    "table-friedman",
    "graph-communities",
    "bandit",
    "multilabel-shapes",
)


def example(label="trains", *, end=-0.5, position=0.0, case=CASE):
    features = {"said by last value": 0.0, "said by power law": -0.2}
    return Example(case, 0, features, None, Labeled(label, "", 0.0, 0.0, 0.0), end, position)  # type: ignore[arg-type]


def said(fails, label, *, end=-0.5, interval=(-0.6, -0.4)):
    naive = {"last value": (-2.0, 2.0), "power law": (-1.0, 1.0)}
    return Said(example(label, end=end), fails, 0.0, interval, naive, True)


def test_decided_and_wrong_are_counted():
    rows = [said(0.95, "fails"), said(0.95, "lags"), said(0.05, "trains"), said(0.5, "fails")]
    result = summarize([*rows, said(0.02, "trains", end=0.0)])
    assert result["decided"].startswith("4 of 5")
    assert result["wrong"].startswith("1 of 4")
    assert result["interval"]["coverage"].startswith("4 of 5")
    assert result["interval"]["width"] == pytest.approx(0.2)
    assert result["interval of power law"]["width"] == pytest.approx(2.0)
    assert result["auroc of fails"] == pytest.approx((0.5 + 1 + 1 + 0 + 1 + 1) / 6)


def test_what_the_other_seed_shares_is_scored_apart():
    """Of two cases one fails with both seeds; the other fails with one of them, and nobody foresees it."""
    other = replace(CASE, id="another", network_id="another")
    rows = []
    for case, seed, fails, label, progress in (
        (CASE, 0, 0.9, "fails", 0.0),
        (CASE, 1, 0.8, "fails", 0.05),
        (other, 0, 0.1, "trains", 0.9),
        (other, 1, 0.1, "fails", -1.0),
    ):
        one = said(fails, label)
        result = Labeled(label, "", progress, 0.0, 0.0)
        rows.append(replace(one, example=replace(one.example, case=case, seed=seed, label=result)))
    scores = summarize(rows)
    assert scores["same in both seeds"] == 2
    assert scores["auroc of fails"] == pytest.approx(2.5 / 3, abs=1e-3)
    # the training that trained has a failed twin, which ranks it first
    assert scores["auroc of the other seed's end"] == 0.0
    assert scores["auroc of the other seed's label"] == pytest.approx(1 / 3, abs=1e-3)
    low, high = scores["auroc of fails, 95 %"]
    assert low <= scores["auroc of fails"] <= high


def test_a_failure_of_one_seed_of_two_is_half_a_failure():
    other = replace(CASE, id="another")
    rows = [example("fails"), example("fails", case=other), example("lags")]
    assert _fails_of_seeds(rows).tolist() == [0.5, 1.0, 0.5]


def test_failing_is_learned_from_both_curves_of_a_training():
    """The look-aheads show nothing; the curves of the trainings themselves part what fails."""
    cases = [replace(CASE, id=str(i)) for i in range(20)]
    rows = [example("fails" if i < 10 else "trains", case=case) for i, case in enumerate(cases)]
    shown = [{"said by last value": float(i < 10), "said by power law": 0.0} for i in range(20)]
    both = [replace(row, again=again) for row, again in zip(rows, shown, strict=True)]
    given = matrix(rows, tuple(rows[0].features))
    for known, expected in ((rows, 0.5), (both, 1.0)):
        (fails, _) = _forest_of_fails(known, given).predict(np.array([1.0, 0.0]))
        assert fails == pytest.approx(expected, abs=0.01)


def test_the_second_curve_is_as_long_as_the_look_ahead_and_changes_the_curve_alone():
    cases = [case for case in read_cases() if case.network_id == CASE.network_id]
    examples = make_examples(cases, read_records(), read_observed())
    assert len(examples) == 12
    for one in examples:
        assert one.again is not None
        assert one.again["window 7"] != one.features["window 7"]
        for name in ("fraction of budget", "rate", "depth", "score"):
            assert one.again[name] == one.features[name]


def test_a_half_width_holds_four_fifths():
    errors = np.random.default_rng(0).exponential(size=999)
    assert (errors <= conformal_half_width(errors)).mean() == pytest.approx(0.8, abs=0.002)


def test_gains_are_of_settings_a_decade_away():
    low, middle, high = (
        example(end=end, position=position)
        for end, position in ((0.0, -1.0), (-0.6, 0.0), (0.4, 1.0))
    )
    up = {e.position: gain for e, gain in decade_gains([low, middle, high], 1)}
    assert up == {-1.0: pytest.approx(0.6), 0.0: pytest.approx(-1.0)}
    other = replace(CASE, network_id="another")
    assert decade_gains([low, example(position=0.0, case=other)], 1) == []


@pytest.mark.parametrize("task", NEEDS_NO_DATA)
def test_the_users_form_has_the_loss_of_the_task(task):
    case = next(c for c in read_cases() if c.task == task)
    given = as_given(case)
    inputs, targets = next(given.batches)
    output = given.model(*inputs) if isinstance(inputs, tuple) else given.model(inputs)
    value = given.loss(output, targets)
    assert torch.isfinite(value)
    assert given.optimizer.param_groups[0]["lr"] == pytest.approx(case.setting.learning_rate)
    if task in ("bandit",):
        batch = targets
    elif isinstance(inputs, tuple):
        batch = (*inputs, targets)
    else:
        batch = (inputs, targets)
    torch.testing.assert_close(value, TASKS[task].loss(given.model, batch))
