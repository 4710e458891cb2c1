"""Which kind of point the prediction weights stand at, on points whose kind is known."""

import dataclasses

import pytest
import torch

from bathyscope.certificates import best_prediction_weights, certify
from bathyscope.certificates.losses import convex_loss
from bathyscope.certificates.saddle import _kind, critical_point
from bathyscope.nets import resnest

TOLERANCE = 1e-6


@pytest.mark.parametrize(
    ("gradient", "smallest", "largest", "epsilon", "kind"),
    [
        (2e-6, 1.0, 1.0, 0.0, "not critical"),
        (1e-6, 1.0, 1.0, 0.0, "minimum"),
        (0.0, -2e-4, 100.0, 1.0, "saddle"),
        (0.0, -5e-5, 100.0, 1.0, "no descent to second order"),
        (0.0, -5e-8, 0.01, 1.0, "saddle"),
        (0.0, 0.0, 1.0, 1e-6, "minimum"),
        (0.0, 0.0, 1.0, 2e-6, "no descent to second order"),
    ],
)
def test_the_kind_follows_from_gradient_curvature_and_distance(
    gradient, smallest, largest, epsilon, kind
):
    assert _kind(gradient, smallest, largest, epsilon, TOLERANCE) == kind


def problem(width=9):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 3, generator=generator, dtype=torch.float64)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].abs()], dim=1)
    torch.manual_seed(1)
    return resnest(3, 2, width=width, feature_sizes=[4]).double(), (x, y)


def test_solved_prediction_weights_stand_at_a_minimum():
    network, data = problem()
    assert certify(network, data).critical_point.kind == "not critical"
    network.load_state_dict(network.state_dict() | best_prediction_weights(network, data))
    point = certify(network, data).critical_point
    assert point.kind == "minimum"
    assert point.gradient_norm < TOLERANCE


def test_the_drop_is_that_of_the_better_side():
    """Away from critical points the two sides differ, and an eigenvector has either sign."""
    _, (x, y) = problem()
    better = set()
    for seed in range(4):
        torch.manual_seed(seed)
        network = resnest(3, 2, width=1, feature_sizes=[4]).double()
        block, last = network.blocks[-1], network.expansion(x)
        feature = block.function(last)
        loss = convex_loss(None, y, num_outputs=2)
        point = critical_point(network, loss, last=last, feature=feature, epsilon=1.0)
        A, B = point.direction
        risks = {}
        for step in (0.0, 1e-3, -1e-3):
            mix, out = block.mix.weight + step * A, network.output.weight + step * B
            risks[step] = float(((last + feature @ mix.T) @ out.T - y).square().mean())
        better.add(min(risks, key=risks.get))
        assert point.drop == pytest.approx(risks[0.0] - min(risks.values()), rel=1e-6)
    assert better == {1e-3, -1e-3}


def test_no_worse_than_linear_counts_the_penalty():
    network, data = problem()
    result = certify(network, data, curvature=False)
    assert result.linear is not None

    def judged(risk, penalty):
        linear = dataclasses.replace(result.linear, penalty=penalty)
        return dataclasses.replace(result, risk=risk, linear=linear).no_worse_than_linear

    at = result.linear.risk
    assert judged(at, 0.0) is True
    assert judged(at + 0.1, 0.0) is False
    assert judged(at - 0.05, 0.1) is False, "the penalty of the ridge is part of what is compared"
    assert judged(at - 0.2, 0.1) is True
