"""What the first steps of a training show, as numbers that mean the same for any loss of any network."""

import itertools
import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from bathyscope.foresight.course import FirstSteps
from bathyscope.foresight.extrapolation import (
    HIGHEST_END,
    LOWEST,
    METHODS,
    absolute_loss,
    loss_scale,
    power_law_floor,
    relative_losses,
    window_means,
)

NUM_WINDOWS = 8
PASSED = 0.05
"""Of the loss's scale: a loss below the constant baseline by this much has learned something."""

_OF_READING = (
    "depth",
    "gradient_range",
    "update",
    "update_miss",
    "update_range",
    "spread",
    "unreached",
    "score",
    "alignment",
    "excess",
    "gone",
    "spike",
)


def baseline_of(course: FirstSteps) -> tuple[float, float]:
    """The loss that counts as no progress, and the scale of losses: the untrained loss if need be.

    A loss that may be negative, as a reward's, can pass the baseline by many times the baseline's size:
    what was seen is then held to be half of the way.
    """
    first = course.losses[0]
    constant = first if course.baseline is None else course.baseline
    scale = loss_scale(constant, first)
    tail = course.losses[-max(3, len(course.losses) // 4) :]
    if min(tail) < 0 and all(map(math.isfinite, tail)):
        scale = max(scale, 2 * (constant - sum(tail) / len(tail)))
    return constant, scale


def relative_course(course: FirstSteps) -> Float[ndarray, " n"]:
    """The losses of a course, 0 at the constant baseline, in units of the loss's own scale."""
    constant, scale = baseline_of(course)
    return relative_losses(np.array(course.losses), constant, scale)


def lowest_of(course: FirstSteps) -> float:
    """What no loss of a course is expected to lie below: 0, or −∞ where losses may be negative.

    A loss of unknown sign is held to be positive where it was so at every step and the power law of its
    curve never falls below 0.
    """
    if min(course.losses) < 0:
        return -math.inf
    if math.isfinite(course.lowest):
        return course.lowest
    floor = absolute_loss(power_law_floor(relative_course(course)), *baseline_of(course))
    return 0.0 if floor >= 0 else -math.inf


def course_features(course: FirstSteps) -> dict[str, float]:
    """The features of a course by name; none of them names a task."""
    relative = relative_course(course)
    return {
        **_curve(relative),
        **_gap(relative),
        **{
            f"said by {name}": min(method(relative, course.plan.budget), HIGHEST_END)
            for name, method in METHODS.items()
        },
        **_along_rates(relative, np.array(course.plan.rates.factors)),
        **_gradients(np.array(course.gradient_norms)),
        **_plan(course),
        **_readings(course),
    }


def _curve(prefix: Float[ndarray, " n"]) -> dict[str, float]:
    """Windows of the curve, its best window, its slope over log time, and its noise."""
    edges = np.linspace(0, len(prefix), NUM_WINDOWS + 1).astype(int)
    windows = [
        float(prefix[min(a, len(prefix) - 1) : max(b, a + 1)].mean())
        for a, b in itertools.pairwise(edges)
    ]
    steps, means = window_means(prefix, 12)
    last = prefix[-max(3, len(prefix) // 4) :]
    levels = {f"window {i}": value for i, value in enumerate(windows)}
    levels |= {"best window": min(windows), "first": float(prefix[0])}
    now = float(last.mean())
    # seen from where the curve is now, a fall looks alike in all tasks
    falls = {f"{name} against now": value - now for name, value in levels.items()}
    times = np.log(steps)
    slopes = {"slope": _slope(times, means), "late slope": _slope(times[-5:], means[-5:])}
    noise = float(np.abs(np.diff(prefix)).mean()) / math.sqrt(2) if len(prefix) > 1 else 0.0
    return {**levels, **falls, **slopes, "noise": noise, "late spread": float(last.std())}


def _gap(prefix: Float[ndarray, " n"]) -> dict[str, float]:
    """Where the curve is, against its noise and against what it has fallen so far.

    `falls needed` is how often the fall until now has to be repeated to pass the constant baseline by a
    twentieth of the loss's scale.
    """
    now = float(prefix[-max(3, len(prefix) // 4) :].mean())
    noise = float(np.abs(np.diff(prefix)).mean()) / math.sqrt(2) if len(prefix) > 1 else 0.0
    fallen = float(prefix[:3].mean()) - now
    needed = (now + PASSED) / math.copysign(max(abs(fallen), 1e-3), fallen)
    return {
        "now": now,
        "above best": now - float(prefix.min()),
        "gap over noise": float(np.clip(now / max(noise, 1e-3), -20, 20)),
        "fallen": float(np.clip(fallen, -3, 3)),
        "falls needed": float(np.clip(needed, -20, 20)),
    }


def _along_rates(
    prefix: Float[ndarray, " n"], factors: Float[ndarray, " budget"]
) -> dict[str, float]:
    """The end where the loss continues as it did per learning rate spent, and per its logarithm.

    Steps at the start of a warm-up count for little and those at the peak for much: a curve over the
    sum of the rates so far, u = Σ_{i<t} η_i / Σ_{i<budget} η_i, has the schedule taken out of it.
    """
    sums = np.concatenate([[0.0], np.cumsum(factors)])
    spent = sums[: len(prefix)] / max(float(sums[-1]), 1e-12)
    # a first step has spent nothing: half of a step keeps its logarithm finite
    logs = np.log(spent + max(float(spent[min(1, len(spent) - 1)]) / 2, 1e-6))
    last = slice(-max(3, len(prefix) // 4), None)
    now, here = float(prefix[last].mean()), float(spent[last].mean())
    result = {}
    for name, begin in (("most", 0.2), ("the last half", 0.5), ("the last quarter", 0.75)):
        part = slice(int(begin * len(prefix)), None)
        linear = _slope(spent[part], prefix[part])
        by_log = _slope(logs[part], prefix[part])
        for kind, end in (
            ("linear", now + linear * (1 - here)),
            ("logarithmic", now - by_log * math.log(max(here, 1e-9))),
        ):
            result[f"{kind} over {name} of the rates"] = float(np.clip(end, LOWEST, HIGHEST_END))
    return result


def _slope(times: Float[ndarray, " m"], losses: Float[ndarray, " m"]) -> float:
    """Of the line through losses by least squares; 0 where there is only one time."""
    apart = times - times.mean() if len(times) else times
    spread = float(np.square(apart).sum())
    return float((apart * losses).sum() / spread) if spread > 0 else 0.0


def _gradients(norms: Float[ndarray, " n"]) -> dict[str, float]:
    """Logarithms of the gradient norm at first and at last, and its range."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(norms.astype(np.float64))
    logs = np.clip(np.nan_to_num(logs, nan=6.0, posinf=6.0, neginf=-8.0), -8, 6)
    quarter = max(1, len(logs) // 4)
    early, late = float(logs[:quarter].mean()), float(logs[-quarter:].mean())
    return {
        "gradient": early,
        "late gradient": late,
        "gradient change": late - early,
        "gradient spread": float(logs.std()),
    }


def _plan(course: FirstSteps) -> dict[str, float]:
    """Rates used so far and to come, budget, batch size, clipping and the optimizer."""
    plan, taken = course.plan, len(course.losses)
    factors = np.array(plan.rates.factors)
    so_far = factors[:taken]
    end = factors[-max(1, len(factors) // 20) :]
    return {
        "rate": _log10(plan.rates.largest),
        "rate so far": _log10(plan.rates.largest * float(so_far.mean())),
        "factor now": float(so_far[-1]),
        "fraction of rates": float(so_far.sum() / max(float(factors.sum()), 1e-12)),
        "factor at the end": float(end.mean()),
        "fraction of budget": taken / plan.budget,
        "budget": _log10(plan.budget),
        "batch": _log10(course.batch_size),
        "clipped": float(plan.clip is not None),
        "adaptive": float(course.is_adaptive),
        "momentum": float(course.has_momentum),
        "parameters": _log10(course.num_parameters),
    }


def _readings(course: FirstSteps) -> dict[str, float]:
    """Of the layers: gradients, updates, and how far the outputs went towards their targets."""
    first, last = course.readings[0].values, course.readings[-1].values
    is_scored = course.readings[-1].goal.kind != "other"
    now = {name: last.get(name, 0.0) for name in _OF_READING}
    if not is_scored:
        now |= {"score": 0.0, "alignment": 0.0}
    return {
        **now,
        "first gradient range": first.get("gradient_range", 0.0),
        "first update": first.get("update", 0.0),
        "scored": float(is_scored),
        "baseline known": float(course.baseline is not None),
    }


def _log10(value: float) -> float:
    return math.log10(max(value, 1e-12))
