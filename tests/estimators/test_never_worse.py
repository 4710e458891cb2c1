"""Training risk is at most the best linear predictor's, on whatever data; the rivals are scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from bathyscope.certificates import EXISTENCE_RIDGE
from bathyscope.estimators import (
    AugmentedResNEstClassifier,
    AugmentedResNEstRegressor,
    DenseNEstClassifier,
    DenseNEstRegressor,
    GuaranteeWarning,
    ResNEstClassifier,
    ResNEstRegressor,
)

REGRESSORS = (DenseNEstRegressor, AugmentedResNEstRegressor, ResNEstRegressor)
CLASSIFIERS = (DenseNEstClassifier, AugmentedResNEstClassifier, ResNEstClassifier)


def inputs(rng):
    """Sizes, scales, collinear and constant columns, one precision or the other."""
    n = int(rng.integers(2, 90))
    d = int(rng.integers(1, 12)) if rng.uniform() < 0.8 else int(rng.integers(n, 2 * n + 1))
    X = rng.standard_normal((n, d))
    for j in range(d):
        kind = rng.integers(0, 8)
        if kind == 0:
            X[:, j] = rng.uniform(-5, 5)  # constant
        elif kind == 1:
            X[:, j] = X[:, : j + 1] @ rng.standard_normal(j + 1)  # collinear
        elif kind == 2:
            X[:, j] = X[:, j] * 10.0 ** rng.integers(-8, 9) + rng.choice([0, 1e3])
    return X.astype(np.float32) if rng.uniform() < 0.3 else X


def whitened(X, *, lengths=False, constant=1.0):
    """[constant, orthonormal columns of unit variance] of float64 inputs: the same linear predictors.

    With `lengths`, principal components of standardized inputs: weights on them have the norm of
    the weights on the inputs.
    """
    X = X.astype(np.float64)
    centered = X - X.mean(0)
    centered = centered - centered.mean(0)
    norms = np.sqrt((centered**2).sum(0))
    live = norms > 1e-13 * np.sqrt((X**2).sum(0))
    U, S, _ = np.linalg.svd(centered[:, live] / norms[live], full_matrices=False)
    kept = np.finfo(float).eps * max(X.shape) < S
    U = U[:, kept] * (S[kept] if lengths else 1.0)
    return np.column_stack([np.full(len(X), constant), U * np.sqrt(len(X))])


def check_regression(seed):
    rng = np.random.default_rng(seed)
    X = inputs(rng)
    outputs = int(rng.integers(1, 4))
    noise = 10.0 ** rng.integers(-6, 2)
    Y = np.tanh(whitened(X)[:, :4]).sum(1)[:, None] * rng.standard_normal(outputs)
    Y = (Y + noise * rng.standard_normal((len(X), outputs))) * 10.0 ** rng.integers(-6, 7)
    model = REGRESSORS[seed % 3](random_state=0).fit(X, Y if outputs > 1 else Y[:, 0])
    risk = ((model.predict(X).reshape(Y.shape) - Y) ** 2).mean()
    Q = whitened(X)
    linear = ((Y - Q @ np.linalg.lstsq(Q, Y, rcond=None)[0]) ** 2).mean()
    constant = ((Y - Y.mean(0)) ** 2).mean()
    assert model.certificate_.guaranteed
    assert risk <= linear + 1e-9 * constant
    assert model.certificate_.risk == pytest.approx(risk, rel=1e-6, abs=1e-12 * constant)
    assert model.certificate_.linear_risk == pytest.approx(linear, rel=1e-6, abs=1e-9 * constant)


def check_classification(seed):
    rng = np.random.default_rng(seed)
    X = inputs(rng)
    count = len(X) if rng.uniform() < 0.1 else int(rng.integers(2, 5))  # one sample a class
    signal = rng.choice([0.3, 3.0]) * whitened(X)[:, :2].sum(1) + rng.standard_normal(len(X))
    y = np.clip(np.digitize(signal, np.linspace(-1, 1, min(count, 4) - 1)), 0, count - 1)
    y[: min(count, len(y))] = np.arange(min(count, len(y)))
    if count == len(X):
        y = rng.permutation(len(X))
    model = CLASSIFIERS[seed % 3](random_state=0).fit(X, y)
    result = model.certificate_
    risk = log_loss(y, model.predict_proba(X), labels=model.classes_)
    constant = -np.mean(np.log(np.bincount(y)[y] / len(y)))
    ridge = result.existence_ridge  # 0 unless the classes can be separated, at least in part
    strength = np.inf if ridge == 0 else 1 / (ridge * len(X))
    Q = whitened(X)
    if ridge > 0:  # the ridge on the constant is the tiny one
        Q = whitened(X, lengths=True, constant=np.sqrt(ridge / EXISTENCE_RIDGE))
    rival = LogisticRegression(
        C=strength, fit_intercept=False, solver="newton-cg", tol=1e-11, max_iter=2000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rival.fit(Q, y)
    linear = log_loss(y, rival.predict_proba(Q), labels=model.classes_)
    penalty = ridge / 2 * (rival.coef_**2).sum()
    assert result.guaranteed
    assert risk + result.penalty <= linear + penalty + 1e-9 * constant
    assert result.risk == pytest.approx(risk, rel=1e-6, abs=1e-12)
    if ridge == 0:
        assert risk <= linear + 1e-9 * constant
    else:
        assert result.risk <= result.linear_risk + 1e-9 * constant
        assert result.linear_risk == pytest.approx(linear, rel=1e-4, abs=1e-6 * constant)


@pytest.mark.parametrize("seed", range(6))
def test_regression(seed):
    check_regression(seed)


@pytest.mark.parametrize("seed", range(6))
def test_classification(seed):
    check_classification(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 180))
def test_regression_at_full_count(seed):
    check_regression(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 180))
def test_classification_at_full_count(seed):
    check_classification(seed)


@pytest.mark.parametrize("ridge", [0, 1e-4, 1.0, 1e3, np.inf])
@pytest.mark.parametrize("kind", [DenseNEstRegressor, ResNEstClassifier])
def test_at_every_ridge(kind, ridge):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = (np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(80) > 0).astype(int)
    result = kind(ridge=ridge, max_epochs=10, random_state=0).fit(X, y).certificate_
    assert result.ridge == ridge
    assert result.no_worse_than_linear
    assert result.bound <= result.risk <= result.linear_risk * (1 + 1e-12)
    if ridge == np.inf:
        assert result.risk == pytest.approx(result.linear_risk, rel=1e-12)


@pytest.mark.parametrize("kind", [ResNEstRegressor, ResNEstClassifier])
@pytest.mark.parametrize("width", [1, 4, 20, 139])
def test_a_narrow_resnest_never_claims_the_guarantee(kind, width):
    rng = np.random.default_rng(width)
    X = rng.standard_normal((60, 10))
    y = rng.integers(0, 2, 60)
    with pytest.warns(GuaranteeWarning, match=f"M = {width} is below the 140 needed"):
        model = kind(width=width, max_epochs=5, random_state=0).fit(X, y)
    assert not model.certificate_.guaranteed
    assert np.isfinite(model.predict(X)).all()
    assert model.certificate_.needed_width == 140
    wide = kind(width=140, max_epochs=5, random_state=0).fit(X, y)
    assert wide.certificate_.guaranteed
    assert wide.certificate_.rank == 139


def test_a_rank_that_breaks_is_noticed(monkeypatch):
    from bathyscope.estimators import forms

    def with_equal_columns(layers):
        for layer in layers:
            layer.weight.data[:] = 1.0

    monkeypatch.setattr(forms, "_orthonormalize_", with_equal_columns)
    X = np.random.default_rng(0).standard_normal((60, 3))
    with pytest.warns(GuaranteeWarning, match="has rank"):
        model = ResNEstRegressor(learning_rate=1e-12, max_epochs=1).fit(X, X[:, 0])
    assert not model.certificate_.guaranteed
