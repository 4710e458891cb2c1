"""The fitted model of real trainings: probabilities of each outcome, the loss at the end, and its domain."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonMapping
from bathyscope.foresight.extrapolation import HIGHEST_END, LOWEST
from bathyscope.foresight.forest import Forest

FILE = "curves.npz"
OUTCOMES = ("trains", "lags", "fails")
DECADES = ("down", "up")
_FORESTS = ("fails", "lags", "end", "change", "width", "gain down", "gain up")

SURE = 0.9
"""Probability of an outcome at which it is the verdict."""

ROOM = {"depth": 0.31, "parameters": 1.0, "batch": 0.31, "budget": 0.31}
"""By logarithm of a size, how far beyond the table's it may lie: a factor of two, of ten for parameters.

A model of the table's networks of up to 28,000 parameters said of those 2 to 6 times as large: AUROC of fails
.93, 0 of 28 decided ones wrong, 44 of 47 ends in the interval (`README` of tools/real_trainings).
"""

WIDEST = 2.0
"""An interval outside of the domain is this many times as wide."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the model says of a course.

    Attributes:
        probabilities: of each outcome.
        end: the relative loss at the end of the budget, with its 80 % interval.
        gains: by decade of the learning rate, the relative loss gained and the probability that it is
            more than a tenth.
        distance: to the table, in units of the farthest that is still inside; above 1 is outside.
        farthest: features that lie farthest from the table's, with their values.
        contributions: how much each feature moved the probability that it fails.
    """

    probabilities: Mapping[str, float]
    end: tuple[float, float, float]
    gains: Mapping[str, tuple[float, float]]
    distance: float
    farthest: tuple[tuple[str, float], ...]
    contributions: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CurveModel:
    """Forests over the features of a course, and the table's rows to measure distances to.

    Attributes:
        names: of the features, in order.
        forests: by what they say.
        quantile: of the errors of the end, in units of the width that was said, at 80 %.
        center, scale: of each feature in the table.
        rows: the table, standardized.
        farthest: the distance to the table beyond which a training is outside.
        about: number of trainings, tasks, hash of the data.
    """

    names: tuple[str, ...]
    forests: Mapping[str, Forest]
    quantile: float
    center: Float[ndarray, " d"]
    scale: Float[ndarray, " d"]
    rows: Float[ndarray, "n d"]
    farthest: float
    about: JsonMapping

    def outlook(self, features: Mapping[str, float]) -> Outlook:
        """What it says of the features of a course."""
        row = np.array([features[name] for name in self.names], dtype=np.float64)
        chance = self.chance(row)
        end, half = self.expected_end(row, features["said by last value"])
        distance, apart = self.distance(row)
        if distance > 1:
            half *= WIDEST
            # nothing is known that the table does not show: half of what is said is its mean
            usual = _outcomes(*(_mean(self.forests[name]) for name in ("fails", "lags")))
            chance = 0.5 * (chance + usual)
        moved = self.forests["fails"].contributions(row, 0)
        return Outlook(
            probabilities=dict(zip(OUTCOMES, map(float, chance), strict=True)),
            end=(max(LOWEST, end - half), end, min(HIGHEST_END, end + half)),
            gains={d: self._gain(d, row) for d in DECADES},
            distance=distance,
            farthest=tuple((self.names[i], float(row[i])) for i in np.argsort(-apart)[:2]),
            contributions=dict(zip(self.names, map(float, moved), strict=True)),
        )

    def chance(self, row: Float[ndarray, " d"]) -> Float[ndarray, " 3"]:
        """Probabilities of the outcomes, in their order.

        A forest of its own says whether it fails, another whether it lags if it does not: trees that
        have to part three outcomes at once split for the more frequent border between the other two.
        """
        fails, lags = (float(self.forests[name].predict(row)[0]) for name in ("fails", "lags"))
        return _outcomes(fails, lags)

    def expected_end(self, row: Float[ndarray, " d"], last: float) -> tuple[float, float]:
        """The relative loss at the end and half the width of its 80 % interval.

        The mean of two: one says the change from the last value, so that where it knows nothing
        nothing changes; the other the end itself, which is better where most is still to come.
        """
        change = float(self.forests["change"].predict(row)[0])
        direct = float(self.forests["end"].predict(row)[0])
        end = 0.5 * (last + change) + 0.5 * direct
        width = float(self.forests["width"].predict(np.append(row, end))[0])
        return end, self.quantile * max(width, 0.02)

    def distance(self, row: Float[ndarray, " d"]) -> tuple[float, Float[ndarray, " d"]]:
        """How far a row lies from the table: its fifth nearest row, in units of the farthest inside.

        Also how far each feature is from the nearest rows'.
        """
        place = (row - self.center) / self.scale
        rows = self.rows.astype(np.float64)
        apart = np.abs(rows - place)
        # one feature far away counts as a few and not as all
        squared = np.square(np.minimum(apart, 6.0)).mean(1)
        nearest = np.argsort(squared)[:5]
        far = apart[nearest].min(0)
        whole = math.sqrt(float(squared[nearest[-1]])) / self.farthest
        # a network of quite another size is outside, however usual its curve looks
        for name, room in ROOM.items():
            i = self.names.index(name)
            beyond = max(rows[:, i].min() - place[i], place[i] - rows[:, i].max()) * self.scale[i]
            if beyond > room:
                whole = max(whole, float(beyond) / room)
                far[i] = math.inf
        return whole, far

    def _gain(self, decade: str, row: Float[ndarray, " d"]) -> tuple[float, float]:
        gain, probability = self.forests[f"gain {decade}"].predict(row)
        return float(gain), float(probability)


def _outcomes(fails: float, lags: float) -> Float[ndarray, " 3"]:
    """Probabilities of the outcomes from those of failing, and of lagging where it does not fail."""
    return np.array([(1 - fails) * (1 - lags), (1 - fails) * lags, fails])


def _mean(forest: Forest) -> float:
    """Of the first answer, over all rows that it was fitted on."""
    return float(forest.value[forest.roots, 0].mean())


def read_curve_model(arrays: Mapping[str, ndarray], *, source: str = "The model") -> CurveModel:
    """The model of saved arrays.

    Raises:
        UsageError: they are none.
    """
    try:
        form = json.loads(bytes(arrays["form"].tobytes()).decode())
        return CurveModel(
            names=tuple(form["names"]),
            forests={name: Forest.of_arrays(name, arrays) for name in _FORESTS},
            quantile=form["quantile"],
            center=arrays["center"],
            scale=arrays["scale"],
            rows=arrays["rows"],
            farthest=form["farthest"],
            about=form["about"],
        )
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"{source} is not a forecast model ({type(error).__name__}: {error}); install the package again."
        ) from None


def arrays_of(model: CurveModel) -> dict[str, ndarray]:
    """The arrays of a model, to be saved."""
    form = {
        "names": list(model.names),
        "quantile": model.quantile,
        "farthest": model.farthest,
        "about": dict(model.about),
    }
    result: dict[str, ndarray] = {
        "form": np.frombuffer(json.dumps(form).encode(), dtype=np.uint8),
        "center": model.center,
        "scale": model.scale,
        "rows": model.rows,
    }
    for name, forest in model.forests.items():
        result |= forest.arrays(name)
    return result


@cache
def standard_curve_model() -> CurveModel:
    """The model that comes with the package."""
    with resources.files("bathyscope.foresight").joinpath(FILE).open("rb") as file:
        return read_curve_model(dict(np.load(file, allow_pickle=False)), source=FILE)
