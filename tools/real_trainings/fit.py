"""Fit the model of real trainings, and score it with one task, kind or family left out."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from bathyscope.core.json_values import JsonObject
from bathyscope.foresight.curve_model import CurveModel
from bathyscope.foresight.forest import Forest
from tools.real_trainings.examples import Example, decade_gains

TREES, DEPTH, LEAF = 80, 9, 3
TREES_OF_FAILS = 160
CLEAR = (-0.6, 0.8)
"""Progress beyond these is as clear a failure and as clear a training as any."""

GAIN = 0.1
"""Of the loss's scale: what another rate must gain to count as one that helps."""

INSIDE = 0.975
"""Fraction of the table's rows that are inside, each measured against the other tasks."""

CALIBRATED = 0.78
"""Of the errors of forests that miss a fifth of the tasks: those of the forests that are saved are smaller,
so that an interval of this many holds 80 % of the ends of a task that was left out."""

FOLDS = 5
"""Of tasks: the errors that an interval is calibrated on are of forests that have not seen the task."""

Group = Callable[[Example], str]


def by_task(example: Example) -> str:
    """The task: rows of one are left out together."""
    return example.case.task


def fit(examples: Sequence[Example]) -> CurveModel:
    """The model of some examples; the held-out ones must not be among them."""
    known = [e for e in examples if e.features is not None]
    names = tuple(known[0].features or ())
    rows = matrix(known, names)
    ends = np.array([e.end for e in known])
    last = np.array([e.naive["last value"] for e in known])
    fails = np.array([e.label.label == "fails" for e in known])
    lags = np.array([e.label.label == "lags" for e in known])
    groups = np.array([by_task(e) for e in known])
    folds = np.searchsorted(np.unique(groups), groups) % FOLDS
    said = left_out_ends(rows, ends, last, folds)
    errors = np.abs(said - ends)
    wide = np.column_stack([rows, said])
    widths = left_out(wide, errors[:, None], folds)[:, 0]
    center, scale = np.median(rows, 0), np.maximum(rows.std(0), 1e-3)
    placed = ((rows - center) / scale).astype(np.float16)
    forests = {
        "fails": _forest_of_fails(known, rows),
        "lags": forest(rows[~fails], lags[~fails, None].astype(float)),
        "end": forest(rows, ends[:, None]),
        "change": forest(rows, (ends - last)[:, None]),
        "width": forest(wide, errors[:, None]),
    }
    for sign, decade in ((-1, "down"), (1, "up")):
        pairs = decade_gains(known, sign)
        gains = np.array([[np.clip(gain, -2, 2), float(gain > GAIN)] for _, gain in pairs])
        forests[f"gain {decade}"] = forest(matrix([e for e, _ in pairs], names), gains)
    return CurveModel(
        names=names,
        forests=forests,
        quantile=conformal_half_width(errors / np.maximum(widths, 0.02), CALIBRATED),
        center=center,
        scale=scale,
        rows=placed,
        farthest=_farthest(placed, groups),
        about=_about(known),
    )


def _forest_of_fails(known: Sequence[Example], rows: np.ndarray) -> Forest:
    """Trees that say whether it fails; each training is shown with both curves that there are of it.

    The order of the batches is chance: a split that parts one curve and not the other is noise.
    """
    names = tuple(known[0].features or ())
    progress = np.clip([e.label.progress for e in known], *CLEAR)
    # trees that also have to part progress split where the border of failing is not just noise
    answers = np.column_stack([_fails_of_seeds(known), progress])
    second = [i for i, example in enumerate(known) if example.again is not None]
    again = np.array([[(known[i].again or {})[name] for name in names] for i in second])
    return forest(
        np.concatenate([rows, again.reshape(-1, len(names))]),
        np.concatenate([answers, answers[second]]),
        of_features=1.0,
        trees=TREES_OF_FAILS,
    )


def conformal_half_width(errors: np.ndarray, level: float = 0.8) -> float:
    """The ⌈level·(n + 1)⌉-th smallest of n errors: split-conformal half width."""
    rank = int(np.ceil(level * (len(errors) + 1)))
    return float(np.sort(errors)[min(rank, len(errors)) - 1])


def matrix(examples: Sequence[Example], names: Sequence[str]) -> np.ndarray:
    """One row an example."""
    return np.array([[(e.features or {})[name] for name in names] for e in examples])


def _fails_of_seeds(examples: Sequence[Example]) -> np.ndarray:
    """Fraction of the seeds of each case that fail: at the border of failing one seed is a coin's toss."""
    seeds: dict[str, list[bool]] = defaultdict(list)
    for example in examples:
        seeds[example.case.id].append(example.label.label == "fails")
    return np.array([np.mean(seeds[example.case.id]) for example in examples])


def forest(
    rows: np.ndarray, answers: np.ndarray, *, of_features: float = 0.5, trees: int = TREES
) -> Forest:
    """Extremely randomized trees as arrays; each split chooses among a fraction of the features."""
    fitted = ExtraTreesRegressor(
        trees, min_samples_leaf=LEAF, max_depth=DEPTH, max_features=of_features, random_state=0
    ).fit(rows, answers.ravel() if answers.shape[1] == 1 else answers)
    parts, roots, start = [], [], 0
    for tree in (t.tree_ for t in fitted.estimators_):
        roots.append(start)
        inner = tree.feature >= 0
        parts.append(
            (
                np.where(inner, tree.feature, -1).astype(np.int16),
                # a row is compared as float32 in the fit
                tree.threshold.astype(np.float32),
                np.where(inner, tree.children_left + start, 0).astype(np.int32),
                np.where(inner, tree.children_right + start, 0).astype(np.int32),
                tree.value[:, :, 0].astype(np.float32),
            )
        )
        start += tree.node_count
    feature, threshold, left, right, value = map(np.concatenate, zip(*parts, strict=True))
    return Forest(feature, threshold, left, right, value, np.array(roots, dtype=np.int32))


def left_out(rows: np.ndarray, answers: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """What forests say that have not seen a row's group."""
    said = np.zeros(answers.shape)
    for name in np.unique(groups):
        is_out = groups == name
        fitted = forest(rows[~is_out], answers[~is_out])
        said[is_out] = [fitted.predict(row) for row in rows[is_out]]
    return said


def left_out_ends(
    rows: np.ndarray, ends: np.ndarray, last: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Ends said by forests that have not seen a row's group, as `CurveModel.expected_end` says them."""
    change = left_out(rows, (ends - last)[:, None], groups)[:, 0]
    direct = left_out(rows, ends[:, None], groups)[:, 0]
    return 0.5 * (last + change) + 0.5 * direct


def _farthest(placed: np.ndarray, groups: np.ndarray) -> float:
    """The distance within which most of the table lies, each row against the other tasks'."""
    distances = []
    for row, group in zip(placed.astype(np.float64), groups, strict=True):
        apart = np.minimum(np.abs(placed[groups != group].astype(np.float64) - row), 6.0)
        distances.append(float(np.sqrt(np.sort(np.square(apart).mean(1))[4])))
    return float(np.quantile(distances, INSIDE))


def _about(examples: Sequence[Example]) -> JsonObject:
    text = json.dumps([(e.case.id, e.seed, e.label.label, round(e.end, 6)) for e in examples])
    return {
        "trainings": len(examples),
        "tasks": sorted({e.case.task for e in examples}),
        "kinds": sorted({e.case.kind for e in examples}),
        "data": hashlib.sha256(text.encode()).hexdigest()[:12],
    }
