"""Data sets on which no default of the estimators was chosen.

The defaults were chosen while looking at the sets of `scikit_sets` and of `benchmarks.estimators`.
These differ in generator, target or size, and in seed; none needs a download. A default that is
changed after looking at the scores here needs a new collection, not a new score.
"""

import functools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from sklearn import datasets

from bathyscope.papers.nests.studies.scikit_sets import Task, Values

Named = tuple[str, Values, Values]
Pair = tuple[Values, Values]

NONLINEAR = {
    "friedman1_many_inputs", "friedman2_few", "friedman3_few", "low_rank_waves", "swiss_roll_hole",
    "steps", "waves", "digits_parity", "clusters", "moons_in_ten", "near_circles", "shells",
    "exclusive_or", "spirals", "checkerboard", "hastie_few",
}  # fmt: skip
"""Those whose generator is not linear; of measured sets nobody knows, digits' parity apart."""


def regression_sets(seed: int = 1000) -> Iterator[Named]:
    """Fourteen sets with numbers to predict."""
    rng = np.random.default_rng(seed)
    wine = datasets.load_wine().data
    yield "wine_proline", wine[:, :12], wine[:, 12]
    cancer = datasets.load_breast_cancer().data
    yield "cancer_fractal_dimension", np.delete(cancer, 9, axis=1), cancer[:, 9]
    pixels = datasets.load_digits().data
    yield "digits_lower_ink", pixels[:, :32], pixels[:, 32:].sum(axis=1)
    yield "linnerud", *datasets.load_linnerud(return_X_y=True)
    yield (
        "friedman1_many_inputs",
        *datasets.make_friedman1(600, 30, noise=2.0, random_state=seed + 1),
    )
    yield "friedman2_few", *datasets.make_friedman2(300, noise=100.0, random_state=seed + 2)
    yield "friedman3_few", *datasets.make_friedman3(300, noise=0.2, random_state=seed + 3)
    X = datasets.make_low_rank_matrix(1200, 40, effective_rank=6, random_state=seed + 4)
    X = X / X.std()
    yield "low_rank_waves", X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(0, 0.3, 1200)
    yield (
        "swiss_roll_hole",
        *datasets.make_swiss_roll(900, noise=1.0, hole=True, random_state=seed + 5),
    )
    yield (
        "linear_few_samples",
        *datasets.make_regression(150, 60, n_informative=60, noise=30, random_state=seed + 6),
    )
    yield (
        "linear_correlated",
        *datasets.make_regression(500, 20, effective_rank=5, noise=5, random_state=seed + 7),
    )
    X = rng.normal(size=(1000, 8))
    yield "steps", X, 2 * (X[:, 0] > 0.3) - (X[:, 1] > -0.5) * X[:, 2] + rng.normal(0, 0.5, 1000)
    X = rng.uniform(-2, 2, size=(1000, 6))
    yield "waves", X, np.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + rng.normal(0, 0.3, 1000)
    X = rng.normal(size=(800, 10))
    noise = rng.standard_t(3, size=800) * (0.5 + np.abs(X[:, 0]))
    yield "linear_heavy_tails", X, X @ rng.normal(size=10) + noise


def classification_sets(seed: int = 1000) -> Iterator[Named]:
    """Twelve sets with classes."""
    rng = np.random.default_rng(seed + 500)
    X, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes_above_median", X, (y > np.median(y)).astype(int)
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits_parity", X, y % 2
    yield (
        "overlapping_blobs",
        *datasets.make_blobs(800, n_features=10, centers=5, cluster_std=6, random_state=seed + 11),
    )
    yield (
        "clusters",
        *datasets.make_classification(
            1000, 30, n_informative=6, n_redundant=6, n_clusters_per_class=3, flip_y=0.05,
            random_state=seed + 12,
        ),
    )  # fmt: skip
    X, y = datasets.make_moons(600, noise=0.3, random_state=seed + 13)
    yield "moons_in_ten", np.column_stack([X, rng.normal(size=(600, 8))]), y
    yield "near_circles", *datasets.make_circles(700, noise=0.2, factor=0.6, random_state=seed + 14)
    yield (
        "shells",
        *datasets.make_gaussian_quantiles(
            n_samples=500, n_features=4, n_classes=2, random_state=seed + 15
        ),
    )
    X = rng.normal(size=(1500, 6))
    yield "exclusive_or", X, (X[:, 0] * X[:, 1] > 0).astype(int)
    t, y = rng.uniform(0.5, 3, size=800) * np.pi, rng.integers(0, 2, size=800)
    arms = np.column_stack([t * np.cos(t + np.pi * y), t * np.sin(t + np.pi * y)])
    yield "spirals", arms + rng.normal(0, 0.4, size=arms.shape), y
    X = rng.uniform(0, 4, size=(1500, 2))
    yield "checkerboard", X, (np.floor(X).sum(axis=1) % 2).astype(int)
    yield "hastie_few", *datasets.make_hastie_10_2(600, random_state=seed + 16)
    X = rng.normal(size=(400, 25))
    logits = X @ rng.normal(size=(25, 3))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    yield "linear_logits", X, np.array([rng.choice(3, p=p) for p in chances])


