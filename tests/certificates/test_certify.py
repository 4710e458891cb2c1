"""Certificates of networks: the paper's bounds, edges and exceptions."""

import json
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from bathyscope.certificates import certify
from bathyscope.core import UsageError
from bathyscope.nets.nest_convert import dense_to_residual, residual_to_augmented
from bathyscope.nets.nest_vectors import aresnest, densenest, resnest
from tests.certificates.examples import data, network

WIDTHS = [(30, True), (18, True), (17, False), (12, False), (8, False)]


@pytest.mark.parametrize(("width", "holds"), WIDTHS)
def test_the_sharp_edge_of_theorem_1(width, holds):
    result = certify(network(width), data(0))
    assert result.width.needed == 18
    assert result.width.rank == min(width, 18)
    assert result.guaranteed is holds
    assert result.assumption(4).holds is holds
    if holds:
        assert result.attainable_epsilon < 1e-10
    else:
        assert result.attainable_epsilon > 1e-5
        assert "18 needed" in result.decided_by


@pytest.mark.parametrize("seed", range(5))
def test_below_the_edge_it_can_be_worse_than_linear(seed):
    """M = 8: even the best prediction weights do not give back the linear predictor."""
    x, y = data(seed)
    mostly_linear = x[:, :2] - x[:, 2:4] + 0.2 * y
    narrow = certify(network(8, seed=seed), (x, mostly_linear), blocks=False)
    assert narrow.attainable_risk > narrow.linear_risk
    assert narrow.attainable_epsilon > 0.01 * narrow.constant_risk
    assert not narrow.guaranteed
    roomy = certify(network(18, seed=seed), (x, mostly_linear), blocks=False)
    assert roomy.attainable_risk < roomy.linear_risk


@pytest.mark.parametrize("width", [18, 17])
def test_minimizing_over_the_prediction_weights_attains_what_is_said(width):
    """Problem P_φ itself, by L-BFGS from the network's own weights."""
    net, (x, y) = network(width), data(0)
    result = certify(net, (x, y))
    parameters = [net.blocks[-1].mix.weight, net.output.weight]
    sizes = [p.numel() for p in parameters]

    def objective(w):
        parts = torch.from_numpy(w).split(sizes)
        with torch.no_grad():
            for p, part in zip(parameters, parts, strict=True):
                p.copy_(part.view_as(p))
        risk = nn.functional.mse_loss(net(x), y)
        slopes = torch.autograd.grad(risk, parameters)
        return risk.item(), torch.cat([s.ravel() for s in slopes]).numpy()

    start = torch.cat([p.detach().ravel() for p in parameters]).numpy()
    reached = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 20000, "ftol": 0, "gtol": 1e-9, "maxcor": 50},
    ).fun
    assert reached >= result.attainable_risk - 1e-12
    assert reached == pytest.approx(result.attainable_risk, abs=2e-5)
    assert certify(net, (x, y)).epsilon == pytest.approx(reached - result.bound, abs=1e-10)


@pytest.mark.parametrize("kind", [aresnest, densenest])
def test_the_convex_forms_are_always_guaranteed(kind):
    torch.manual_seed(0)
    sizes = {"width": 3} if kind is aresnest else {}
    result = certify(kind(6, 2, feature_sizes=[4, 4], **sizes), data(0, dtype=torch.float32))
    assert result.guaranteed
    assert result.bound_applies
    assert result.epsilon >= 0
    assert result.critical_point is None
    assert result.bound <= result.linear_risk


def test_a_resnest_and_its_augmented_form_share_the_bound():
    net = network(12, intercept=True)
    ours, theirs = certify(net, data(0)), certify(residual_to_augmented(net), data(0))
    assert ours.bound == pytest.approx(theirs.bound, abs=1e-13)
    assert ours.risk == pytest.approx(theirs.risk, abs=1e-13)


def test_proposition_4_makes_a_guaranteed_resnest():
    torch.manual_seed(0)
    dense = densenest(6, 2, feature_sizes=[4, 4, 4])
    result = certify(dense_to_residual(dense), data(0))
    assert result.guaranteed
    assert result.width.smallest_singular_value == pytest.approx(1)
    assert result.attainable_epsilon == pytest.approx(0, abs=1e-12)
    assert result.bound == pytest.approx(certify(dense, data(0)).bound, abs=1e-12)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=pytest.mark.slow)])
