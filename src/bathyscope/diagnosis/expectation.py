"""The loss expected at the end of the budget, how far two seeds are apart, and when that decides."""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from bathyscope.diagnosis.race import Attempt
from bathyscope.foresight.extrapolation import (
    HIGHEST_END,
    last_value,
    power_law,
    relative_losses,
)

FAILS = 0.05
"""Fraction of the loss's scale by which a training that does not fail ends below the constant baseline."""

SMALLEST_NOISE = 0.02
"""Of the loss's scale: two seeds of one setting of real trainings differ by 1 to 2 % of the way."""

_QUARTERS = 8  # of its steps, as long as the last one, within which what falls reaches the baseline
_ENOUGH = 16  # steps below the constant baseline from which on a curve is continued
_SURE = 2.0  # times the noise, and times what a training that does not fail has learned


def expected_end(attempt: Attempt, budget: int) -> float:
    """Relative loss at the end of a budget: 0 at the constant baseline, −1 where all of it is gone.

    The mean of the last value and of a power law, each of which errs to one side.
    """
    return 0.5 * sum(end_range(attempt, budget))


def end_range(attempt: Attempt, budget: int) -> tuple[float, float]:
    """Relative losses at the end of a budget: where nothing changes any more, and by a power law.

    What was seen to the end of the budget is not extrapolated, nor is a fall from above to the constant
    baseline: many trainings that fail take it and end there. Below the lowest value that the loss can
    have no law goes.
    """
    if not attempt.losses or not math.isfinite(attempt.end):
        return HIGHEST_END, HIGHEST_END
    curve = relative_curve(attempt)
    last = min(last_value(curve, budget), HIGHEST_END)
    above = np.flatnonzero(curve > 0)
    learning = curve[above[-1] + 1 :] if len(above) else curve
    if len(curve) >= budget or last > -FAILS or len(learning) < _ENOUGH:
        return last, last
    seen = len(curve) - len(learning)
    law = power_law(learning, budget - seen)
    if min(attempt.losses) >= attempt.lowest:
        law = max(law, (attempt.lowest - attempt.constant) / attempt.scale)
    return last, min(last, law)


def is_on_its_way(attempt: Attempt) -> bool:
    """Whether it still falls from above to the constant baseline: what it will learn has yet to show."""
    quarter = max(1, len(attempt.losses) // 4)
    if not math.isfinite(attempt.end) or len(attempt.losses) < 2 * quarter:
        return False
    fall = fmean(attempt.losses[-2 * quarter : -quarter]) - fmean(attempt.losses[-quarter:])
    return 0 < attempt.end - attempt.constant < _QUARTERS * fall


def relative_curve(attempt: Attempt) -> np.ndarray:
    """Relative losses of a training; a reward may pass its baseline by any multiple of its size."""
    losses = np.array(attempt.losses, dtype=np.float64)
    curve = relative_losses(losses, attempt.constant, attempt.scale)
    return np.where(
        losses < 0, np.minimum(curve, (losses - attempt.constant) / attempt.scale), curve
    )


def seed_noise(attempts: Sequence[Attempt]) -> float:
    """How far apart the relative losses of two seeds are at the last step that both took."""
    finite = [a for a in attempts if math.isfinite(a.end)][:2]
    if len(finite) < 2:
        return 0.0
    steps = min(len(a.losses) for a in finite)
    ends = [last_value(relative_curve(a)[:steps], steps) for a in finite]
    # one that has not begun to learn differs from one that has by when it began, and not by noise
    return abs(ends[0] - ends[1]) if max(ends) < HIGHEST_END else 0.0


def is_clearly_better(
    treated: Attempt, untreated: Sequence[Attempt], *, noise: float, budget: int
) -> bool:
    """Whether the verdict is known: it helps even where the recipe learns nothing more from here on.

    The untreated network is then given all that its power law promises, and the gain must still be
    twice the noise.

    Args:
        treated: a training with the recipe, as far as it has come.
        untreated: trainings without it.
        noise: how far two seeds are apart.
        budget: steps that the user means to train for.
    """
    if not treated.losses or not math.isfinite(treated.end):
        return False
    end = last_value(relative_curve(treated), budget)
    bar = end + _SURE * max(noise, SMALLEST_NOISE)
    return end <= -_SURE * FAILS and all(_stays_above(a, bar, budget) for a in untreated)


def _stays_above(attempt: Attempt, bar: float, budget: int) -> bool:
    """Whether a training's power law ends above a relative loss; it is fitted only where it has to be."""
    if not attempt.losses or not math.isfinite(attempt.end):
        return True
    return last_value(relative_curve(attempt), budget) > bar and end_range(attempt, budget)[1] > bar
