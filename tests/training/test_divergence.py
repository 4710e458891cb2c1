import pytest
import torch
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.training import TrainingConfig, fit
from bathyscope.training.divergence import first_non_finite

X, Y = torch.randn(32, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 4


class Scale(nn.Module):
    def __init__(self, width, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))
        self.factor = factor

    def forward(self, x):
        return (x @ self.weight) * self.factor


class RootOfZero(nn.Module):
    """Finite on the way forward, infinite on the way back."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x + (self.weight**2).sqrt()


class Stack(nn.Sequential):
    def block_names(self):
        return [str(i) for i in range(len(self))]


def stack(*blocks):
    torch.manual_seed(0)
    return Stack(nn.Linear(8, 8), *blocks, nn.Linear(8, 4))


def located(model):
    return first_non_finite(model, (X, Y), loss=nn.functional.cross_entropy, call=model, step=1)


def test_the_first_block_whose_output_overflows_is_named():
    result = located(stack(Scale(8, 1e30), Scale(8, 1e30), Scale(8, 1.0)))
    assert (result.block, result.quantity) == ("2", "output")
    assert str(result) == "diverged at step 1 in block 2"


def test_a_gradient_that_is_non_finite_names_the_block_where_it_arose():
    result = located(stack(Scale(8, 1.0), RootOfZero(8), Scale(8, 1.0)))
    assert (result.block, result.quantity) == ("2", "gradient")


def test_weights_that_were_non_finite_before_are_named():
    model = stack(Scale(8, 1.0), Scale(8, 1.0))
    with torch.no_grad():
        model[2].weight[0, 0] = torch.inf
    result = located(model)
    assert (result.block, result.quantity) == ("2", "weights")


def test_locating_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), Scale(8, 1e38), nn.Linear(8, 4))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    located(model)
    after = model.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("lr", [1e3, 1e20])
def test_a_run_that_explodes_is_a_result(lr):
    torch.manual_seed(0)
    layers = [m for _ in range(12) for m in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(8, 4))
    with torch.no_grad():
        for layer in layers[::2]:
            nn.init.kaiming_normal_(layer.weight).mul_(2)
    outcome = fit(model, (X, Y), config=TrainingConfig(epochs=200, lr=lr, schedule="constant"))
    assert outcome.status == "diverged"
    assert outcome.result["diverged_block"] is not None
    assert f"in block {outcome.result['diverged_block']}" in outcome.ending
    assert outcome.history[-1]["kind"] == "divergence"


def test_of_several_gradients_that_are_non_finite_the_first_on_the_way_back_is_named():
    model = stack(Scale(8, 1.0), Scale(8, 1.0), Scale(8, 1.0))
    result = first_non_finite(
        model, (X, Y), loss=lambda y, _: (y - y.detach()).sqrt().sum(), call=model, step=1
    )
    assert result.quantity == "gradient"
    assert result.block == blocks_of(model, X)[-1].label