def test_risk_over_blocks_is_monotone(seeds):
    for seed in seeds:
        g = np.random.default_rng(seed)
        sizes = g.integers(1, 6, g.integers(1, 6)).tolist()
        result = certify(network(int(g.integers(2, 25)), seed=seed, sizes=sizes), data(seed, n=80))
        steps = np.diff([result.constant_risk, *result.block_risks])
        assert steps.max() <= 1e-15, seed
        assert result.monotone
        assert len(result.block_risks) == len(sizes) + 1


def test_literal_truncation_may_rise():
    rises = 0
    for seed in range(10):
        result = certify(network(18, seed=seed), data(seed, n=80))
        assert result.truncated_risks[-1] == pytest.approx(result.bound, abs=1e-12)
        rises += bool((np.diff(result.truncated_risks) > 1e-6).any())
    assert rises > 0


@pytest.mark.parametrize("num_classes", [2, 3])
def test_cross_entropy_certificates(num_classes):
    x, y = data(0)
    labels = torch.bucketize(
        y[:, 0].contiguous(), torch.tensor([0.0, 0.8][: num_classes - 1]).double()
    )
    result = certify(network(20, outputs=num_classes), (x, labels))
    assert result.loss == "cross_entropy"
    assert result.ridge == 0
    assert result.gap < 1e-12
    assert result.attainable_epsilon == pytest.approx(0, abs=1e-9)
    assert result.monotone
    assert result.bound <= result.linear_risk <= result.constant_risk


def test_separable_classes_say_so():
    x, _ = data(0)
    result = certify(network(20), (x, (x[:, 0] > 0).long()))
    assert result.ridge > 0
    assert any("classes can be separated" in note for note in result.notes)
    assert result.epsilon >= 0


def no_minimizer(result):
    (note,) = [note for note in result.notes if "no minimizer" in note]
    assert result.ridge > 0
    return note


def test_why_there_is_no_minimizer_is_said():
    (x, _), labels = data(0, n=80), torch.arange(80) % 2
    one = no_minimizer(certify(network(20), (x, 0 * labels)))
    assert one.startswith("All samples are of one class")
    missing = no_minimizer(certify(network(20, outputs=4), (x, labels)))
    assert missing.startswith("2 of the 4 classes have no sample")
    same = torch.stack([labels, 0 * labels], dim=1).double()
    label = no_minimizer(certify(network(20), (x, same), loss="logistic"))
    assert label.startswith("An output has the same label")
    # every sample of class 0 lies on one side, those of class 1 on both
    partly = no_minimizer(
        certify(network(20, sizes=(1,)), (x.sign(), (x[:, 0] > 0) & (x[:, 1] > 0)))
    )
    assert "some classes can be separated" in partly or "The classes can be separated" in partly


def test_a_constructed_saddle_has_negative_curvature():
    """Theorem 2: W_{L+1} = 0 and W_L such that Σ y x_Lᵀ = 0 is critical, and no minimum."""
    net, (x, y) = network(18, outputs=1), data(0)
    y = y[:, :1]
    before = net.representations(x)[-2]
    feature = net.features(x)[-1]
    b, c = before.T @ y, feature.T @ y
    with torch.no_grad():
        net.output.weight.zero_()
        net.blocks[-1].mix.weight.copy_(-b @ c.T / c.square().sum())
    result = certify(net, (x, y)).critical_point
    assert result.kind == "saddle"
    assert result.gradient_norm < 1e-12
    assert result.smallest_curvature < 0
    assert result.drop > 0
    assert result.output_rank == 0  # rank deficient, as theorem 2 (i) says
    A, B = result.direction
    t = 1e-3
    with torch.no_grad():
        risk = nn.functional.mse_loss(net(x), y)
        net.blocks[-1].mix.weight.add_(t * A)
        net.output.weight.add_(t * B)
        moved = nn.functional.mse_loss(net(x), y)
    assert float(moved - risk) == pytest.approx(result.smallest_curvature * t * t / 2, rel=0.05)


