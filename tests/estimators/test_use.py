"""The estimators in use: what they carry, and how they stand beside other tools."""

import pickle
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_friedman1, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bathyscope.certificates import certify
from bathyscope.core import UsageError
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
friedman = make_friedman1(300, noise=0.5, random_state=0)


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("training", ["joint", "blockwise"])
def test_better_than_linear_on_new_data(kind, training):
    X, y = friedman
    model = kind(max_epochs=30, training=training, random_state=0).fit(X[:200], y[:200])
    linear = LinearRegression().fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > linear.score(X[200:], y[200:])
    assert model.certificate_.linear_risk == pytest.approx(
        ((linear.predict(X[:200]) - y[:200]) ** 2).mean(), rel=1e-10
    )


@pytest.mark.parametrize("kind", REGRESSORS)
def test_the_fitted_network_is_what_its_certificate_says(kind):
    """`certificates.certify` on the network itself agrees: it is a member of its family."""
    X, y = friedman
    model = kind(max_epochs=5, num_blocks=2, block_size=8, random_state=0).fit(X, y)
    x = torch.from_numpy(model.scaling_.apply(X))
    target = torch.from_numpy(model.target_scaling_.apply(y[:, None]))
    result = certify(model.network_, (x, target))
    unit = model.target_scaling_.scale[0] ** 2
    ours = model.certificate_
    assert result.guaranteed
    assert result.risk * unit == pytest.approx(ours.risk, rel=1e-9)
    assert result.linear_risk * unit == pytest.approx(ours.linear_risk, rel=1e-9)
    assert result.bound * unit == pytest.approx(ours.bound, rel=1e-6)
    assert result.no_worse_than_linear


def test_outputs_of_several_targets_and_shapes():
    X, y = friedman
    Y = np.column_stack([y, 1e6 * X[:, 0] ** 2, np.full(len(y), 3.0)])
    model = DenseNEstRegressor(max_epochs=10, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict(X)[:, 2], 3.0)
    assert DenseNEstRegressor(max_epochs=1).fit(X, y).predict(X).shape == y.shape


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_probabilities_and_decisions_agree(kind):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = kind(max_epochs=10, random_state=0).fit(X, names)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.classes_[probabilities.argmax(1)] == model.predict(X)).all()
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, names) > 0.95
    assert log_loss(names, probabilities) == pytest.approx(model.certificate_.risk)


def test_several_labels_a_sample():
    X, _ = friedman
    Y = (X[:, :3] > 0.5).astype(int)
    model = DenseNEstClassifier(max_epochs=10, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.predict_proba(X).shape == Y.shape
    assert (model.predict(X) == Y).mean() > 0.95


def test_weights_are_repetitions():
    X, y = friedman
    w = np.random.default_rng(0).integers(0, 3, len(y))
    settings = {"max_epochs": 3, "random_state": 0}
    weighted = DenseNEstRegressor(**settings).fit(X, y, sample_weight=w)
    repeated = DenseNEstRegressor(**settings).fit(X.repeat(w, axis=0), y.repeat(w))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-10)
    assert weighted.certificate_.risk == pytest.approx(repeated.certificate_.risk, rel=1e-10)


def test_any_units():
    X, y = friedman
    factors = 10.0 ** np.arange(-5, 5)
    settings = {"max_epochs": 5, "random_state": 0}
    plain = ResNEstRegressor(**settings).fit(X, y).certificate_
    scaled = ResNEstRegressor(**settings).fit(X * factors + 7 * factors, 1e5 * y - 3).certificate_
    assert scaled.linear_risk == pytest.approx(1e10 * plain.linear_risk, rel=1e-6)
    assert scaled.risk <= scaled.linear_risk


