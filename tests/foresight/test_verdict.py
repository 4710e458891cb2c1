import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import bathyscope as bs
from bathyscope.core import UsageError
from tests.support.model_state import assert_same, state_of
from tests.unchecked import unchecked


def batches(count=32, *, size=32):
    generator = torch.Generator().manual_seed(1)
    result = []
    for _ in range(count):
        x = torch.randn(size, 8, generator=generator)
        result.append((x, x[:, :4].argmax(1)))
    return result


def mlp(depth=2, *, width=32):
    torch.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), *layers, nn.Linear(width, 4))


def adam(model, lr=3e-3):
    return torch.optim.Adam(model.parameters(), lr=lr)


def test_a_small_network_at_a_good_rate_trains():
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=adam(model, lr=1e-2), budget=300)
    assert seen.verdict != "fails"
    assert seen.probability > 0.5
    assert seen.kind is None
    assert len(seen.because) == 3


def test_no_cross_entropy_is_expected_below_zero():
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=adam(model), budget=300, spend=200)
    assert seen.interval[0] == 0
    assert 0 <= seen.loss_at_budget < seen.interval[1]


def test_a_deep_plain_network_is_stuck():
    model = mlp(60)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    seen = bs.forecast(model, batches(), optimizer=optimizer)
    assert (seen.verdict, seen.kind) == ("fails", "stuck")


def test_a_huge_rate_diverges():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
    seen = bs.forecast(model, batches(), optimizer=optimizer)
    assert (seen.verdict, seen.kind) == ("fails", "diverging")


def test_model_optimizer_and_random_state_are_left_as_they_were():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = adam(model)
    before, settings = state_of(model), copy.deepcopy(optimizer.state_dict())
    bs.forecast(model, batches(), optimizer=optimizer)
    assert_same(before, state_of(model))
    assert optimizer.state_dict() == settings


@pytest.mark.parametrize(
    ("spend", "budget", "taken"),
    [
        (1, 300, 1),
        (7, 300, 7),
        (200, 300, 200),
        (1000, 300, 300),
        (None, 300, 40),
        (None, 2000, 80),
    ],
)
def test_spend_is_honored_and_the_default_is_a_fraction_of_the_budget(spend, budget, taken):
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=adam(model), spend=spend, budget=budget)
    assert seen.spent == taken


def test_batches_that_are_too_few_are_taken_again_and_this_is_said():
    model = mlp()
    seen = bs.forecast(model, batches(2), optimizer=adam(model, lr=1e-4))
    assert seen.spent > 2
    assert "2 batches" in seen.notes[0]
    assert "taken again" in seen.notes[0]


def test_a_loss_that_is_non_finite_at_the_start_fails_at_once():
    model = mlp()
    with torch.no_grad():
        model[0].weight[0, 0] = float("inf")
    seen = bs.forecast(model, batches())
    assert (seen.verdict, seen.kind, seen.spent, seen.probability) == ("fails", "diverging", 1, 0.0)
    assert seen.because == ("the loss or its gradient is non-finite at the start",)


def test_nan_in_one_batch_is_said():
    given = batches(8)
    given[5][0][3, 2] = float("nan")
    with pytest.raises(UsageError, match="1 are NaN or infinite"):
        bs.forecast(mlp(), given)


def test_a_model_that_cannot_be_copied():
    class Held(nn.Linear):
        def __deepcopy__(self, memo):
            raise TypeError("it holds a socket")

    with pytest.raises(UsageError, match="cannot be copied"):
        bs.forecast(nn.Sequential(nn.Linear(8, 4), Held(4, 4)), batches())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"budget": 0}, "budget is a whole number of at least 1"),
        ({"budget": 2.5}, "budget is a whole number"),
        ({"spend": 0}, "spend is a whole number of at least 1"),
    ],
)
@unchecked()
def test_arguments_of_another_kind(arguments, said):
    with pytest.raises(UsageError, match=said):
        bs.forecast(mlp(), batches(), **arguments)


def test_no_batches():
    with pytest.raises(UsageError, match="No batch was given"):
        bs.forecast(mlp(), [])


def test_what_was_never_seen_is_said():
    model = mlp()
    other = bs.forecast(
        model, batches(), loss=lambda out, y: out.logsumexp(1).mean() - 0.0 * y.sum()
    )
    assert isinstance(other.inside, bool)
    odd = bs.forecast(
        model, [(x, None) for x, _ in batches()], loss=lambda out, _: out.exp().mean()
    )
    assert isinstance(odd.inside, bool)
    long = bs.forecast(model, batches(), optimizer=adam(model), budget=1_000_000, spend=40)
    assert not long.inside
    assert "budget of" in " ".join(long.outside)
    assert "Nothing like this was seen" in long.sentence()


def test_regression_is_followed_by_its_variance():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
    given = [(x, x[:, :2] * 2) for x, _ in batches()]
    seen = bs.forecast(model, given, loss=F.mse_loss, optimizer=adam(model, lr=1e-2))
    assert seen.verdict != "fails"


def test_branches_that_start_at_zero_are_not_judged_before_they_have_a_gradient():
    """At the first step nothing behind a zero-started scale has a gradient; that says nothing."""
    torch.manual_seed(0)
    model = nn.Sequential(*[Scaled(8) for _ in range(12)], nn.Linear(8, 4))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    seen = bs.foresight.features(model, batches(), optimizer=sgd)
    assert seen[1]["unreached"] == pytest.approx(12 / 13)
    assert seen[8]["unreached"] == 0
    said = bs.forecast(model, batches(), optimizer=sgd)
    assert said.spent > 1
    assert said.verdict != "fails"


class Scaled(nn.Module):
    """A branch under a scale that starts at zero."""

    def __init__(self, width):
        super().__init__()
        self.inner, self.scale = nn.Linear(width, width), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x + self.scale * self.inner(x).relu()


class CarriesLoss(nn.Module):
    """Puts out its loss before what it predicts, as models do that are given their labels."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        logits = self.net(x)
        return F.cross_entropy(logits, labels), logits


def test_a_loss_that_comes_with_the_output_is_forecast_as_it_is_without():
    result, net = batches(), mlp()
    alone = bs.forecast(net, result, optimizer=adam(net))
    around = CarriesLoss(net)
    named = [{"x": x, "labels": y} for x, y in result]
    reported = bs.forecast(around, named, loss=None, optimizer=adam(around))
    assert (reported.verdict, reported.probability) == (alone.verdict, alone.probability)
    assert reported.inside == alone.inside
    given = [(n, n["labels"]) for n in named]
    same = bs.forecast(around, given, loss=lambda o, _: o[0], optimizer=adam(around))
    assert same.probability == alone.probability


def test_a_model_that_takes_no_hooks_is_refused():
    traced = torch.jit.trace(mlp(), batches(1)[0][0])
    with pytest.raises(UsageError, match=r"compiled by torch\.jit"):
        bs.forecast(traced, batches())
