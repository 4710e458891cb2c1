"""A verdict from made-up readings: when it is sure, what it shows, and where it has not been."""

import math

import pytest
import torch
import torch.nn.functional as F

from bathyscope.foresight.goal import Goal, goal_of
from bathyscope.foresight.model import FeatureTerm, Model, StageModel
from bathyscope.foresight.readings import Reading, _log_ratio, _loss_features, is_telling
from bathyscope.foresight.small_networks import (
    differences,
    failure_kind,
    judge,
)
from bathyscope.foresight.words import describe_evidence

LABELS = Goal("labels", 2.0, 0.1)


def reading(step=8, *, losses=(2.0, 2.0), goal=LABELS, finite=True, **values):
    known = {"depth": 1.0, "excess": 0.0, "gone": 0.0, "score": 0.0, "slope": 0.0} | values
    return Reading(step, known, losses, goal, finite)


def model(*, fails_below=0.1, trains_above=0.9):
    """The logit is the score; its weight is twice as large for the larger budget."""
    term = FeatureTerm(mean=0.0, scale=1.0, low=-4.0, high=4.0, weights=(1.0, 2.0))
    flat = FeatureTerm(mean=1.0, scale=0.5, low=0.0, high=2.0, weights=(-0.1, -0.1))
    stage = StageModel({"score": term, "depth": flat}, (0.0, 1.0), fails_below, trains_above)
    return Model((100, 300), dict.fromkeys((1, 8, 16, 32), stage), {"most_layers": 50})


def logit(p):
    return math.log(p / (1 - p))


@pytest.mark.parametrize(
    ("probability", "verdict"),
    [(0.099, "fails"), (0.101, "undecided"), (0.899, "undecided"), (0.901, "trains")],
)
def test_a_verdict_where_the_stage_is_sure(probability, verdict):
    result = judge([reading(score=logit(probability))], budget=100, num_batches=8, model=model())
    assert result.verdict == verdict
    assert result.probability == pytest.approx(probability)
    assert (result.kind is not None) is (verdict == "fails")


def test_the_bounds_themselves_are_sure():
    even = reading(score=0.0)
    sure = model(fails_below=0.5, trains_above=0.9)
    assert judge([even], budget=100, num_batches=8, model=sure).verdict == "fails"
    sure = model(fails_below=0.1, trains_above=0.5)
    assert judge([even], budget=100, num_batches=8, model=sure).verdict == "trains"


def test_it_goes_on_as_long_as_it_is_unsure():
    asked = []

    def seen():
        for step, score in ((1, 0.0), (8, 0.0), (16, 4.0), (32, 0.0)):
            asked.append(step)
            yield reading(step, score=score)

    result = judge(seen(), budget=100, num_batches=99, model=model())
    assert (asked, result.spent, result.verdict) == ([1, 8, 16], 16, "trains")


def test_the_start_of_branches_at_zero_is_not_judged():
    first, later = reading(1, score=-4.0, unreached=0.5), reading(8, score=0.0)
    assert judge([first, later], budget=100, num_batches=8, model=model()).spent == 8
    assert not is_telling(1, {"unreached": 0.1})
    assert is_telling(1, {"unreached": 0.0})
    assert is_telling(2, {"unreached": 0.1})


@pytest.mark.parametrize(("step", "where"), [(1, "at the start"), (7, "at step 7")])
def test_what_is_non_finite_fails_at_once(step, where):
    result = judge([reading(step, finite=False)], budget=100, num_batches=1, model=model())
    assert (result.verdict, result.kind, result.probability) == ("fails", "diverging", 0.0)
    assert result.because == (f"the loss or its gradient is non-finite {where}",)