def test_in_pipelines_and_searches():
    X, y = make_moons(120, noise=0.2, random_state=0)
    steps = make_pipeline(StandardScaler(), DenseNEstClassifier(max_epochs=3, random_state=0))
    search = GridSearchCV(steps, {"densenestclassifier__num_blocks": [1, 2]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].certificate_.guaranteed


def test_the_same_seed_gives_the_same_fit_and_leaves_torch_alone():
    X, y = friedman
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = (DenseNEstRegressor(max_epochs=3, random_state=3).fit(X, y) for _ in "ab")
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    other = clone(first).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(first.predict(X), other.predict(X))
    back = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(back.predict(X), first.predict(X))


@pytest.mark.parametrize("kind", [DenseNEstRegressor, ResNEstRegressor])
def test_partial_fit_speaks_of_its_last_call(kind):
    X, y = make_friedman1(1200, random_state=0)
    model = kind(num_blocks=2, block_size=8, random_state=0)
    for part in range(3):
        rows = slice(400 * part, 400 * (part + 1))
        model.partial_fit(X[rows], y[rows])
    result = model.certificate_
    assert "last call" in result.scope
    assert result.num_samples == 400
    assert result.guaranteed
    assert result.risk == pytest.approx(((model.predict(X[800:]) - y[800:]) ** 2).mean())
    model.partial_fit(X[:50], y[:50])  # too few to solve on: gradient steps, and no claim
    assert not model.certificate_.guaranteed
    assert "gradient steps" in model.certificate_.decided_by
    assert model.score(X[50:], y[50:]) > 0.5


@pytest.mark.parametrize("kind", [DenseNEstRegressor, ResNEstRegressor])
def test_partial_fit_goes_on_learning(kind):
    X, y = make_friedman1(2600, noise=0.5, random_state=0)
    model = kind(num_blocks=2, block_size=16, random_state=0)
    scores = [model.partial_fit(X[i : i + 600], y[i : i + 600]).score(X[2400:], y[2400:])
              for i in (0, 600, 1200, 1800)]  # fmt: skip
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.05
    again = [model.partial_fit(X[:2400], y[:2400]).score(X[2400:], y[2400:]) for _ in range(6)]
    assert again[-1] > max(scores)
    assert model.num_calls_ == 10


def test_partial_fit_goes_on_from_a_fit():
    X, y = friedman
    model = DenseNEstRegressor(max_epochs=3, random_state=0).fit(X, y)
    before = model.predict(X)
    model.partial_fit(X, y)
    assert not np.array_equal(before, model.predict(X))
    assert model.num_calls_ == 1


def test_partial_fit_of_classes():
    X, y = make_moons(200, noise=0.2, random_state=0)
    with pytest.raises(ValueError, match="classes must be passed"):
        DenseNEstClassifier().partial_fit(X, y)
    model = DenseNEstClassifier(num_blocks=1, block_size=4)
    model.partial_fit(X[:100], y[:100], classes=[0, 1]).partial_fit(X[100:], y[100:])
    assert model.score(X, y) > 0.8
    with pytest.raises(ValueError, match="not announced"):
        model.partial_fit(X, y + 5)


def test_early_stopping_and_history():
    X, y = friedman
    stopped = DenseNEstRegressor(patience=2, max_epochs=300, random_state=0).fit(X, y)
    whole = DenseNEstRegressor(early_stopping=False, max_epochs=40, random_state=0).fit(X, y)
    assert len(stopped.history_) < 300
    assert len(whole.history_) == 40


def test_a_progress_bar(capsys):
    X, y = friedman
    DenseNEstRegressor(verbose=True, max_epochs=2).fit(X, y)
    captured = capsys.readouterr()
    assert "learning features" in captured.out + captured.err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_blocks": 0}, "num_blocks"),
        ({"block_size": 2.5}, "block_size"),
        ({"training": "both"}, "training"),
        ({"early_stopping": "no"}, "early_stopping"),
        ({"ridge": -1}, "ridge"),
        ({"ridge": "strong"}, "ridge"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"batch_size": 0}, "batch_size"),
        ({"width": 0}, "width"),
    ],
)
def test_bad_settings_are_said(setting, message):
    X, y = friedman
    with pytest.raises(UsageError, match=message):
        ResNEstRegressor().set_params(**setting).fit(X, y)


def test_bad_input_has_scikit_learns_messages():
    X, y = friedman
    model = DenseNEstRegressor(max_epochs=1)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 0.99, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[1:])
    model.fit(X, y)
    with pytest.raises(
        ValueError, match="X has 9 features, but DenseNEstRegressor is expecting 10"
    ):
        model.predict(X[:, :9])
    with pytest.raises(ValueError, match="only one class"):
        DenseNEstClassifier().fit(X, np.zeros(len(X)))


def test_a_narrow_network_pays_no_penalty_of_the_path_it_did_not_take():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] > 0).astype(int)
    narrow = ResNEstClassifier(width=3, num_blocks=2, block_size=4, max_epochs=2)
    with pytest.warns(GuaranteeWarning):
        narrow.fit(X, y)
    assert narrow.certificate_.penalty == 0.0
    assert narrow.certificate_.linear_penalty > 0  # the classes can be separated


def test_a_certificate_names_the_linear_classifier_of_separable_classes():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    certificate = DenseNEstClassifier(max_epochs=2, random_state=0).fit(X, y).certificate_
    written = re.search(r"LogisticRegression\(C=(.*?)\)", str(certificate))
    linear = LogisticRegression(C=float(written[1]), tol=1e-8, max_iter=10_000).fit(X, y)
    assert certificate.linear_risk == pytest.approx(log_loss(y, linear.predict_proba(X)), rel=0.02)
    assert "a weaker ridge" in str(certificate)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [(30, "fits these samples exactly"), (100, "100 samples for 40 inputs are few"), (400, None)],
)
def test_a_certificate_warns_of_few_samples(samples, sentence):
    X = np.random.default_rng(0).normal(size=(samples, 40))
    y = X[:, 0] + np.random.default_rng(1).normal(size=samples)
    written = str(DenseNEstRegressor(max_epochs=1, ridge=np.inf).fit(X, y).certificate_)
    assert len(written.splitlines()) == (3 if sentence is None else 4)
    assert (sentence or "") in written


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_fit_does_not_depend_on_the_default_dtype(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        fitted = DenseNEstRegressor(random_state=0).fit(X, X[:, 0])
    finally:
        torch.set_default_dtype(before)
    assert fitted.score(X, X[:, 0]) > 0.9
