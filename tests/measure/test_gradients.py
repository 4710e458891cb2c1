import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.linalg import rounding_tolerance
from bathyscope.measure import gradients
from tests.core import lookalikes as like
from tests.measure.by_hand import CASES, passed_through


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_autograd_on_each_block_alone(case):
    pieces = CASES[case]()
    result = gradients(pieces.model, pieces.batch, loss=pieces.loss)
    passes, loss = passed_through(CASES[case])
    assert result.settings["loss"] == pytest.approx(loss, rel=1e-12)
    product = 1.0
    for i, p in reversed(list(enumerate(passes))):
        norm_in, norm_out = p.gradient_x.norm().item(), p.gradient_y.norm().item()
        product *= norm_out / norm_in
        assert result["norm_in"][i] == pytest.approx(norm_in, rel=1e-6)
        assert result["norm_out"][i] == pytest.approx(norm_out, rel=1e-6)
        assert result["ratio"][i] == pytest.approx(norm_out / norm_in, rel=1e-6)
        assert result["ratio_from_loss"][i] == pytest.approx(product, rel=1e-6)
        assert result["non_finite"][i] == 0


@pytest.mark.parametrize("case", CASES)
def test_conditioning_agrees_with_svd_of_the_explicit_matrix(case):
    pieces = CASES[case]()
    result = gradients(pieces.model, pieces.batch, loss=pieces.loss)
    for i, p in enumerate(passed_through(CASES[case])[0]):
        matrix = p.gradient_y.flatten(1)
        values = torch.linalg.svdvals(matrix)
        tolerance = rounding_tolerance(*matrix.shape, torch.float64)
        rank = int((values > tolerance * values[0]).sum())
        condition = (values[0] / values[-1]).item() if rank == len(values) else math.inf
        assert (result["rank"][i], result["full_rank"][i]) == (rank, len(values))
        assert result["tolerance"][i] == tolerance
        assert result["condition"][i] == pytest.approx(condition, rel=1e-6)
        assert result["stable_rank"][i] == pytest.approx(
            ((values / values[0]) ** 2).sum().item(), rel=1e-6
        )


def test_an_orthogonal_block_preserves_the_norm():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(3)], nn.Linear(6, 3)).double()
    for layer in model[:3]:
        nn.init.orthogonal_(layer.weight)
    batch = torch.randn(8, 6, dtype=torch.float64), torch.arange(8) % 3
    assert gradients(model, batch, loss=F.cross_entropy)["ratio"][:3] == pytest.approx([1] * 3)


def test_vanishing_gradients_keep_their_digits_in_float32():
    model = nn.Sequential(*[nn.Linear(4, 4, bias=False) for _ in range(8)])
    with torch.no_grad():
        for layer in model:
            layer.weight.copy_(1e-4 * torch.eye(4))
    batch = torch.ones(2, 4), None
    result = gradients(model, batch, loss=lambda y, _: y.sum())
    assert result["norm_in"][0] == pytest.approx(math.sqrt(8) * 1e-32, rel=1e-5)
    assert result["ratio"] == pytest.approx([1e4] * 8, rel=1e-5)
    assert result["ratio_from_loss"][0] == pytest.approx(1e32, rel=1e-4)
    assert result["rank"][0] == 1


def test_what_lies_between_two_blocks_counts_in_the_growth_from_the_loss():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(5))

        def forward(self, x):
            for layer in self.layers:
                x = 0.25 * layer(x)
            return x

    model = Net()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.copy_(torch.eye(4))
    result = gradients(model, (torch.ones(2, 4), None), loss=lambda y, _: y.sum())
    assert result["ratio"] == pytest.approx([1] * 5)
    # a quarter between two layers; the one after the last block is part of its gradient
    assert result["ratio_from_loss"] == pytest.approx([4.0**i for i in (4, 3, 2, 1, 0)])


def test_gradients_that_are_non_finite_are_counted_and_end_the_product():
    class Blow(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) + torch.sqrt(x - x.detach())  # an infinite derivative at 0

    model = nn.Sequential(nn.Linear(3, 3), Blow(), nn.Linear(3, 2))
    batch = torch.randn(4, 3), torch.zeros(4).long()
    result = gradients(model, batch, loss=F.cross_entropy, blocks=["0", "1", "2"])
    assert result["non_finite"][2] == 0
    assert result["non_finite"][1] == 1
    assert result["ratio_from_loss"][2] is not None
    assert result["ratio_from_loss"][0] is None


def test_zero_gradient_has_no_ratio():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    with torch.no_grad():
        model[1].weight.zero_()
    result = gradients(model, (torch.randn(4, 3), torch.zeros(4).long()), loss=F.cross_entropy)
    assert result["ratio"] == (None, math.inf)
    assert result["norm_in"][1] == 0


def test_blocks_that_the_pass_goes_around_are_blank():
    torch.manual_seed(0)
    model = like.StochasticDepth()
    batch = torch.randn(4, 3, 8, 8), torch.zeros(4).long()
    result = gradients(model, batch, loss=F.cross_entropy)
    assert result["norm_in"] == (None,) * 4
    assert result["ratio_from_loss"] == (None,) * 4
    model.skip_all = False
    assert None not in gradients(model, batch, loss=F.cross_entropy)["ratio"]


def test_compiled_parts_are_measured_like_the_parts_themselves():
    torch.manual_seed(0)
    model = like.TorchvisionLike()
    batch = torch.randn(4, 3, 8, 8), torch.arange(4)
    expected = gradients(model, batch, loss=F.cross_entropy)
    for block in model.layer1:
        block.compile(backend="eager")
        block(torch.randn(4, 8, 8, 8))
    assert gradients(model, batch, loss=F.cross_entropy) == expected


def test_a_shortcut_made_of_hooks_belongs_to_the_block():
    torch.manual_seed(0)
    chain = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)).double()
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randint(3, (6,))
    stream = []

    def before(module, given):
        stream.append(given[0])
        return (F.layer_norm(given[0], (5,)),)

    chain[1].register_forward_pre_hook(before)
    chain[1].register_forward_hook(lambda module, given, output: stream[-1] + 0.1 * output)
    seen = gradients(chain, (x, y), loss=F.cross_entropy, blocks=["1"])

    into = chain[0](x).detach().requires_grad_()
    out = into + 0.1 * F.linear(F.layer_norm(into, (5,)), chain[1].weight, chain[1].bias)
    out.retain_grad()
    F.cross_entropy(chain[2](out), y).backward()
    assert seen["norm_in"][0] == pytest.approx(float(into.grad.norm()), rel=1e-9)
    assert seen["norm_out"][0] == pytest.approx(float(out.grad.norm()), rel=1e-9)
