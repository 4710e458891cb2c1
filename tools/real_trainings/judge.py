"""Compare extrapolations of the end of a training, with one task left out at a time.

Every prediction is of a row whose task the fitted regressor has not seen, and its interval is
calibrated on the errors for the other tasks (cross-conformal: those were predicted by regressors
that had seen this task).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.metrics import roc_auc_score

from tools.real_trainings.extrapolation import METHODS
from tools.real_trainings.rows import Row

LEVEL = 0.8
TREES = 100


@dataclass(frozen=True)
class Score:
    """How well a method says the end.

    Attributes:
        method: its name.
        error: median absolute error of the relative loss.
        mean_error: mean absolute error.
        rank: Spearman's correlation with the true end.
        coverage: fraction of the ends inside the 80 % interval.
        width: median width of that interval.
    """

    method: str
    error: float
    mean_error: float
    rank: float
    coverage: float
    width: float


def compare(rows: list[Row], group: Callable[[Row], str] = lambda row: row.task) -> list[Score]:
    """Scores of the naive methods and of the fitted one, with one group of rows left out."""
    groups = np.array([group(row) for row in rows])
    ends = np.array([row.end for row in rows])
    difficulty = np.ones(len(rows))
    scores = []
    for name in METHODS:
        said = np.array([row.naive[name] for row in rows])
        scores.append(_score(name, said, ends, difficulty, groups))
    said = left_out_predictions(rows, groups)
    scores.append(_score("fitted trees", said, ends, difficulty, groups))
    widths = left_out_widths(rows, groups, said)
    scores.append(_score("fitted trees, own width", said, ends, widths, groups))
    return scores


def left_out_predictions(rows: list[Row], groups: np.ndarray) -> np.ndarray:
    """Ends predicted by trees that have not seen the row's group.

    The mean of two: one predicts the change from the last value, so that where it knows nothing
    nothing changes; the other predicts the end itself, which is better where most is still to come.
    """
    features = np.stack([row.features for row in rows])
    last = np.array([row.naive["last value"] for row in rows])
    ends = np.array([row.end for row in rows])
    said = np.zeros(len(rows))
    for name in np.unique(groups):
        is_out = groups == name
        change = _trees().fit(features[~is_out], (ends - last)[~is_out])
        direct = _trees().fit(features[~is_out], ends[~is_out])
        said[is_out] = 0.5 * (last[is_out] + change.predict(features[is_out]))
        said[is_out] += 0.5 * direct.predict(features[is_out])
    return said


def left_out_widths(rows: list[Row], groups: np.ndarray, said: np.ndarray) -> np.ndarray:
    """The absolute error to be expected of each prediction, by trees without the row's group."""
    features = np.column_stack([[row.features for row in rows], said])
    errors = np.abs(said - [row.end for row in rows])
    widths = np.zeros(len(rows))
    for name in np.unique(groups):
        is_out = groups == name
        widths[is_out] = _trees().fit(features[~is_out], errors[~is_out]).predict(features[is_out])
    # no training is known better than to the noise of its own end
    return np.maximum(widths, 0.02)


def _trees() -> ExtraTreesRegressor:
    return ExtraTreesRegressor(TREES, min_samples_leaf=3, max_features=0.5, random_state=0)


def _score(
    name: str, said: np.ndarray, ends: np.ndarray, spread: np.ndarray, groups: np.ndarray
) -> Score:
    errors = np.abs(said - ends)
    is_inside, widths = np.zeros(len(ends), dtype=bool), np.zeros(len(ends))
    for group in np.unique(groups):
        is_out = groups == group
        half = conformal_half_width(errors[~is_out] / spread[~is_out]) * spread[is_out]
        is_inside[is_out] = errors[is_out] <= half
        widths[is_out] = 2 * half
    return Score(
        name,
        float(np.median(errors)),
        float(errors.mean()),
        float(spearmanr(said, ends).statistic),
        float(is_inside.mean()),
        float(np.median(widths)),
    )


def conformal_half_width(errors: np.ndarray, level: float = LEVEL) -> float:
    """The ⌈level·(n + 1)⌉-th smallest of n errors: split-conformal half width."""
    rank = int(np.ceil(level * (len(errors) + 1)))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def failure_scores(rows: list[Row]) -> dict[str, float]:
    """AUROC of "fails", with one task left out: by the last value, and by fitted trees."""
    groups = np.array([row.task for row in rows])
    fails = np.array([row.label.label == "fails" for row in rows])
    features = np.stack([row.features for row in rows])
    chance = np.zeros(len(rows))
    for name in np.unique(groups):
        is_out = groups == name
        trees = ExtraTreesClassifier(TREES, min_samples_leaf=3, max_features=0.5, random_state=0)
        trees.fit(features[~is_out], fails[~is_out])
        chance[is_out] = trees.predict_proba(features[is_out])[:, 1]
    last = [row.naive["last value"] for row in rows]
    decided = (chance <= 0.1) | (chance >= 0.9)
    wrong = decided & ((chance >= 0.5) != fails)
    return {
        "last value": float(roc_auc_score(fails, last)),
        "fitted trees": float(roc_auc_score(fails, chance)),
        "decided": float(decided.mean()),
        "wrong of decided": float(wrong.sum() / max(1, decided.sum())),
    }
