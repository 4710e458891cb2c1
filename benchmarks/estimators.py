"""The nonlinear estimators against scikit-learn's linear model and MLP: time to fit, and test scores.

All models stand behind the same StandardScaler and keep their default settings. Scores are R² and
accuracy on a held-out third; ranks are of the scores on each data set, 1 the best.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bathyscope.estimators import (
    AugmentedResNEstClassifier,
    AugmentedResNEstRegressor,
    DenseNEstClassifier,
    DenseNEstRegressor,
    ResNEstClassifier,
    ResNEstRegressor,
)

REGRESSORS: dict[str, Any] = {
    "DenseNEst": DenseNEstRegressor(random_state=0),
    "AugmentedResNEst": AugmentedResNEstRegressor(random_state=0),
    "ResNEst": ResNEstRegressor(random_state=0),
    "MLP": MLPRegressor(random_state=0),
    "linear": LinearRegression(),
}
CLASSIFIERS: dict[str, Any] = {
    "DenseNEst": DenseNEstClassifier(random_state=0),
    "AugmentedResNEst": AugmentedResNEstClassifier(random_state=0),
    "ResNEst": ResNEstClassifier(random_state=0),
    "MLP": MLPClassifier(random_state=0),
    "linear": LogisticRegression(max_iter=1000),
}
NONLINEAR = {
    "friedman1", "friedman2", "friedman3", "s_curve", "swiss_roll",
    "moons", "circles", "classification", "gaussian_quantiles", "hastie",
}  # fmt: skip


def regression_sets() -> Iterator[tuple[str, Any, Any]]:
    yield "diabetes", *datasets.load_diabetes(return_X_y=True)
    yield "friedman1", *datasets.make_friedman1(1500, noise=1.0, random_state=0)
    yield "friedman2", *datasets.make_friedman2(1500, noise=50.0, random_state=0)
    yield "friedman3", *datasets.make_friedman3(1500, noise=0.1, random_state=0)
    yield "linear", *datasets.make_regression(800, 30, n_informative=10, noise=20, random_state=0)
    yield "sparse_uncorrelated", *datasets.make_sparse_uncorrelated(800, random_state=0)
    yield "s_curve", *datasets.make_s_curve(1500, noise=0.1, random_state=0)
    yield "swiss_roll", *datasets.make_swiss_roll(1500, noise=0.5, random_state=0)


def classification_sets() -> Iterator[tuple[str, Any, Any]]:
    yield "breast_cancer", *datasets.load_breast_cancer(return_X_y=True)
    yield "wine", *datasets.load_wine(return_X_y=True)
    yield "iris", *datasets.load_iris(return_X_y=True)
    yield "digits", *datasets.load_digits(return_X_y=True)
    yield "moons", *datasets.make_moons(1000, noise=0.25, random_state=0)
    yield "circles", *datasets.make_circles(1000, noise=0.15, factor=0.5, random_state=0)
    yield (
        "classification",
        *datasets.make_classification(
            1500, 20, n_informative=8, n_classes=4, n_clusters_per_class=2, random_state=0
        ),
    )
    yield (
        "gaussian_quantiles",
        *datasets.make_gaussian_quantiles(
            n_samples=1500, n_features=8, n_classes=3, random_state=0
        ),
    )
    yield "hastie", *datasets.make_hastie_10_2(2000, random_state=0)


def lines() -> Iterator[dict[str, Any]]:
    """Quality on each set and over all, then the time to fit 20,000 × 50."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP's default is 200 epochs
    found: list[dict[str, Any]] = []
    for sets, models in ((regression_sets(), REGRESSORS), (classification_sets(), CLASSIFIERS)):
        for name, X, y in sets:
            line = quality(name, X, y, models)
            found.append(line)
            yield line
    yield summary(found)
    yield from speed()


def quality(name: str, X: Any, y: Any, models: dict[str, Any]) -> dict[str, Any]:
    classes = models is CLASSIFIERS
    parts = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y if classes else None)
    X_train, X_test, y_train, y_test = parts
    scores = {}
    for kind, model in models.items():
        fitted = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
        scores[kind] = float(fitted.score(X_test, y_test))
    return {
        "benchmark": "estimators",
        "case": f"test {'accuracy' if classes else 'R²'} on {name}",
        "set": name,
        "scores": {kind: round(score, 4) for kind, score in scores.items()},
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean ranks against the MLP alone, and the worst loss against the linear model."""
    kinds = ("DenseNEst", "AugmentedResNEst", "ResNEst")
    ranks = {}
    worst = {}
    for kind in kinds:
        pairs = [(line["scores"][kind], line["scores"]["MLP"]) for line in found]
        ours = np.mean([1 + (a < b) + 0.5 * (a == b) for a, b in pairs])
        ranks[kind] = {"own": round(float(ours), 3), "MLP": round(float(3 - ours), 3)}
        losses = {
            line["set"]: 1 - line["scores"][kind] / line["scores"]["linear"]
            for line in found
            if line["scores"]["linear"] > 0
        }
        name = max(losses, key=lambda key: losses[key])
        worst[kind] = {"set": name, "share_of_score_lost": round(losses[name], 4)}
    better = {
        kind: sum(
            line["scores"][kind] > line["scores"]["linear"]
            for line in found
            if line["set"] in NONLINEAR
        )
        for kind in kinds
    }
    return {
        "benchmark": "estimators",
        "case": f"mean rank against the MLP over {len(found)} test sets",
        "mean_rank": ranks,
        "worst_against_linear": worst,
        "better_than_linear_on_nonlinear_sets": {
            k: f"{n} of {len(NONLINEAR)}" for k, n in better.items()
        },
    }


def speed(num_samples: int = 20_000, num_features: int = 50) -> Iterator[dict[str, Any]]:
    """Time to fit each estimator and the MLP, one after the other, as a ratio: below 1 is faster."""
    X, y = datasets.make_friedman1(num_samples, num_features, noise=1.0, random_state=0)
    labels = (y > np.median(y)).astype(int)
    for target, models in ((y, REGRESSORS), (labels, CLASSIFIERS)):
        Z = StandardScaler().fit_transform(X)
        cpu, wall = {}, {}
        for kind, model in models.items():
            if kind == "linear":
                continue
            began, cpu_began = time.perf_counter(), time.process_time()
            model.fit(Z, target)
            cpu[kind] = time.process_time() - cpu_began
            wall[kind] = time.perf_counter() - began
        for kind in cpu:
            if kind != "MLP":
                yield {
                    "benchmark": "estimators",
                    "case": f"fit {num_samples} × {num_features}, {type(models[kind]).__name__}",
                    "ratio": round(cpu[kind] / cpu["MLP"], 3),
                    "ratio_wall": round(wall[kind] / wall["MLP"], 3),
                    "cpu_seconds": round(cpu[kind], 2),
                    "mlp_cpu_seconds": round(cpu["MLP"], 2),
                }
