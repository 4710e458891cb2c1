"""Fitting the model: a logistic regression whose signs are those that reason allows."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import minimize

from bathyscope.core.errors import UsageError
from bathyscope.core.files import write_atomic
from bathyscope.core.json_values import JsonMapping
from bathyscope.foresight.model import BUDGETS, FeatureTerm, Model, StageModel
from tools.forecast_table.draw import VERSION
from tools.forecast_table.labels import outcome

Row = JsonMapping

SIGNS = {
    "depth": -1,
    "excess": -1,
    "gradient": 0,
    "gradient_range": -1,
    "update": 0,
    "update_miss": -1,
    "update_range": -1,
    "spread": 1,
    "gone": 1,
    "slope": -1,
    "spike": -1,
    "score": 1,
    "alignment": 1,
}
"""Which way a feature may weigh: deeper, steeper, wilder is never better. 0 leaves it open."""

START = (
    "depth",
    "excess",
    "gradient",
    "gradient_range",
    "update",
    "update_miss",
    "update_range",
    "spread",
)
LATER = (*START, "gone", "slope", "spike", "score", "alignment")

_PENALTY = 1.0
"""Of the squared weights, in networks: about what one network's evidence can move."""

_FEWEST = 20
_SURE = {1: 0.01, 8: 0.015, 16: 0.03, 32: 0.08}
"""How small the probability of the other outcome must be; early stages must be surer."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Networks that trained or failed within a budget, as a fit reads them."""

    values: Float[ndarray, "n d"]
    trains: Float[ndarray, " n"]


def fit(rows: Sequence[Row]) -> Model:
    """The model of some rows; the held-out ones must not be among them.

    Raises:
        UsageError: they are too few, or all of one outcome.
    """
    stages = sorted({int(step) for row in rows for step in row["features"]})
    return Model(
        BUDGETS, {step: _fit_stage(rows, step) for step in stages if step in _SURE}, _about(rows)
    )


def write_model(model: Model, path: Path) -> None:
    """Write a model as JSON that a person can read."""
    stages = {
        str(step): {
            "fails_below": stage.fails_below,
            "trains_above": stage.trains_above,
            "bias": list(stage.bias),
            "features": {name: asdict(term) for name, term in stage.terms.items()},
        }
        for step, stage in model.stages.items()
    }
    form = {"about": dict(model.about), "budgets": list(model.budgets), "stages": stages}
    write_atomic(path, (json.dumps(form, indent=1) + "\n").encode())


def names_of(step: int) -> tuple[str, ...]:
    """The features that a stage uses."""
    return START if step == 1 else LATER


def logistic_weights(
    values: Float[ndarray, "n d"],
    trains: Float[ndarray, " n"],
    *,
    signs: Sequence[int],
    penalty: float = _PENALTY,
) -> tuple[Float[ndarray, " d"], float]:
    """Weights and bias that minimize Σ log(1 + exp(−y(w·x + b))) + penalty/2 ‖w‖², y = ±1.

    Args:
        values: one row per network, standardized.
        trains: 1 or 0.
        signs: of each weight: 1, −1, or 0 for either.
        penalty: λ; the bias is free.
    """
    sign = 2 * trains - 1

    def objective(theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        weights, bias = theta[:-1], theta[-1]
        margin = sign * (values @ weights + bias)
        value = np.logaddexp(0, -margin).sum() + penalty / 2 * weights @ weights
        pull = -sign / (1 + np.exp(np.clip(margin, -500, 500)))
        return float(value), np.append(values.T @ pull + penalty * weights, pull.sum())

    bounds = [(0, None) if s > 0 else (None, 0) if s < 0 else (None, None) for s in signs]
    result = minimize(
        objective,
        np.zeros(values.shape[1] + 1),
        jac=True,
        bounds=[*bounds, (None, None)],
        method="L-BFGS-B",
    )
    return result.x[:-1], float(result.x[-1])


def examples(rows: Iterable[Row], step: int, budget: int) -> Examples:
    """The rows that trained or failed and were seen at a stage."""
    names, values, trains = names_of(step), [], []
    for row in rows:
        how, seen = outcome(row, budget), row["features"].get(str(step))
        if how == "between" or seen is None or any(name not in seen for name in names):
            continue
        values.append([seen[name] for name in names])
        trains.append(float(how == "trains"))
    return Examples(np.array(values).reshape(len(trains), len(names)), np.array(trains))


def data_hash(rows: Iterable[Row]) -> str:
    """Twelve hexadecimal digits of the SHA-256 of the rows that a model was fitted on."""
    text = json.dumps(list(rows), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _fit_stage(rows: Sequence[Row], step: int) -> StageModel:
    names = names_of(step)
    pooled = examples(rows, step, BUDGETS[1]).values
    if len(pooled) < _FEWEST:
        raise UsageError(
            f"{len(pooled)} networks with an outcome after {step} steps are too few to fit; "
            f"label at least {_FEWEST}."
        )
    low, high = np.quantile(pooled, 0.01, axis=0), np.quantile(pooled, 0.99, axis=0)
    clipped = np.clip(pooled, low, high)
    mean, scale = clipped.mean(0), np.maximum(clipped.std(0), 1e-3)
    weights, bias = [], []
    for budget in BUDGETS:
        result = examples(rows, step, budget)
        if len(set(result.trains.tolist())) < 2:
            raise UsageError(
                f"All {len(result.trains)} networks end alike within {budget} steps: "
                "there is nothing to tell apart; label more."
            )
        standard = (np.clip(result.values, low, high) - mean) / scale
        w, b = logistic_weights(standard, result.trains, signs=[SIGNS[name] for name in names])
        weights.append(w)
        bias.append(_short(b))
    terms = {
        name: FeatureTerm(
            mean=_short(mean[i]),
            scale=_short(scale[i]),
            low=_short(low[i]),
            high=_short(high[i]),
            weights=tuple(_short(w[i]) for w in weights),
        )
        for i, name in enumerate(names)
    }
    return StageModel(terms, tuple(bias), _SURE[step], 1 - _SURE[step])


def _about(rows: Sequence[Row]) -> dict[str, object]:
    """What the model was fitted on."""

    def used(key: str) -> list[str]:
        return sorted({row["draw"][key] for row in rows})

    deepest = max(v["depth"] for row in rows for v in row["features"].values())
    return {
        "version": 1,
        "law": VERSION,
        "networks": len(rows),
        "data": data_hash(rows),
        "families": used("family"),
        "tasks": used("task"),
        "optimizers": used("optimizer"),
        "most_layers": round(10**deepest),
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else 0.0
