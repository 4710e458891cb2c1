"""Critical points that are constructed, against gradients by autograd and risks by hand."""

from itertools import combinations

import pytest
import torch
import torch.nn.functional as F

from bathyscope.nets import resnest
from bathyscope.papers.nests.claims.coupling import measure_coupling
from bathyscope.papers.nests.claims.critical_points import critical_point_
from bathyscope.papers.nests.claims.problems import (
    ROOMY,
    estimator,
    prediction_parameters,
    problem,
)

CHOICES = [c for rank in range(4) for c in combinations(range(3), rank)]


@pytest.mark.parametrize("directions", CHOICES, ids=str)
def test_a_constructed_point_is_critical_and_has_its_rank(directions):
    torch.manual_seed(1)
    network, (x, y) = estimator(width=ROOMY, outputs=3), problem(1, outputs=3)
    before = [p.clone() for p in network.parameters()]
    point = critical_point_(network, (x, y), directions)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    gradients = torch.autograd.grad(F.mse_loss(point(x), y), prediction_parameters(point))
    assert max(float(g.abs().max()) for g in gradients) < 1e-10
    assert int(torch.linalg.matrix_rank(point.output.weight)) == len(directions)


def test_its_risk_is_the_rest_of_what_the_features_explain():
    torch.manual_seed(2)
    network, (x, y) = estimator(width=ROOMY, outputs=3), problem(2, outputs=3)
    features = torch.cat([network.representations(x)[-2], network.features(x)[-1]], 1).detach()
    fitted = features @ torch.linalg.pinv(features) @ y
    explained = torch.linalg.eigvalsh(fitted.T @ fitted).flip(0)
    for directions in CHOICES:
        point = critical_point_(network, (x, y), directions)
        risk = float((point(x).detach() - y).square().sum())
        expected = float(y.square().sum() - explained[list(directions)].sum())
        assert risk == pytest.approx(expected, rel=1e-9)


def test_the_features_of_a_network_that_uses_no_sum_are_not_coupled(monkeypatch):
    """With all blocks blind to x_{i−1} no W_i moves a feature, and the claim's number says so."""

    def blind(**sizes):
        network = resnest(6, 2, width=sizes["width"], feature_sizes=(4, 4, 4, 4)).double()
        for block in network.blocks:
            for parameter in block.function.parameters():
                parameter.data.zero_() if parameter.ndim > 1 else parameter.data.fill_(0.5)
        return network

    monkeypatch.setattr("bathyscope.papers.nests.claims.coupling.estimator", blind)
    assert measure_coupling(0).numbers["later_features"] == 0