@pytest.mark.parametrize(
    ("values", "losses", "kind"),
    [
        # the loss is above its start by more than a twentieth
        ({"gone": -0.06, "excess": 0.0}, (2.0, 2.12), "diverging"),
        ({"gone": -0.05, "excess": 0.0}, (2.0, 2.1), "stuck"),
        ({"gone": -0.3, "excess": 0.3}, (2.7, 2.6), "stuck"),  # it started there
        ({"gone": -0.3, "excess": 0.2}, (2.4, 2.6), "diverging"),
        ({"gone": -0.04, "excess": -0.2}, (1.6, 2.08), "stuck"),  # back to no more than a constant
        # it fell by more than a fiftieth of the constant baseline's loss, below that loss
        ({"gone": 0.01}, (2.0, 1.95), "slow"),
        ({"gone": 0.01}, (2.0, 1.97), "stuck"),
        ({"gone": 0.0}, (2.2, 2.0), "stuck"),
        ({"gone": 0.5}, (2.0,), "stuck"),
        # quarters at both ends are compared
        ({"gone": 0.01}, (2.0, 2.0, 0.1, 0.1, 0.1, 0.1, 1.98, 1.98), "stuck"),
        ({"gone": 0.01}, (2.0, 2.0, 9.0, 9.0, 9.0, 9.0, 1.9, 1.9), "slow"),
    ],
)
def test_how_a_training_fails(values, losses, kind):
    assert failure_kind(reading(losses=losses, **values)) == kind


def test_non_finite_is_diverging():
    assert failure_kind(reading(finite=False)) == "diverging"


@pytest.mark.parametrize(
    ("changes", "budget", "text"),
    [
        ({}, 300, None),
        ({"goal": Goal("other", 2.0, 0.0)}, 300, "neither that of labels"),
        ({"depth": math.log10(50)}, 300, None),
        ({"depth": math.log10(51)}, 300, "51 weighted layers, those seen at most 50"),
        ({}, 100, None),
        ({}, 99, "budget of 99 steps lies outside of 100 to 300"),
        ({}, 301, "budget of 301 steps"),
        # half of the range beyond either end
        ({"score": 8.0}, 300, None),
        ({"score": 8.1}, 300, "its score of 8.1 lies far from -4 to 4"),
        ({"score": -8.0}, 300, None),
        ({"score": -8.1}, 300, "its score of -8.1"),
    ],
)
def test_where_the_model_has_not_been(changes, budget, text):
    result = differences(reading(**changes), budget, model())
    assert len(result) == (text is not None)
    if text:
        assert text in result[0]


def test_reasons_are_the_heaviest_first_with_their_side():
    result = judge([reading(score=3.0, depth=2.0)], budget=100, num_batches=8, model=model())
    assert result.because[0].endswith("(for, 3.0)")
    assert result.because[1] == "100 weighted layers (against, 0.2)"


def test_batches_taken_again_are_said():
    once = judge([reading(score=4.0)], budget=100, num_batches=8, model=model())
    assert once.notes == ()
    again = judge([reading(score=4.0)], budget=100, num_batches=7, model=model())
    assert again.notes[0].startswith("7 batches for 8 steps")
    one = judge([reading(score=4.0)], budget=100, num_batches=1, model=model())
    assert one.notes[0].startswith("1 batch for 8 steps")


def test_a_budget_between_two_is_linear_in_its_logarithm():
    given = {"score": 1.0, "depth": 1.0}
    low, high = (model().logit(8, given, budget) for budget in (100, 300))
    assert (low, high) == (1.0, 3.0)
    assert model().logit(8, given, 50) == low
    assert model().logit(8, given, 900) == high
    assert model().logit(8, given, 200) == pytest.approx(1 + 2 * math.log(2) / math.log(3))


