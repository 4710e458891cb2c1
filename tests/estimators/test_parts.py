"""Scaling, merging, splitting and the ridge path on their own."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from bathyscope.certificates.losses import convex_loss
from bathyscope.estimators.fitting import RIDGES, _strongest
from bathyscope.estimators.linear_part import LinearPart
from bathyscope.estimators.samples import Samples, merge_samples, split
from bathyscope.estimators.scaling import Scaling
from bathyscope.estimators.solving import RidgePath

rng = np.random.default_rng(0)


def test_scaling_is_the_usual_one():
    X = rng.standard_normal((50, 4)) * [1, 1e9, 1e-9, 1] + [0, 1e9, 0, 5]
    result = Scaling.of(X, np.full(50, 1 / 50))
    np.testing.assert_allclose(result.apply(X), StandardScaler().fit_transform(X), atol=1e-12)
    np.testing.assert_allclose(result.invert(result.apply(X)), X)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -1e-300])
def test_constant_columns_become_zero(value):
    X = np.full((7, 1), value)
    result = Scaling.of(X, np.full(7, 1 / 7))
    assert (result.apply(X) == 0).all()
    np.testing.assert_allclose(result.invert(result.apply(X)), X)


def test_merging_forgets_order_and_repetition():
    X = rng.integers(0, 2, (40, 2)).astype(float)
    Y = rng.integers(0, 2, 40)
    w = rng.uniform(0.5, 1, 40)
    order = rng.permutation(40)
    one, other = merge_samples(X, Y, w), merge_samples(X[order], Y[order], w[order])
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.Y, other.Y)
    np.testing.assert_allclose(one.weights, other.weights)
    assert len(one) == 8
    assert one.weights.sum() == pytest.approx(1)


def test_splits_keep_classes_in_proportion():
    labels = np.repeat([0, 1, 2], [100, 50, 1])
    samples = Samples(np.arange(151.0)[:, None], labels, np.full(151, 1 / 151))
    train, validation = split(samples, fraction=0.2, labels=labels, seed=0)
    assert len(train) + len(validation) == 151
    assert abs(np.sum(validation.Y == 0) - 20) <= 1
    assert abs(np.sum(validation.Y == 1) - 10) <= 1
    assert not (validation.Y == 2).any()  # a class of one is learned from
    assert split(samples.take(np.arange(20)), fraction=0.2, labels=None, seed=0) is None


def path(n=80, outputs=2):
    x = torch.from_numpy(rng.standard_normal((n, 3)))
    v = torch.from_numpy(np.maximum(rng.standard_normal((n, 5)) * 3 + 1, 0))
    y = torch.from_numpy(rng.standard_normal((n, outputs)))
    w = torch.from_numpy(rng.uniform(0.5, 1.5, n))
    w = w / w.sum()
    loss = convex_loss("squared", y, num_outputs=outputs)
    linear = LinearPart.of(x, loss=loss, weights=w, num_outputs=outputs)
    return RidgePath.of(linear, v), x, v, y, w


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_the_path_minimizes_its_objective(ridge):
    """Against scikit-learn's ridge with the linear columns made free by a huge scale."""
    result, x, v, y, w = path()
    spread = (w @ (v - w @ v).square()).sqrt()
    readout = result.solve(ridge).readout()
    free = 1e6
    Z = torch.cat([x * free, torch.ones(len(x), 1) * free, v / spread], dim=1)
    strength = ridge * y.shape[1] / 2  # mean over outputs, half the square
    reference = Ridge(alpha=strength, fit_intercept=False, solver="svd", tol=1e-14)
    reference.fit(Z, y, sample_weight=w)
    expected = torch.from_numpy(reference.predict(Z))
    torch.testing.assert_close(readout(x, v), expected, atol=1e-6, rtol=0)


