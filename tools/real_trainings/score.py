"""How good the forecast of real trainings is on tasks, kinds and families that it was not fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bathyscope.core.json_values import JsonObject
from bathyscope.foresight.curve_model import SURE, CurveModel
from bathyscope.foresight.extrapolation import HIGHEST_END
from tools.forecast_table.score import Count, auroc
from tools.real_trainings.examples import Example
from tools.real_trainings.fit import conformal_half_width, fit

NAIVE = ("last value", "power law")
SMALL = 28_000
"""Parameters; the largest network of the table has six times as many."""

DRAWS = 400
"""Of networks, for the interval of an AUROC: the settings and seeds of one are not independent."""


@dataclass(frozen=True)
class Said:
    """What a model that never saw a training's group says of it.

    Attributes:
        example: the training.
        fails, lags: their probabilities; a look-ahead that became non-finite fails for certain.
        interval: of the relative loss at the end; None where the look-ahead became non-finite.
        naive: the intervals of simple methods, calibrated on the trainings of the other groups.
        is_inside: of the table.
    """

    example: Example
    fails: float
    lags: float
    interval: tuple[float, float] | None
    naive: dict[str, tuple[float, float]]
    is_inside: bool


def say(model: CurveModel, fitted_on: Sequence[Example], example: Example) -> Said:
    """What a model says of one training."""
    if example.features is None:
        return Said(example, 1.0, 0.0, None, {}, True)
    outlook = model.outlook(example.features)
    low, _, high = outlook.end
    naive = {}
    for name in NAIVE:
        errors = [abs(e.naive[name] - e.end) for e in fitted_on if e.features is not None]
        half, said = conformal_half_width(np.array(errors)), example.naive[name]
        naive[name] = said - half, said + half
    chance = outlook.probabilities
    return Said(example, chance["fails"], chance["lags"], (low, high), naive, outlook.distance <= 1)


def score(examples: Sequence[Example], key: str) -> JsonObject:
    """How models do that were fitted without the trainings of the same `key` of their case."""
    result = []
    for group in sorted({getattr(e.case, key) for e in examples}):
        others = [e for e in examples if getattr(e.case, key) != group]
        model = fit(others)
        result += [say(model, others, e) for e in examples if getattr(e.case, key) == group]
    return {"left out": key} | summarize(result)


def score_held_out(fitted_on: Sequence[Example], held_out: Sequence[Example]) -> JsonObject:
    """How the model of all other trainings does on those that were kept to the end."""
    model = fit(fitted_on)
    return {"left out": "kept to the end"} | summarize([say(model, fitted_on, e) for e in held_out])


def score_larger(examples: Sequence[Example], most: int = SMALL) -> JsonObject:
    """How a model of networks of few parameters does on those of two to ten times as many."""
    small = [e for e in examples if e.course.num_parameters <= most]
    large = [e for e in examples if 2 * most < e.course.num_parameters <= 10 * most]
    model = fit(small)
    said = [say(model, small, e) for e in large]
    return {"left out": f"more than {most} parameters"} | summarize(said)


def summarize(result: Sequence[Said]) -> JsonObject:
    """AUROC of fails, decided and wrong; coverage and width of the intervals."""
    labels = [s.example.label.label for s in result]
    fails = [label == "fails" for label in labels]
    decided = [s for s in result if s.fails >= SURE or s.fails <= 1 - SURE]
    wrong = [s for s in decided if (s.fails >= SURE) != (s.example.label.label == "fails")]
    known = [s for s in result if s.interval is not None]
    finite = [s.interval is not None for s in result]
    return {
        "trainings": len(result),
        "train, lag, fail": [labels.count(name) for name in ("trains", "lags", "fails")],
        "non-finite in the look-ahead": len(result) - len(known),
        "auroc of fails": round(auroc([s.fails for s in result], fails), 3),
        "auroc of fails, finite": round(
            auroc([s.fails for s in known], [f for f, ok in zip(fails, finite, strict=True) if ok]),
            3,
        ),
        **_within_chance(result),
        "auroc of lags among those that do not fail": round(
            auroc(
                [s.lags for s in result if s.example.label.label != "fails"],
                [label == "lags" for label in labels if label != "fails"],
            ),
            3,
        ),
        "decided": str(Count(len(decided), len(result))),
        "wrong": str(Count(len(wrong), len(decided))),
        "wrong ones": [s.example.case.id for s in wrong],
        "inside": str(Count(sum(s.is_inside for s in result), len(result))),
        "interval": _coverage([(s.interval, s.example.end) for s in known if s.interval]),
        **{
            f"interval of {name}": _coverage([(s.naive[name], s.example.end) for s in known])
            for name in NAIVE
        },
    }


def _within_chance(result: Sequence[Said]) -> JsonObject:
    """What chance leaves of the AUROC of fails: its interval, and what the other seed's training says.

    A failure that the other seed of the same case does not share cannot be seen in what they share.
    """
    ends = {(s.example.case.id, s.example.seed): s.example.label for s in result}
    pairs = [
        (s, other) for s in result if (other := ends.get((s.example.case.id, 1 - s.example.seed)))
    ]
    alike = [s for s, other in pairs if _fails(s) == (other.label == "fails")]
    networks = sorted({s.example.case.network_id for s in result})
    rows = [[s for s in result if s.example.case.network_id == name] for name in networks]
    drawn = []
    for chosen in np.random.default_rng(0).integers(len(rows), size=(DRAWS, len(rows))):
        some = [s for i in chosen for s in rows[i]]
        drawn.append(auroc([s.fails for s in some], [_fails(s) for s in some]))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return {
        "auroc of fails, 95 %": [round(float(low), 3), round(float(high), 3)],
        "same in both seeds": len(alike),
        "auroc of fails, same in both seeds": round(
            auroc([s.fails for s in alike], [_fails(s) for s in alike]), 3
        ),
        "auroc of the other seed's end": round(
            auroc([-other.progress for _, other in pairs], [_fails(s) for s, _ in pairs]), 3
        ),
        "auroc of the other seed's label": round(
            auroc([other.label == "fails" for _, other in pairs], [_fails(s) for s, _ in pairs]), 3
        ),
    }


def _fails(said: Said) -> bool:
    return said.example.label.label == "fails"


def _coverage(pairs: Sequence[tuple[tuple[float, float], float]]) -> JsonObject:
    """Fraction of the ends inside, and the median width within the range of ends."""
    inside = sum(low <= end <= high for (low, high), end in pairs)
    widths = [min(high, HIGHEST_END) - max(low, -1.5) for (low, high), _ in pairs]
    return {"coverage": str(Count(inside, len(pairs))), "width": round(float(np.median(widths)), 3)}
