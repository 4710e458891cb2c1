"""The data sets that scikit-learn carries, and sets that it generates."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from sklearn import datasets

Values = npt.NDArray[np.generic]
Task = Literal["regression", "classification"]


@dataclass(frozen=True, slots=True)
class ScikitSet:
    """A set without a download.

    Attributes:
        task: what is predicted.
        draw: inputs and targets; takes `random_state` if it is generated.
        generated: whether a seed re-initializes it.
        nonlinear: whether the law that generates it is.
    """

    task: Task
    draw: Callable[..., tuple[Values, Values]]
    generated: bool = True
    nonlinear: bool = True

    def load(self, seed: int) -> tuple[Values, Values]:
        """Inputs and targets; those of a carried set are the same for every seed."""
        return self.draw(random_state=seed) if self.generated else self.draw()


def _carried(
    task: Task, load: Callable[..., tuple[Values, Values]], column: int | None = None
) -> ScikitSet:
    def draw() -> tuple[Values, Values]:
        X, y = load(return_X_y=True)
        return X, y if column is None else y[:, column]

    return ScikitSet(task, draw, generated=False, nonlinear=False)


_regression = partial(ScikitSet, "regression")
_classification = partial(ScikitSet, "classification")

SETS: dict[str, ScikitSet] = {
    "diabetes": _carried("regression", datasets.load_diabetes),
    "linnerud": _carried("regression", datasets.load_linnerud, column=0),
    "friedman 1": _regression(partial(datasets.make_friedman1, 1500, noise=1.0)),
    "friedman 2": _regression(partial(datasets.make_friedman2, 1500, noise=50.0)),
    "friedman 3": _regression(partial(datasets.make_friedman3, 1500, noise=0.1)),
    "s curve": _regression(partial(datasets.make_s_curve, 1500, noise=0.1)),
    "swiss roll": _regression(partial(datasets.make_swiss_roll, 1500, noise=0.5)),
    "linear": _regression(
        partial(datasets.make_regression, 800, 30, n_informative=10, noise=20), nonlinear=False
    ),
    "sparse": _regression(partial(datasets.make_sparse_uncorrelated, 800), nonlinear=False),
    "breast cancer": _carried("classification", datasets.load_breast_cancer),
    "wine": _carried("classification", datasets.load_wine),
    "iris": _carried("classification", datasets.load_iris),
    "digits": _carried("classification", datasets.load_digits),
    "moons": _classification(partial(datasets.make_moons, 1000, noise=0.25)),
    "circles": _classification(partial(datasets.make_circles, 1000, noise=0.15, factor=0.5)),
    "clusters": _classification(
        partial(datasets.make_classification, 1500, 20, n_informative=8, n_classes=4)
    ),
    "quantiles": _classification(
        partial(datasets.make_gaussian_quantiles, n_samples=1500, n_features=8, n_classes=3)
    ),
    "hastie": _classification(partial(datasets.make_hastie_10_2, 2000)),
    "blobs": _classification(
        partial(datasets.make_blobs, 800, n_features=10, centers=5, cluster_std=6), nonlinear=False
    ),
}
"""Every set by its name, those with numbers to predict first."""