NONLINEAR_CLASSES = {"curved_margin", "ring_among_many"}
"""Those of `few_and_separable_sets` whose law is not linear."""


def few_and_separable_sets(seed: int = 3000) -> Iterator[Named]:
    """Fourteen sets with classes, few samples or classes that a linear predictor separates or nearly.

    Their ridge is chosen by rules of its own (`bathyscope.estimators.fitting.choose_ridges`), which
    were chosen on the sets of `benchmarks.estimators` and five generated ones that are not here.
    """
    yield from _parts_of_measured_sets()
    rng = np.random.default_rng(seed)
    yield (
        "many_inputs",
        *datasets.make_classification(200, 100, n_informative=8, random_state=seed + 1),
    )
    yield (
        "separated_blobs",
        *datasets.make_blobs(300, n_features=6, centers=4, cluster_std=2.5, random_state=seed + 2),
    )
    X = rng.normal(size=(250, 15))
    yield "margin", X, (X @ rng.normal(size=15) > 0).astype(int)
    X = rng.normal(size=(300, 10))
    yield "three_margins", X, (X @ rng.normal(size=(10, 3))).argmax(axis=1)
    yield "waveforms", *_waveforms(rng, 600)
    X = rng.normal(size=(500, 8))
    yield "curved_margin", X, (X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.5).astype(int)
    X = rng.normal(size=(800, 12))
    radius = (X[:, :3] ** 2).sum(axis=1)
    yield "ring_among_many", X, (radius > np.median(radius)).astype(int)


def _parts_of_measured_sets() -> Iterator[Named]:
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits_three_or_eight", *_choose_rows(X, y, np.isin(y, (3, 8)))
    yield "digits_few", X[900:1200], y[900:1200]
    X, y = datasets.load_wine(return_X_y=True)
    yield "wine_few", X[::2], y[::2]
    yield "wine_two", *_choose_rows(X, y, y < 2)
    X, y = datasets.load_iris(return_X_y=True)
    yield "iris_two", *_choose_rows(X, y, slice(50, None))
    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "cancer_means", X[:, :10], y
    yield "cancer_few", X[:150], y[:150]


def _choose_rows(X: Values, y: Values, rows: npt.NDArray[np.bool_] | slice) -> Pair:
    return X[rows], y[rows]


def _waveforms(rng: np.random.Generator, n: int) -> Pair:
    """Three classes, each a random mixture of two of three triangles, with noise (Breiman, 1984)."""
    t = np.arange(21)
    peaks = np.array([np.maximum(6 - abs(t - center), 0) for center in (6, 14, 10)])
    y = rng.integers(0, 3, n)
    u = rng.uniform(size=(n, 1))
    return u * peaks[y] + (1 - u) * peaks[(y + 1) % 3] + rng.normal(size=(n, 21)), y


@functools.lru_cache(maxsize=1)
def collection() -> dict[str, tuple[Task, Values, Values]]:
    """All of them by name, in the one draw that is scored: task, inputs, targets."""
    result: dict[str, tuple[Task, Values, Values]] = {}
    result |= {name: ("regression", X, y) for name, X, y in regression_sets()}
    result |= {name: ("classification", X, y) for name, X, y in classification_sets()}
    return result | {name: ("classification", X, y) for name, X, y in few_and_separable_sets()}