def test_values_beyond_the_table_count_as_its_ends():
    ends = [model().logit(8, {"score": v, "depth": 1.0}, 100) for v in (-9.0, -4.0, 4.0, 9.0)]
    assert ends == [-4.0, -4.0, 4.0, 4.0]
    term = FeatureTerm(mean=1.0, scale=2.0, low=-9.0, high=9.0, weights=(1.0,))
    assert term.standard(5.0) == 2.0


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("depth", 2.0, "100 weighted layers"),
        ("excess", 0.0, "the first loss is 3, the constant baseline's 2"),
        ("gradient", -1.0, "the gradient's norm is 0.1"),
        ("gradient_range", 2.0, "differ by a factor of 1e+02"),
        ("update", -2.0, "weights by 1 %"),
        ("update_range", 1.0, "is 10 times the middle one"),
        ("spread", -1.0, "10 % of the output depends"),
        ("gone", 0.1, "over the last 1 of 8 steps is 1.5, the constant baseline's 2"),
        ("slope", -0.1, "the loss fell by 9.52 %"),
        ("slope", 0.1, "the loss rose by 10.5 %"),
        ("spike", 1.0, "the largest loss is 5"),
        ("score", 0.5, "55 % of the labels are right, by chance 10 %"),
        ("alignment", 0.25, "with a cosine of 0.25"),
    ],
)
def test_features_in_words(name, value, text):
    seen = reading(losses=(3.0, 5.0, 2.5, 1.5), **{name: value})
    assert text in describe_evidence(name, seen)


def test_the_middle_step_is_told_for_its_distance_too():
    seen = reading(update=-1.0, update_miss=1.5)
    assert "weights by 10 %" in describe_evidence("update_miss", seen)
    numbers = reading(goal=Goal("numbers", 1.0, 0.0), score=0.25)
    assert "25 % of the way" in describe_evidence("score", numbers)


def test_features_of_a_course():
    losses = [4.0, 2.0, 2.0, 2.0, 1.0, 1.0, 0.5, 0.5]
    scores = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4, 0.6]
    result = _loss_features(losses, scores, LABELS)
    assert result["excess"] == pytest.approx(math.log(2))
    assert result["gone"] == pytest.approx(0.75)  # the last quarter against the best constant
    assert result["score"] == pytest.approx(0.5)
    assert result["spike"] == pytest.approx(math.log(2))
    assert result["slope"] == pytest.approx(-1.0397 - 0.1733, abs=1e-3)
    lost = _loss_features([2.0, math.inf], [0.0, None], LABELS)
    assert (lost["gone"], lost["spike"], lost["score"]) == (-1.0, 3.0, -1.0)
    assert _loss_features([2.0], [0.0], LABELS) == {"excess": 0.0}


def test_a_loss_against_the_best_constant_is_bounded():
    assert _log_ratio(2 * math.e**2, 2.0) == pytest.approx(2.0)
    assert _log_ratio(1e9, 2.0) == 3.0
    assert _log_ratio(0.0, 2.0) == -3.0
    assert _log_ratio(math.nan, 2.0) == 3.0


def test_a_score_is_the_way_from_chance_to_all_right():
    goal = Goal("labels", 1.0, 0.5)
    output = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0], [1.0, 2.0]])
    assert goal.score(output, torch.tensor([0, 0, 1, 1])) == pytest.approx(1.0)
    assert goal.score(output, torch.tensor([0, 0, 1, 0])) == pytest.approx(0.5)
    assert goal.score(output, torch.tensor([0, 0, -100, -100])) == pytest.approx(1.0)
    assert goal.score(output, torch.tensor([1, 1, 0, 0])) == pytest.approx(-1.0)
    numbers = Goal("numbers", 1.0, 0.0)
    targets = torch.tensor([[0.0], [2.0]])
    assert numbers.score(targets, targets) == 1.0
    assert numbers.score(torch.tensor([[1.0], [1.0]]), targets) == pytest.approx(0.0)
    assert Goal("other", 1.0, 0.0).score(targets, targets) is None


def test_the_best_constant_of_labels_is_their_shares():
    labels = torch.tensor([0, 0, 0, 1])
    output = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    goal = goal_of(output, [(output, labels)], loss=F.cross_entropy, first_loss=1.0)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert goal.constant_loss == pytest.approx(entropy, abs=1e-4)
    assert (goal.kind, goal.chance, goal.axis) == ("labels", 0.75, 1)
    for odd in (torch.tensor([0, 0, 0, 2]), torch.tensor([0, 0, 0, -1])):
        result = goal_of(output, [(output, odd)], loss=lambda *_: torch.tensor(1.0), first_loss=7.0)
        assert (result.kind, result.constant_loss) == ("other", 7.0)
