"""Conversions keep the function: outputs agree in float64."""

import pytest
import torch

from bathyscope.core import UsageError
from bathyscope.nets.nest_convert import dense_to_residual, residual_to_augmented
from bathyscope.nets.nest_vectors import densenest, resnest


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("intercept", [True, False])
def test_proposition_4(seed, intercept):
    torch.manual_seed(seed)
    sizes = torch.randint(1, 7, (seed + 1,)).tolist()
    dense = densenest(5, 3, feature_sizes=sizes, intercept=intercept).double()
    wide = dense_to_residual(dense)
    x = torch.randn(40, 5, dtype=torch.float64)
    # the same products, summed in the order that a processor's kernels choose: n terms round to n ε
    # times the sum of their absolute values
    eps = torch.finfo(x.dtype).eps
    for ours, theirs in zip(
        (wide(x), *wide.features(x)), (dense(x), *dense.features(x)), strict=True
    ):
        rounding = len(sizes) * (5 + sum(sizes)) * eps * (1 + theirs.abs().max())
        assert (ours - theirs).abs().max() <= rounding
    W = torch.cat([wide.expansion.weight, *(b.mix.weight for b in wide.blocks)], dim=1)
    torch.testing.assert_close(W.T @ W, torch.eye(W.shape[1], dtype=W.dtype))  # orthonormal columns
    assert wide.output.in_features == 5 + sum(sizes)  # the bottleneck condition, and more


@pytest.mark.parametrize("intercept", [True, False])
def test_augmented_form_computes_the_same(intercept):
    torch.manual_seed(1)
    network = resnest(5, 3, width=7, feature_sizes=[4, 6, 2], intercept=intercept).double()
    twin = residual_to_augmented(network)
    x = torch.randn(40, 5, dtype=torch.float64)
    assert (twin(x) - network(x)).abs().max() < 1e-12
    for ours, theirs in zip(twin.features(x), network.features(x), strict=True):
        assert (ours - theirs).abs().max() < 1e-12


def test_conversions_copy():
    network = resnest(5, 3, width=7, feature_sizes=[4]).double()
    twin = residual_to_augmented(network)
    with torch.no_grad():
        twin.heads[1].weight.zero_()
        twin.expansion.weight.zero_()
    assert network.expansion.weight.abs().max() > 0


def test_no_blocks_no_augmented_form():
    with pytest.raises(UsageError, match="without blocks"):
        residual_to_augmented(resnest(5, 3, width=7, feature_sizes=[]))
