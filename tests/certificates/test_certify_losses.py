"""Certificates for losses of the user's own: kinks, no convexity, no minimizer in sight."""

import json

import pytest
import torch
from torch import nn

from bathyscope.certificates import certify
from bathyscope.core import UsageError
from tests.certificates.examples import data, network


def test_a_loss_that_is_not_convex_is_noticed():
    def bounded(outputs, targets):
        return torch.tanh((outputs - targets).square()).mean()

    result = certify(network(20), data(0, n=60), loss=bounded, blocks=False)
    assert not result.assumption(2).holds
    assert result.assumption(2).value > 0
    assert not result.guaranteed


@pytest.fixture
def few_iterations(monkeypatch):
    import bathyscope.certificates.predictor as predictor

    solve = predictor.newton
    monkeypatch.setattr(predictor, "newton", lambda *a, **k: solve(*a, **k | {"max_iterations": 2}))


def log_cosh(outputs, targets):
    return torch.log(torch.cosh(outputs - targets)).mean()


def test_a_loss_with_a_kink_has_no_bound(few_iterations):
    net, (x, y) = network(8, sizes=(2,)), data(0, n=30)
    result = certify(net, (x, y), loss=nn.functional.l1_loss, blocks=False)
    assert not result.assumption(2).holds
    assert result.assumption(2).value > 1e-3
    assert not result.guaranteed
    assert not result.bound_applies
    assert result.attainable_risk is None
    assert result.critical_point is None
    assert result.no_worse_than_linear is not True
    assert "no bound" in str(result)
    assert "gap" in str(result)
    assert not any("separated" in note for note in result.notes)
    json.dumps(result.as_dict(), allow_nan=False)


@pytest.mark.parametrize("loss", [nn.functional.huber_loss, log_cosh])
def test_a_smooth_convex_loss_keeps_its_bound(loss):
    net, (x, y) = network(20, sizes=(4, 4)), data(0, n=60)
    result = certify(net, (x, y), loss=loss, blocks=False)
    assert result.guaranteed
    assert result.bound_applies
    assert result.gap < 1e-9 * result.constant_risk
    assert result.attainable_epsilon == pytest.approx(0, abs=1e-8)


def test_a_bound_that_was_not_solved_for_is_none(few_iterations):
    (x, y), net = data(0), network(20)
    result = certify(net, (x, y), loss=log_cosh, blocks=False)
    assert result.assumption(2).holds
    assert result.gap > 1e-9 * result.constant_risk
    assert not result.guaranteed
    assert not result.bound_applies
    assert "gap" in result.decided_by


def test_a_loss_of_whole_batches_of_samples_is_taken():
    """It keeps something for each sample, so it can be called on all of them only."""
    (x, y), net = data(0, n=60), network(20)
    kept = torch.linspace(0.5, 1.5, 60, dtype=torch.float64)[:, None]
    result = certify(net, (x, y), loss=lambda o, t: (kept * (o - t).square()).mean(), blocks=False)
    assert result.guaranteed


def test_losses_that_are_none_are_said():
    (x, y), net = data(0, n=60), network(20)

    def without_graph(outputs, targets):
        with torch.no_grad():
            return (outputs - targets).square().mean()

    with pytest.raises(UsageError, match="no_grad"):
        certify(net, (x, y), loss=without_graph)
    with pytest.raises(UsageError, match="could not be computed"):
        certify(net, (x, y), loss=lambda outputs: outputs.mean())
    with pytest.raises(UsageError, match="must be a scalar"):
        certify(net, (x, y), loss=lambda outputs, targets: (outputs - targets).square())