def test_risk_rises_with_the_ridge_up_to_the_linear_one():
    result, x, v, *_ = path()
    risks = [result.solve(r).risk() for r in (0.0, 1e-4, 1e-2, 1.0, 100.0, float("inf"))]
    assert risks == sorted(risks)
    linear = result.solve(float("inf")).readout()
    torch.testing.assert_close(linear(x, v), linear(x))


def test_readouts_predict_what_the_path_does():
    result, x, v, *_ = path()
    solution = result.solve(0.1)
    torch.testing.assert_close(solution.readout()(x, v), solution.outputs())


def separable(n=60, classes=3):
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 6)) + 1e-3 * rng.standard_normal(
        (n, 6)
    )
    X = StandardScaler().fit_transform(X)
    return X, (X @ rng.standard_normal((6, classes))).argmax(axis=1)


@pytest.mark.parametrize("existence_ridge", [1e-2, 1e-4])
def test_the_linear_part_of_separable_classes_is_logistic_regression(existence_ridge):
    X, y = separable()
    loss = convex_loss("cross_entropy", torch.from_numpy(y), num_outputs=3)
    weights = torch.full((len(X),), 1 / len(X), dtype=torch.float64)
    part = LinearPart.of(torch.from_numpy(X), loss=loss, weights=weights, num_outputs=3)
    part = part.at(existence_ridge)
    rival = LogisticRegression(C=1 / (existence_ridge * len(X)), tol=1e-10, max_iter=10_000)
    rival.fit(X, y)
    ours = torch.softmax(part(torch.from_numpy(X)), dim=1).numpy()
    np.testing.assert_allclose(ours, rival.predict_proba(X), atol=1e-3 * existence_ridge**0.25)
    A, _ = part.weights_and_constant(part.coefficients)
    assert A.norm() == pytest.approx(part.coefficients[1:].norm().item())


def test_no_ridge_acts_where_a_best_linear_predictor_exists():
    X, y = separable()
    y[::3] = rng.integers(0, 3, len(y[::3]))
    loss = convex_loss("cross_entropy", torch.from_numpy(y), num_outputs=3)
    weights = torch.full((len(X),), 1 / len(X), dtype=torch.float64)
    part = LinearPart.of(torch.from_numpy(X), loss=loss, weights=weights, num_outputs=3)
    assert part.existence_ridge == 0
    assert part.at(1e-2) is part


def test_the_strongest_within_the_standard_errors():
    w = torch.full((4,), 0.25, dtype=torch.float64)
    best = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    noise = torch.tensor([0.3, -0.1, 0.3, -0.1], dtype=torch.float64)  # mean 0.1, error 0.1
    losses = [best + 1.0, best + noise, best]
    assert _strongest(losses, w, caution=0.9) == 2
    assert _strongest(losses, w, caution=1.1) == 1


def test_a_unit_that_hardly_fires_is_not_blown_up():
    """One sample of the training data has a little of it; a new one has a thousand times as much."""
    n = 100
    x = torch.from_numpy(rng.standard_normal((n, 2)))
    v = torch.from_numpy(np.maximum(rng.standard_normal((n, 3)), 0))
    v[:, 2] = 0
    v[0, 2] = 1e-3
    y = x[:, :1] + 0.1 * torch.from_numpy(rng.standard_normal((n, 1)))
    y[0] += 3
    w = torch.full((n,), 1 / n, dtype=torch.float64)
    linear = LinearPart.of(
        x, loss=convex_loss("squared", y, num_outputs=1), weights=w, num_outputs=1
    )
    readout = RidgePath.of(linear, v).solve(1.0).readout()
    new = v[1:2].clone()
    new[0, 2] = 1
    assert (readout(x[1:2], new) - readout(x[1:2], v[1:2])).abs() < 0.5


def test_ridges_fall_by_tens_from_the_linear_predictor_alone():
    assert np.isinf(RIDGES[0])
    assert RIDGES[1:] == pytest.approx([10.0**-k for k in range(7)])
