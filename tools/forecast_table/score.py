"""How good the forecast is on networks it was not fitted on, beside simple answers."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, rankdata

from bathyscope.core.json_values import JsonObject
from bathyscope.foresight.model import TRAINED, Model
from bathyscope.foresight.readings import STAGES, is_telling
from bathyscope.foresight.record import ForecastVerdict
from tools.forecast_table.fit import Row, fit, names_of
from tools.forecast_table.labels import AUDITED, outcome

TUNED_ON = frozenset([*range(409), *range(962, 1000)])
"""Networks that were labeled when it was chosen how sure a stage must be for a verdict."""


@dataclass(frozen=True, slots=True)
class Count:
    """This many of that many, with its binomial error.

    Examples:
        >>> str(Count(1, 102))
        '1 of 102 (1.0 %, 95 % between 0.0 and 5.3)'
    """

    part: int
    whole: int

    @property
    def fraction(self) -> float:
        """Between 0 and 1."""
        return self.part / self.whole if self.whole else math.nan

    def __str__(self) -> str:
        if not self.whole:
            return "0 of 0"
        sure = binomtest(self.part, self.whole).proportion_ci()
        return (
            f"{self.part} of {self.whole} ({100 * self.fraction:.1f} %, 95 % between "
            f"{100 * sure.low:.1f} and {100 * sure.high:.1f})"
        )


@dataclass(frozen=True, slots=True)
class Guess:
    """What a model that never saw a network says of it.

    Attributes:
        row: the network.
        probabilities: by stage; 0 from the step on at which the loss was non-finite.
        verdict: after the stages, each asked only where those before were not sure.
        spent: steps until then.
    """

    row: Row
    probabilities: Mapping[int, float]
    verdict: ForecastVerdict
    spent: int


def guesses(rows: Sequence[Row], key: str, *, budget: int) -> list[Guess]:
    """The guesses of models that were fitted without all networks of the same `key`.

    Args:
        rows: the table.
        key: of the draw: `family`, `task` or `optimizer`.
        budget: steps to train for.
    """
    result = []
    for group in sorted({row["draw"][key] for row in rows}):
        model = fit([row for row in rows if row["draw"][key] != group])
        result += [guess(model, row, budget=budget) for row in rows if row["draw"][key] == group]
    return result


def guess(model: Model, row: Row, *, budget: int) -> Guess:
    """What a model says of a row."""
    probabilities = {step: probability(model, row, step, budget) for step in STAGES}
    verdict: ForecastVerdict = "undecided"
    for spent in STAGES:
        stage, p = model.stages[spent], probabilities[spent]
        if not is_telling(spent, row["features"].get(str(spent), {})):
            continue
        if p >= stage.trains_above or p <= stage.fails_below:
            verdict = "trains" if p >= stage.trains_above else "fails"
            break
    return Guess(row, probabilities, verdict, spent)


def probability(model: Model, row: Row, step: int, budget: int) -> float:
    """Of training, after this many steps."""
    values = row["features"].get(str(step), {})
    if any(name not in values for name in names_of(step)):
        return 0.0  # its loss was non-finite before
    return model.probability(step, values, budget)


def auroc(scores: Sequence[float], trains: Sequence[bool]) -> float:
    """Chance that a network that trains has a higher score than one that fails; ties count half.

    Examples:
        >>> auroc([0.1, 0.4, 0.4, 0.9], [False, False, True, True])
        0.875
    """
    ranks, positive = rankdata(scores), np.asarray(trains, dtype=bool)
    good, bad = int(positive.sum()), int((~positive).sum())
    if not good or not bad:
        return math.nan
    return float((ranks[positive].sum() - good * (good + 1) / 2) / (good * bad))


def calibration_gap(probabilities: Sequence[float], trains: Sequence[bool]) -> float:
    """Mean difference between what was said and what came, over fifths of the probabilities."""
    p, t = np.asarray(probabilities), np.asarray(trains, dtype=float)
    fifth = np.minimum((p * 5).astype(int), 4)
    gaps = [
        abs(p[fifth == b].mean() - t[fifth == b].mean()) * (fifth == b).sum() for b in set(fifth)
    ]
    return float(sum(gaps) / len(p))


def score(
    rows: Sequence[Row], key: str, *, budget: int = 300, but: Container[int] = ()
) -> JsonObject:
    """How models do that were fitted without the networks of the same `key`.

    Args:
        rows: the table.
        key: of the draw: `family`, `task` or `optimizer`.
        budget: steps to train for.
        but: numbers that are fitted on, and not counted.
    """
    result = [g for g in guesses(rows, key, budget=budget) if g.row["number"] not in but]
    return {"left out": key} | summary(result, budget=budget)


def held_out_score(
    fitted_on: Sequence[Row], held_out: Sequence[Row], *, budget: int = 300
) -> JsonObject:
    """How the model of all other rows does on the rows that were kept for the last score."""
    model = fit(fitted_on)
    result = [guess(model, row, budget=budget) for row in held_out]
    return {"left out": "kept to the end"} | summary(result, budget=budget)


def summary(result: Sequence[Guess], *, budget: int) -> JsonObject:
    """AUROC by stage, decided and wrong, calibration and cost of some guesses."""
    clear = [g for g in result if outcome(g.row, budget) != "between"]
    trains = [outcome(g.row, budget) == "trains" for g in clear]
    decided = [g for g in clear if g.verdict != "undecided"]
    wrong = [g for g in decided if g.verdict != outcome(g.row, budget)]
    between = [g for g in result if outcome(g.row, budget) == "between"]
    last = [g.probabilities[STAGES[-1]] for g in clear]
    sure = [g for g in result if g.verdict != "undecided" and g.spent <= 8]
    return {
        "budget": budget,
        "networks": len(result),
        "train": sum(trains),
        "fail": len(trains) - sum(trains),
        "between": len(between),
        "auroc": {s: round(auroc([g.probabilities[s] for g in clear], trains), 3) for s in STAGES},
        "decided": str(Count(len(decided), len(clear))),
        "wrong": str(Count(len(wrong), len(decided))),
        "wrong networks": [g.row["number"] for g in wrong],
        "between but decided": str(
            Count(sum(g.verdict != "undecided" for g in between), len(between))
        ),
        "calibration": round(calibration_gap(last, trains), 3),
        "mean steps": round(sum(g.spent for g in result) / len(result), 1),
        "sure within 8 steps": str(Count(len(sure), len(result))),
    }


def late_events(rows: Sequence[Row]) -> dict[str, str]:
    """What no forecast of the first steps can see: trainings that had learned and lost it again.

    Counted over every training of the table (two per network), and again over those that were trained to
    the last step whatever they did.
    """

    def fell_back(some: Sequence[Row], location: int) -> str:
        had = [
            seed[-1]
            for row in some
            for seed in row["scores"]
            if seed[location] is not None and seed[location] >= TRAINED
        ]
        return str(Count(sum(end is None or end < TRAINED for end in had), len(had)))

    in_full = [row for row in rows if row["number"] % AUDITED == 0]
    return {
        "passed at step 100, not at the end": fell_back(rows, 0),
        "passed at step 300, not at the end": fell_back(rows, 1),
        "the same from step 300, trained to the end": fell_back(in_full, 1),
    }


def simple_answers(
    rows: Sequence[Row],
    *,
    budget: int = 300,
    findings: Mapping[int, Mapping[str, str]] | None = None,
) -> dict[str, float]:
    """AUROC of answers that need no model, each in its better direction, and of a second training.

    Args:
        rows: the table.
        budget: steps to train for.
        findings: of a diagnosis at the start, severity by code, by the network's number; networks
            that have none here do not count for its answer.
    """
    clear = [row for row in rows if outcome(row, budget) != "between"]
    trains = [outcome(row, budget) == "trains" for row in clear]
    answers: dict[str, Callable[[Row], float]] = {
        "depth": lambda row: -row["features"]["1"]["depth"],
        "gradient norm": lambda row: row["features"]["1"].get("gradient", -20.0),
        "gradient range": lambda row: -row["features"]["1"].get("gradient_range", 20.0),
        "χ, the gain of a layer": lambda row: -_gain(row["features"]["1"]),
        "loss ratio after 8 steps": lambda row: -_loss_ratio(row["features"].get("8", {})),
    }
    result = {
        name: _either_way(auroc([answer(row) for row in clear], trains))
        for name, answer in answers.items()
    }
    diagnosed = [row for row in clear if row["number"] in (findings or {})]
    if findings and diagnosed:
        name = f"`diagnose`'s findings at the start (of {len(diagnosed)})"
        weights = [_weight(findings[row["number"]].values()) for row in diagnosed]
        result[name] = auroc(weights, [outcome(row, budget) == "trains" for row in diagnosed])
    result["a second training (ceiling)"] = _second_training(rows, budget)
    return {name: round(value, 3) for name, value in result.items()}


def _weight(severities: Iterable[str]) -> float:
    """Minus the number of problems, then of warnings."""
    result = list(severities)
    return -(result.count("problem") + result.count("warning") / 100)


def _gain(values: Mapping[str, float]) -> float:
    """|log₁₀ χ|, χ the factor by which a layer changes the squared gradient, from the range over depth."""
    return 2 * values.get("gradient_range", 20.0) / 10 ** values["depth"]


def _loss_ratio(values: Mapping[str, float]) -> float:
    """log of the loss of the last steps against the first one's; large where it was non-finite."""
    if "gone" not in values:
        return 20.0
    return math.log(max(1 - values["gone"], 1e-6)) - values["excess"]


def _either_way(value: float) -> float:
    return max(value, 1 - value)


def _second_training(rows: Sequence[Row], budget: int) -> float:
    """AUROC of the second seed's score for what the first seed did, at 80 and 50 %."""
    location = {100: 0, 300: 1, 1000: 2}[budget]
    pairs = [(row["scores"][0][location], row["scores"][1][location]) for row in rows]
    clear = [(first, second) for first, second in pairs if first >= 0.8 or first < 0.5]
    return auroc([second for _, second in clear], [first >= 0.8 for first, _ in clear])
