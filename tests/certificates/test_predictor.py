"""The convex problems against independent solvers."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from torch.nn.functional import huber_loss

from bathyscope.certificates import EXISTENCE_RIDGE, best_predictor, needed_ridge, nested_basis
from bathyscope.certificates.losses import convex_loss
from bathyscope.certificates.predictor import penalty
from bathyscope.core import UnknownName, UsageError


def problem(seed, n=150, k=7):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-4, 4, k), rng


def solved(X, y, loss, num_outputs):
    basis = nested_basis([torch.from_numpy(X)])
    ell = convex_loss(loss, torch.as_tensor(y), num_outputs=num_outputs)
    ridge, start = needed_ridge(basis, ell, num_outputs=num_outputs)
    return best_predictor(basis, ell, num_outputs=num_outputs, ridge=ridge, start=start)


@pytest.mark.parametrize("seed", range(4))
def test_squared_loss(seed):
    X, rng = problem(seed)
    y = rng.standard_normal((150, 2))
    Z = (X - X.mean(0)) / X.std(0)  # scikit-learn's solver loses columns of very unequal scale
    expected = ((LinearRegression().fit(Z, y).predict(Z) - y) ** 2).mean()
    assert solved(X, y, "squared", 2).risk == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_cross_entropy(seed, num_classes):
    X, rng = problem(seed)
    labels = rng.integers(0, num_classes, 150)
    result = solved(X, labels, None, num_classes)
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10000, solver="newton-cg")
    Z = (X - X.mean(0)) / X.std(0)
    model.fit(Z, labels)
    assert result.ridge == 0
    assert result.gap < 1e-12
    assert result.risk == pytest.approx(log_loss(labels, model.predict_proba(Z)), abs=1e-10)


def test_logistic_of_several_labels_is_the_sum_of_single_ones():
    X, rng = problem(0)
    labels = rng.integers(0, 2, (150, 3)).astype(float)
    whole = solved(X, labels, "logistic", 3).risk
    assert whole == pytest.approx(
        sum(solved(X, labels[:, j], "logistic", 1).risk for j in range(3)), abs=1e-10
    )
    assert solved(X, labels[:, 0], "logistic", 1).risk == pytest.approx(
        solved(X, labels[:, 0].astype(int), "cross_entropy", 2).risk, abs=1e-10
    )


def test_any_differentiable_loss():
    X, rng = problem(1, k=3)
    Z = (X - X.mean(0)) / X.std(0)
    y = rng.standard_t(2, (150, 1))

    def mean_huber(outputs, targets):
        return huber_loss(outputs, targets, delta=0.5)

    def by_scipy(w):
        r = np.abs(Z @ w[:3] + w[3] - y[:, 0])
        return np.where(r < 0.5, r**2 / 2, 0.5 * (r - 0.25)).mean()

    reference = minimize(by_scipy, np.zeros(4), tol=1e-14, method="BFGS").fun
    assert solved(X, y, mean_huber, 1).risk == pytest.approx(reference, abs=1e-9)


def test_separable_classes_get_a_ridge_and_match_scipy_at_it():
    X, _ = problem(2, n=60, k=3)
    labels = (X[:, 0] > 0).astype(int)
    result = solved(X, labels, "logistic", 1)
    assert result.ridge == EXISTENCE_RIDGE
    basis = nested_basis([torch.from_numpy(X)])
    Q = basis.design().numpy()
    sign = 2 * labels - 1

    def objective(w):
        z = Q @ w
        value = np.logaddexp(0, -sign * z).mean() + EXISTENCE_RIDGE / 2 * (z**2).mean()
        slope = -sign / (1 + np.exp(sign * z)) / len(z) + EXISTENCE_RIDGE * z / len(z)
        return value, Q.T @ slope

    scaled = minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-13})
    assert result.objective == pytest.approx(scaled.fun, abs=1e-9)
    assert result.objective <= scaled.fun + 1e-12


def test_partly_separable_classes_have_no_minimizer_either():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    X[:, 1] = 0
    X[:20, 1] = 1  # marks samples that all have label 1: its weight grows for ever
    labels = rng.integers(0, 2, 200)
    labels[:20] = 1
    assert solved(X, labels, None, 2).ridge == EXISTENCE_RIDGE
    labels[0] = 0
    assert solved(X, labels, None, 2).ridge == 0


def test_a_start_is_never_made_worse():
    X, rng = problem(3)
    labels = rng.integers(0, 3, 150)
    parts = [torch.from_numpy(X[:, :3]), torch.from_numpy(X[:, 3:])]
    basis = nested_basis(parts)
    ell = convex_loss(None, torch.from_numpy(labels), num_outputs=3)
    first = best_predictor(basis, ell, num_features=1, num_outputs=3)
    second = best_predictor(basis, ell, num_outputs=3, start=first.coefficients)
    assert second.risk <= first.risk


def test_bad_targets_are_said():
    with pytest.raises(UsageError, match="Labels run from 0 to 4"):
        convex_loss(None, torch.tensor([0, 4]), num_outputs=3)
    with pytest.raises(UsageError, match="must agree"):
        convex_loss(None, torch.zeros(4, 2), num_outputs=3)
    with pytest.raises(UsageError, match="0 and 1"):
        convex_loss("logistic", torch.tensor([0.0, 2.0]), num_outputs=1)
    with pytest.raises(UnknownName, match="squared"):
        convex_loss("square", torch.zeros(3), num_outputs=1)
    with pytest.raises(UsageError, match="whole-number"):
        convex_loss("cross_entropy", torch.zeros(3), num_outputs=2)


def test_the_penalty_is_half_the_ridge_times_the_mean_square():
    outputs = torch.tensor([[1.0, 2.0], [3.0, 0.0]], dtype=torch.float64)
    weights = torch.tensor([0.25, 0.75], dtype=torch.float64)
    assert penalty(outputs, weights, ridge=0.1) == pytest.approx(0.05 * (0.25 * 5 + 0.75 * 9))


def test_no_features_predict_zero_and_leave_no_gap():
    y = torch.tensor([0, 1, 1])
    basis = nested_basis((torch.zeros(3, 2, dtype=torch.float64),), intercept=False)
    loss = convex_loss("cross_entropy", y, num_outputs=2)
    result = best_predictor(basis, loss, num_outputs=2)
    assert result.coefficients.shape == (0, 2)
    assert result.risk == result.objective == pytest.approx(math.log(2))
    assert result.gap == result.gradient_norm == 0