def test_the_hessian_product_is_autograds():
    net, (x, y) = network(7, sizes=(3, 2)), data(0, n=50)
    result = certify(net, (x, y)).critical_point
    before, feature = net.representations(x)[-2].detach(), net.features(x)[-1].detach()
    W_L, W_out = net.blocks[-1].mix.weight.detach(), net.output.weight.detach()

    def risk(w):
        A, B = w[: W_L.numel()].view_as(W_L), w[W_L.numel() :].view_as(W_out)
        return nn.functional.mse_loss((before + feature @ A.T) @ B.T, y)

    point = torch.cat([W_L.ravel(), W_out.ravel()])
    values = torch.linalg.eigvalsh(torch.func.hessian(risk)(point))
    assert result.smallest_curvature == pytest.approx(float(values[0]), abs=1e-10)
    assert result.largest_curvature == pytest.approx(float(values[-1]), abs=1e-10)
    assert result.gradient_norm == pytest.approx(float(torch.func.grad(risk)(point).norm()))
    assert result.kind == "not critical"


def test_many_variables_use_the_same_curvatures():
    import bathyscope.certificates.saddle as saddle

    net, batch = network(18), data(0)
    dense = certify(net, batch).critical_point
    limit = saddle._DENSE_UP_TO
    saddle._DENSE_UP_TO = 0
    try:
        sparse = certify(net, batch).critical_point
    finally:
        saddle._DENSE_UP_TO = limit
    assert sparse.smallest_curvature == pytest.approx(dense.smallest_curvature, rel=1e-6)


def test_predictability_sees_a_redundant_feature():
    torch.manual_seed(0)
    functions = [nn.Linear(20, 4), nn.Sequential(nn.Linear(20, 4), nn.ReLU())]
    net = resnest(6, 2, width=20, feature_sizes=[4, 4], functions=functions)
    _, linear, nonlinear = certify(net, data(0)).predictability
    assert linear.new_directions == 0
    assert linear.unpredicted < 1e-12
    assert nonlinear.new_directions == 4
    assert nonlinear.unpredicted > 0.01


def test_outside_the_family_only_what_applies():
    x, y = data(0, dtype=torch.float32)
    result = certify(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), (x, y))
    assert result.bound is None
    assert result.epsilon is None
    assert not result.guaranteed
    assert "no theorem" in result.decided_by
    assert result.linear_risk < result.constant_risk
    assert "Sequential" in str(result)


def test_loaders_and_pairs_agree_and_the_model_is_untouched():
    net, (x, y) = network(20).float().train(), data(0, dtype=torch.float32)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    one = certify(net, (x, y))
    many = certify(net, [(x[:100], y[:100]), (x[100:], y[100:])])
    assert one.bound == pytest.approx(many.bound, abs=1e-14)
    assert net.training
    assert net.output.weight.dtype == torch.float32
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())


def test_it_can_be_written_as_json():
    result = certify(network(20), data(0))
    back = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert back["width"]["needed"] == 18
    assert math.isclose(back["epsilon"], result.epsilon)


def test_bad_data_are_said():
    x, y = data(0)
    with pytest.raises(UsageError, match="400 inputs but 399 targets"):
        certify(network(20), (x, y[1:]))
    with pytest.raises(UsageError, match="no data"):
        certify(network(20), [])
    with pytest.raises(UsageError, match="cannot take"):
        certify(network(20), (x[:, :5], y))
    with pytest.raises(UsageError, match="do not fit together"):
        certify(network(20), [(x, y), (x, y[:, :1])])


@pytest.mark.parametrize("data", [None, 3, (None, None)])
def test_what_are_no_data_is_said(data):
    with pytest.raises(UsageError, match=r"was given\.$"):
        certify(network(20), data)


def test_what_is_non_finite_is_said():
    x, y = data(0, n=40)
    with_nan = y.clone()
    with_nan[3, 0] = torch.nan
    with pytest.raises(UsageError, match="1 of 80 values of the targets"):
        certify(network(20), (x, with_nan))
    for value, text in [
        (torch.nan, "parameter output.weight"),
        (1e308, "features and outputs"),
        (1e200, "squared loss of the network is inf"),
    ]:
        net = network(20)
        with torch.no_grad():
            net.output.weight[0] = value
        with pytest.raises(UsageError, match=text):
            certify(net, (x, y))
