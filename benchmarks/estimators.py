"""The nonlinear estimators against scikit-learn's linear model and MLP: time to fit, and test scores.

All models stand behind the same StandardScaler and keep their default settings. Scores are R² and
accuracy on a held-out third; ranks are of the scores on each data set, 1 the best. The defaults were
chosen on the sets of this file; those of the study `nests.held_out` judge them.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import clone
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
from bathyscope.papers.nests.studies import held_out_sets
from benchmarks.interleaved import interleaved

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
    """Quality on both collections, each set and over all, then the time to fit 20,000 × 50."""
    yield from scores("chosen on", regression_sets(), classification_sets(), nonlinear=NONLINEAR)
    yield from held_out()
    yield from speed()


def held_out(seed: int = 1000) -> Iterator[dict[str, Any]]:
    """Quality on the sets that no default was chosen on; another seed re-initializes the generated ones."""
    yield from scores(
        "held out",
        held_out_sets.regression_sets(seed),
        held_out_sets.classification_sets(seed),
        nonlinear=held_out_sets.NONLINEAR,
        splits=3,
    )
    yield from scores(
        "few and separable, held out",
        iter(()),
        held_out_sets.few_and_separable_sets(seed + 2000),
        nonlinear=held_out_sets.NONLINEAR_CLASSES,
        splits=5,
    )


def scores(
    collection: str,
    regression: Iterator[held_out_sets.Named],
    classification: Iterator[held_out_sets.Named],
    *,
    nonlinear: set[str],
    splits: int = 1,
) -> Iterator[dict[str, Any]]:
    """The scores on each set of a collection, and their summary."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP's default is 200 epochs
    result: list[dict[str, Any]] = []
    for sets, models in ((regression, REGRESSORS), (classification, CLASSIFIERS)):
        for name, X, y in sets:
            result.append(quality(name, X, y, models, splits=splits) | {"collection": collection})
            yield result[-1]
    yield summary(result, nonlinear=nonlinear) | {"collection": collection}


def quality(
    name: str, X: Any, y: Any, models: dict[str, Any], *, splits: int = 1
) -> dict[str, Any]:
    """Mean test scores, and the fraction by which the test error exceeds the linear model's."""
    classes = models is CLASSIFIERS
    result: dict[str, list[float]] = {kind: [] for kind in models}
    for split in range(splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=1 / 3, random_state=split, stratify=y if classes else None
        )
        for kind, model in models.items():
            fitted = make_pipeline(StandardScaler(), clone(model)).fit(X_train, y_train)
            result[kind].append(float(fitted.score(X_test, y_test)))
    means = {kind: float(np.mean(values)) for kind, values in result.items()}
    return {
        "benchmark": "estimators",
        "case": f"test {'accuracy' if classes else 'R²'} on {name}",
        "set": name,
        "splits": splits,
        "scores": {kind: round(score, 4) for kind, score in means.items()},
        "error_over_linear": {
            kind: round((1 - score) / (1 - means["linear"]) - 1, 4) if means["linear"] < 1 else None
            for kind, score in means.items()
        },
    }


def summary(result: list[dict[str, Any]], *, nonlinear: set[str]) -> dict[str, Any]:
    """Mean ranks against the MLP alone, and the worst loss against the linear model."""
    kinds = ("DenseNEst", "AugmentedResNEst", "ResNEst")
    ranks, lost, better = {}, {}, {}
    for kind in kinds:
        pairs = [(line["scores"][kind], line["scores"]["MLP"]) for line in result]
        ours = np.mean([1 + (a < b) + 0.5 * (a == b) for a, b in pairs])
        ranks[kind] = {"own": round(float(ours), 3), "MLP": round(float(3 - ours), 3)}
        lost[kind] = _worst(result, kind)
        beaten = [
            line["set"]
            for line in result
            if line["set"] in nonlinear and line["scores"][kind] <= line["scores"]["linear"]
        ]
        better[kind] = f"{len(nonlinear) - len(beaten)} of {len(nonlinear)}" + (
            f", not on {', '.join(beaten)}" if beaten else ""
        )
    return {
        "benchmark": "estimators",
        "case": f"mean rank against the MLP over {len(result)} test sets",
        "mean_rank": ranks,
        "worst_against_linear": lost,
        "better_than_linear_on_nonlinear_sets": better,
    }


def _worst(result: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The sets on which the largest fraction of the linear model's score is lost.

    R² may be near zero or below, where a fraction of it means nothing: those sets are judged by the
    mean squared error instead.
    """
    losses = {}
    for line in result:
        own, linear = line["scores"][kind], line["scores"]["linear"]
        by_score = linear > _MEANINGFUL
        losses[line["set"]] = 1 - own / linear if by_score else line["error_over_linear"][kind]
    name = max(losses, key=lambda key: losses[key])
    return {
        "set": name,
        "fraction_lost": round(losses[name], 4),
        "more_than_5_percent": sorted(key for key, loss in losses.items() if loss > 0.05),
    }


_MEANINGFUL = 0.1  # R² below which a fraction of it is not a measure


def speed(
    num_samples: int = 20_000, num_features: int = 50, *, repeats: int = 3
) -> Iterator[dict[str, Any]]:
    """Time to fit each estimator and the MLP in turn, as a ratio to the MLP's: below 1 is faster."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = datasets.make_friedman1(num_samples, num_features, noise=1.0, random_state=0)
    labels = (y > np.median(y)).astype(int)
    Z = StandardScaler().fit_transform(X)
    for target, models in ((y, REGRESSORS), (labels, CLASSIFIERS)):
        fits = {
            kind: partial(model.fit, Z, target)
            for kind, model in models.items()
            if kind != "linear"
        }
        times = interleaved(fits, repeats=repeats, warmup=0)
        mlp = times.pop("MLP")
        for kind, taken in times.items():
            yield {
                "benchmark": "estimators",
                "case": f"fit {num_samples} × {num_features}, {type(models[kind]).__name__}",
                "ratio": round(mlp.ratio_to(taken), 3),
                "ratio_wall": round(taken.median_wall / mlp.median_wall, 3),
                "cpu_seconds": round(taken.median_cpu, 2),
                "mlp_cpu_seconds": round(mlp.median_cpu, 2),
                "repeats": repeats,
            }
