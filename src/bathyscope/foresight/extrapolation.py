"""The loss at the end of a budget, extrapolated from the first part of a curve.

Losses are relative: 0 at the constant baseline, in units of the loss's own scale, so that one
method serves cross-entropies, squared errors and negative rewards.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

Curve = np.ndarray
LOWEST, HIGHEST = -1.5, 14.0
"""Relative losses are limited to this range; 14 is a million times the scale of the loss."""

HIGHEST_END = 3.0
"""Ends are limited to this: at 19 times the scale a training has failed, by whatever amount."""

END_FRACTION = 0.05
"""The end of a training is the mean of its last 5 % of steps, at least 20: one step is noise."""
END_STEPS = 20


def end_steps(num_steps: int) -> int:
    """How many of the last steps are the end of a training."""
    return min(num_steps, max(END_STEPS, round(END_FRACTION * num_steps)))


def loss_scale(constant: float, untrained: float) -> float:
    """The size of a loss of a task: the constant baseline's own, or its distance to the untrained.

    A constant baseline near 0 (a negative reward may be anywhere) has no size of its own.
    """
    return max(abs(constant), min(abs(untrained - constant), 1e-3))


def relative_losses(losses: Curve, constant: float, scale: float) -> Curve:
    """z = (loss − constant) / scale below the baseline, log(1 + z) above it.

    An untrained loss may lie a million times above the baseline and fall within the budget: its
    logarithm falls steadily, whereas a limit would hide that. Limited to LOWEST … HIGHEST;
    non-finite losses are HIGHEST.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        relative = (losses.astype(np.float64) - constant) / scale
    relative = np.nan_to_num(relative, nan=np.inf, posinf=np.inf, neginf=LOWEST)
    compressed = np.where(relative > 0, np.log1p(np.maximum(relative, 0)), relative)
    return np.clip(compressed, LOWEST, HIGHEST)


def absolute_loss(relative: float, constant: float, scale: float) -> float:
    """The loss whose relative loss is this one: the inverse of `relative_losses` within its limits."""
    return constant + scale * (math.expm1(relative) if relative > 0 else relative)


def window_means(prefix: Curve, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean steps (counted from 1) and mean losses of about `count` windows, denser at first."""
    edges = np.unique(np.round(np.geomspace(1, len(prefix) + 1, count + 1)).astype(int)) - 1
    pairs = list(itertools.pairwise(edges))
    steps = np.array([(a + b - 1) / 2 + 1 for a, b in pairs])
    return steps, np.array([prefix[a:b].mean() for a, b in pairs])


def last_value(prefix: Curve, budget: int) -> float:
    """The mean of the last part of the prefix: nothing will change any more."""
    return float(prefix[-max(3, end_steps(len(prefix)) // 2) :].mean())


def power_law(prefix: Curve, budget: int) -> float:
    """a + b·t^(−c), by least squares over a grid of c with b ≥ 0, at the end of the budget."""
    return _fitted(prefix, budget, _power, _POWERS)


def power_law_floor(prefix: Curve) -> float:
    """a of a + b·t^(−c): what the curve's own power law never falls below."""
    fit = _fit(prefix, _power, _POWERS)
    return last_value(prefix, len(prefix)) if fit is None else fit[0]


def exponential(prefix: Curve, budget: int) -> float:
    """a + b·exp(−c·t), by least squares over a grid of c with b ≥ 0, at the end of the budget."""
    rates = np.geomspace(0.3, 30.0, 16) / len(prefix)
    return _fitted(prefix, budget, lambda t, c: np.exp(-c * t), rates)


def logarithm(prefix: Curve, budget: int) -> float:
    """a − b·log t, by least squares: the power law at its slowest."""
    t, y = window_means(prefix, 24)
    half = len(t) // 2
    if len(t) - half < 2:  # two points make a line
        return last_value(prefix, budget)
    slope, start = np.polyfit(np.log(t[half:]), y[half:], 1)
    return float(np.clip(start + min(slope, 0.0) * np.log(0.975 * budget), LOWEST, HIGHEST))


_POWERS = np.geomspace(0.05, 2.0, 16)
_Shape = Callable[[np.ndarray, float], np.ndarray]


def _power(t: np.ndarray, c: float) -> np.ndarray:
    result: np.ndarray = t ** (-c)
    return result


def _fitted(prefix: Curve, budget: int, shape: _Shape, rates: np.ndarray) -> float:
    fit = _fit(prefix, shape, rates)
    if fit is None:
        best = last_value(prefix, budget)
    else:
        a, b, rate = fit
        # the middle of the last 5 %, over which the end is averaged
        best = float(a + b * shape(np.array([0.975 * budget]), rate)[0])
    return float(np.clip(best, LOWEST, HIGHEST))


def _fit(prefix: Curve, shape: _Shape, rates: np.ndarray) -> tuple[float, float, float] | None:
    """a, b ≥ 0 and the rate of a + b·shape(t, rate), by weighted least squares; None without one."""
    t, y = window_means(prefix, 24)
    weights = np.sqrt(t)  # later windows are longer, less noisy and nearer to the end
    best_error, best = np.inf, None
    for rate in rates:
        design = np.stack([np.ones_like(t), shape(t, float(rate))], 1) * weights[:, None]
        (a, b), *_ = np.linalg.lstsq(design, y * weights, rcond=None)
        if b < 0:
            continue
        error = float(np.square(design @ np.array([a, b]) - y * weights).sum())
        if error < best_error:
            best_error, best = error, (float(a), float(b), float(rate))
    return best


METHODS: dict[str, Callable[[Curve, int], float]] = {
    "last value": last_value,
    "power law": power_law,
    "exponential": exponential,
    "logarithm": logarithm,
}
