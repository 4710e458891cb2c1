"""The calibrated model: a readable file of numbers, and the probability it gives to a reading."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import JsonMapping

FILE = "model.json"

BUDGETS = (100, 300, 1000)
"""Steps after which the trainings of the table were scored."""

TRAINED, FAILED = 0.8, 0.5
"""A training trains where its score reaches the first in both seeds, fails below the second in both."""


@dataclass(frozen=True, slots=True)
class FeatureTerm:
    """One feature's part in a stage.

    Attributes:
        mean, scale: of the feature in the table: a weight is that of (value − mean)/scale.
        low, high: smallest and largest of the table but for one in a hundred; a value beyond counts
            as this.
        weights: one a budget.
    """

    mean: float
    scale: float
    low: float
    high: float
    weights: tuple[float, ...]

    def standard(self, value: float) -> float:
        """The value against the table."""
        return (min(self.high, max(self.low, value)) - self.mean) / self.scale


@dataclass(frozen=True, slots=True)
class StageModel:
    """What a forecast makes of the features after some steps.

    Attributes:
        terms: by feature.
        bias: one a budget.
        fails_below, trains_above: the probabilities at which it is sure.
    """

    terms: Mapping[str, FeatureTerm]
    bias: tuple[float, ...]
    fails_below: float
    trains_above: float

    def contributions(self, values: Mapping[str, float], location: int) -> dict[str, float]:
        """What each feature adds to the logit, against the table's mean, at the place of a budget."""
        return {
            name: term.weights[location] * term.standard(values[name])
            for name, term in self.terms.items()
        }


@dataclass(frozen=True, slots=True)
class Model:
    """The forecast's numbers.

    Attributes:
        budgets: steps for which the table was labeled.
        stages: by steps taken.
        about: version, networks, hash of the data, families, tasks, largest depth and so on.
    """

    budgets: tuple[int, ...]
    stages: Mapping[int, StageModel]
    about: JsonMapping

    def logit(self, step: int, values: Mapping[str, float], budget: int) -> float:
        """log p/(1 − p) of training within a budget, between two budgets linear in log(budget)."""
        return sum(self.contributions(step, values, budget).values())

    def contributions(
        self, step: int, values: Mapping[str, float], budget: int
    ) -> dict[str, float]:
        """The parts of the logit by feature, and `bias`."""
        stage = self.stages[step]
        parts = dict.fromkeys([*stage.terms, "bias"], 0.0)
        for location, fraction in self._fractions(budget):
            parts["bias"] += fraction * stage.bias[location]
            for name, value in stage.contributions(values, location).items():
                parts[name] += fraction * value
        return parts

    def probability(self, step: int, values: Mapping[str, float], budget: int) -> float:
        """Of training within a budget."""
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.logit(step, values, budget)))))

    def _fractions(self, budget: int) -> Sequence[tuple[int, float]]:
        if budget <= self.budgets[0]:
            return [(0, 1.0)]
        for location, (low, high) in enumerate(pairwise(self.budgets)):
            if budget <= high:
                fraction = math.log(budget / low) / math.log(high / low)
                return [(location, 1 - fraction), (location + 1, fraction)]
        return [(len(self.budgets) - 1, 1.0)]


def read_model(text: str, *, source: str = "The model") -> Model:
    """The model of a JSON text.

    Raises:
        UsageError: it is none.
    """
    try:
        form = json.loads(text)
        stages = {
            int(step): StageModel(
                {
                    name: FeatureTerm(
                        mean=term["mean"],
                        scale=term["scale"],
                        low=term["low"],
                        high=term["high"],
                        weights=tuple(term["weights"]),
                    )
                    for name, term in stage["features"].items()
                },
                tuple(stage["bias"]),
                stage["fails_below"],
                stage["trains_above"],
            )
            for step, stage in form["stages"].items()
        }
        return Model(tuple(form["budgets"]), stages, form["about"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{source} is not a forecast model ({type(error).__name__}: {error}); install the package again."
        ) from None


@cache
def standard_model() -> Model:
    """The model that comes with the package."""
    text = resources.files("bathyscope.foresight").joinpath(FILE).read_text(encoding="utf-8")
    return read_model(text, source=FILE)
