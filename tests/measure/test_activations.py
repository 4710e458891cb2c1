import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.measure import activations
from bathyscope.measure.activations import moments_of
from tests.core import lookalikes as like
from tests.measure.by_hand import CASES, passed_through


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_each_block_run_alone(case):
    pieces = CASES[case]()
    result = activations(pieces.model, pieces.batch, loss=pieces.loss)
    passes, _ = passed_through(CASES[case])
    assert [block.name for block in result.blocks] == pieces.names
    for i, p in enumerate(passes):
        y = p.y.numpy()
        assert result["mean"][i] == pytest.approx(y.mean(), rel=1e-6, abs=1e-12)
        assert result["std"][i] == pytest.approx(y.std(), rel=1e-6)
        assert result["min"][i] == y.min()
        assert result["max"][i] == y.max()
        assert result["non_finite"][i] == 0
        if p.x.shape == p.y.shape:
            change = ((p.y - p.x).norm() / p.x.norm()).item()
            assert result["change"][i] == pytest.approx(change, rel=1e-6)
        else:
            assert result["change"][i] is None


def test_dead_units_of_modules_and_functions_are_counted_by_block():
    class Branch(nn.Module):
        def __init__(self, dead):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
            with torch.no_grad():
                self.a.bias[:dead] = -1e3

        def forward(self, x):
            return x + self.b(F.relu(self.a(x)))

    model = nn.Sequential(nn.Linear(5, 8), Branch(0), Branch(3), Branch(8), nn.Linear(8, 2))
    batch = torch.randn(64, 5), torch.randint(2, (64,))
    result = activations(model, batch, loss=F.cross_entropy, blocks=["1", "2", "3", "4"])
    assert result["dead_units"] == (0.0, 3 / 8, 1.0, None)


def test_in_place_activations_inside_and_after_the_blocks():
    torch.manual_seed(0)
    model = like.TorchvisionLike()
    with torch.no_grad():
        model.layer1[1].bn1.weight[:4] = 0  # four of eight channels are constant after the norm,
        model.layer1[1].bn1.bias[:4] = -1  # and cut off by the in-place ReLU
    batch = torch.randn(8, 3, 8, 8), torch.arange(8) % 5
    result = activations(model, batch, loss=F.cross_entropy)
    assert result["dead_units"][1] == 4 / 8  # the worse of the block's two calls of its ReLU
    assert result["dead_units"][0] == 0


def test_an_input_that_is_overwritten_has_no_change():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(self.norm(x.mul_(0.5)))

    model = nn.Sequential(nn.Linear(4, 4), Overwriting(), Overwriting())
    batch = torch.randn(6, 4), torch.zeros(6).long()
    assert activations(model, batch, loss=F.cross_entropy, blocks=["1", "2"])["change"] == (
        None,
        None,
    )


def test_what_is_non_finite_is_counted_and_left_out_of_the_moments():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[3e38, 3e38], [1.0, 1.0]]))
    batch = torch.ones(4, 2), torch.zeros(4).long()
    result = activations(model, batch, loss=F.cross_entropy)
    assert result["non_finite"] == (0.5, 1.0)
    assert (result["mean"][0], result["max"][0]) == (2.0, 2.0)
    assert result["mean"][1] is None


def test_moments_with_a_mean_far_above_the_deviation():
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(0)) * 0.1 + 1000
    result = moments_of(x)
    assert result.mean == pytest.approx(x.double().mean().item(), rel=1e-6)
    assert result.std == pytest.approx(x.double().std(correction=0).item(), rel=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_moments_of_extreme_float32_values(scale):
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * scale
    result = moments_of(x)
    assert result.std == pytest.approx(x.double().std(correction=0).item(), rel=1e-5)
    assert math.copysign(1, result.min) == -1


def test_moments_of_zeros_and_of_nothing():
    assert moments_of(torch.zeros(3)) == (0, 0, 0, 0, 0)
    assert math.isnan(moments_of(torch.zeros(0)).mean)


def test_a_softmax_between_layers_is_named_and_shares_by_chance_are_not():
    torch.manual_seed(0)
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    chain = nn.Sequential(
        nn.Linear(4, 8), nn.Softmax(1), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3)
    )
    named = activations(chain, (x, y), loss=F.cross_entropy)
    assert named["nonlinearity"][:2] == ("softmax", "sigmoid")

    class EqualOnAverage(nn.Module):
        """Positive, one in the mean of the samples, and no softmax: every sample has a sum of its own."""

        def forward(self, z):
            positive = z.exp()
            return positive / positive.sum(1).mean()

    chain[1] = EqualOnAverage()
    assert activations(chain, (x, y), loss=F.cross_entropy)["nonlinearity"][0] is None
