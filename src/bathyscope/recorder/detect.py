"""What is out of the ordinary in the cheap signals of the last steps, and where it began."""

import math
from collections.abc import Iterator

import numpy as np

from bathyscope.recorder.event import Event
from bathyscope.recorder.history import Band, History, Series, band, logarithms, middle

# A spike leaves its band by this many robust deviations; with ordinary heavy-tailed noise (small
# batches) that alone happens every few hundred steps, so it must also pass all the run has shown.
_LOSS_DEVIATIONS, _DEVIATIONS = 5.0, 8.0
# Times the largest excess of a loss so far; more where the band itself has shown excesses of this many
# spreads: its tails are heavy, and the next record may lie far above the last.
_RECORD, _HEAVY_TAIL, _RECORD_OF_HEAVY_TAILS = 2.0, 4.0, 3.0
# Fraction of the loss itself, and of that at the start, below which a jump is of no interest.
_OF_LOSS, _OF_START = 0.15, 0.03
# Steps before a loss is judged: a tail shows itself only in many.
_FIRST_LOSSES = 48
# A loss that comes back by this fraction of what was learned, and stays there, has relapsed.
_RELAPSE, _STAYS = 0.5, 8
# and by this fraction of the loss it comes back from
_OF_EARLIER = 0.1
# Decades above its median, and times the highest of the run, for a gradient that spikes.
_GRADIENT_DECADES, _GRADIENT_TIMES = 1.0, 3.0
# Norm of a group over that of the step before, and over that at the start.
_WEIGHT_JUMP, _WEIGHT_GROWTH = 2.0, 10.0
# A group's gradient below this fraction of its own median for this many steps has vanished: dropped
# branches (stochastic depth) are rarely dropped as often in a row.
_VANISHED, _VANISHED_STEPS = 1e-6, 8
# Scale of the input over that at the start from which on it is where things began: 1.5 decades.
_INPUT_GROWTH = 30.0
# Steps before anything but a value that is non-finite is judged.
_FIRST_STEPS = 16


def detect(
    history: History, *, location: str | None = None, weights_read: bool = True
) -> Iterator[Event]:
    """The events of the last step.

    Args:
        history: with the last step taken in.
        location: where a value was first non-finite in the forward pass, if that was looked for.
        weights_read: whether the weights were read at this step, or are those of the step before.
    """
    is_lost = not (math.isfinite(history.last_loss) and math.isfinite(history.last_gradient))
    if not is_lost and weights_read:
        is_lost = not all(map(math.isfinite, history.last_weights))
    if is_lost or location is not None:
        lost = non_finite(history, location=location)
        if lost is not None:
            yield lost
            return
    if history.num_steps <= _FIRST_STEPS:
        return
    # every step comes here: each begins with what an event needs at least, and most end there
    for result in (
        exploding_weights(history) if weights_read and _may_explode(history) else None,
        loss_spike(history) if _may_spike(history) else None,
        gradient_spike(history),
        vanished_updates(history) if _may_vanish(history) else None,
    ):
        if result is not None:
            yield result


def _may_spike(history: History) -> bool:
    """Whether the last loss can be a spike, or the end of a relapse: what both need at least."""
    before, loss = history.losses_before, history.last_loss
    if not before:
        return True
    center, lowest = middle(before), before[0]
    minimum = max(
        _RECORD * history.highest_excess,
        _OF_LOSS * abs(center),
        _OF_START * abs(history.start_loss),
    )
    # a relapse is judged by a median of the same losses, which none of them lies below
    relapsed = max(
        lowest + _OF_EARLIER * abs(lowest), lowest + _RELAPSE * (history.start_loss - lowest)
    )
    return loss - center > minimum or loss > relapsed


def _may_explode(history: History) -> bool:
    """Whether a norm has jumped, or has grown since the start: what an event needs at least."""
    start = history.start_weights.tolist()
    norms = zip(history.last_weights, history.weights_before, start, strict=True)
    # norms of earlier steps are kept in single precision
    return any(
        now > 0.999 * _WEIGHT_JUMP * before or now > 0.999 * _WEIGHT_GROWTH * at_first
        for now, before, at_first in norms
    )


def _may_vanish(history: History) -> bool:
    """Whether a gradient or the learning rate of the last step is nothing beside the largest so far."""
    if history.last_rate < _VANISHED * history.highest_rate:
        return True
    norms = zip(history.last_gradients, history.highest_gradients, strict=True)
    limit = 1.001 * _VANISHED  # the norms of earlier steps are kept in single precision
    return any(norm <= limit * highest for norm, highest in norms)


def non_finite(history: History, *, location: str | None = None) -> Event | None:
    """A loss, gradient or weight that is non-finite.

    The forward pass computes from first to last, so the place found there comes first; gradients
    run back, so the last group whose gradient is non-finite is where that began. Weights that are
    non-finite after a finite loss and gradient are the optimizer's own work.
    """
    loss = float(history.losses[-1])
    gradients = ~np.isfinite(history.gradients[-1])
    weights = ~np.isfinite(history.weights[-1])
    # the loss is NaN where none was seen at all, which is not an event
    loss_lost = math.isinf(loss) or (math.isnan(loss) and bool(np.isfinite(history.losses).any()))
    loss_lost |= math.isinf(history.total_gradients[-1])
    if location is None and not (loss_lost or gradients.any() or weights.any()):
        return None
    if location is not None:
        began = location
    elif not loss_lost and weights.any() and not gradients.any():
        began = "update"  # from a loss and gradients that are finite
    elif gradients.any() and not gradients.all():
        began = history.labels[int(np.flatnonzero(gradients)[-1])]
    elif weights.any() and not weights.all():
        began = history.labels[int(np.flatnonzero(weights)[0])]
    else:
        began = "loss"
    return _event(
        history,
        "non-finite",
        began,
        block=history.labels[int(np.flatnonzero(weights)[0])] if began == "update" else None,
        loss=loss,
        groups_with_such_gradients=int(gradients.sum()),
        groups_with_such_weights=int(weights.sum()),
    )


def loss_spike(history: History) -> Event | None:
    """A loss further above its band than the run has shown, or one that fell back for several steps."""
    losses = history.losses
    ordinary = band(losses[:-1])
    if ordinary is None or not math.isfinite(losses[-1]) or history.num_steps <= _FIRST_LOSSES:
        return None
    jump = ordinary.excess(float(losses[-1]))
    tail = ordinary.excess(float(np.nanmax(losses[:-1])))
    times = _RECORD_OF_HEAVY_TAILS if tail > _HEAVY_TAIL * ordinary.spread else _RECORD
    minimum = max(
        _LOSS_DEVIATIONS * ordinary.spread,
        times * history.highest_excess,
        _OF_LOSS * abs(ordinary.middle),
        _OF_START * abs(history.start_loss),
    )
    if jump > minimum:
        began = _origin(history)
        return _event(
            history, "loss-spike", began, loss=float(losses[-1]), median_before=ordinary.middle
        )
    return _relapse(history, _STAYS, 6.0) or _relapse(history, 2 * _STAYS, 3.0)


def _relapse(history: History, steps: int, deviations: float) -> Event | None:
    """A loss that has come back by a good part of what was learned, and stayed there for some steps."""
    losses = history.losses
    earlier = band(losses[: -steps - 8])
    if earlier is None:
        return None
    learned = history.start_loss - earlier.middle
    lowest = float(np.min(losses[-steps:]))
    needed = max(_RELAPSE * learned, deviations * earlier.spread, _OF_EARLIER * abs(earlier.middle))
    if learned <= 3 * earlier.spread or not lowest > earlier.middle + needed:
        return None
    first = len(losses) - steps
    return _event(
        history,
        "loss-spike",
        _origin(history, at=first),
        at=first,
        loss=float(losses[-1]),
        median_before=earlier.middle,
    )


def gradient_spike(history: History) -> Event | None:
    """A gradient far above its band and above all the run has shown."""
    now = history.last_gradient
    if now <= _GRADIENT_TIMES * history.highest_gradient:
        return None
    ordinary = band(logarithms(history.total_gradients[:-1]))
    if ordinary is None:
        return None
    excess = ordinary.excess(math.log10(now)) if now > 0 else 0.0
    if excess <= max(_GRADIENT_DECADES, _DEVIATIONS * ordinary.spread):
        return None
    groups = _group_excess(history.gradients)
    block = history.labels[int(np.argmax(groups))] if len(groups) else None
    began = _origin(history)
    return _event(
        history,
        "gradient-spike",
        began,
        block=block,
        gradient_norm=now,
        median_before=10**ordinary.middle,
    )


def exploding_weights(history: History) -> Event | None:
    """A group whose norm jumped in one step, or has grown tenfold since the start."""
    weights = history.weights.astype(np.float64)
    typical = float(np.median(history.start_weights))
    # a fresh head begins near zero: what it grows to is judged by the other groups
    base = np.maximum(history.start_weights.astype(np.float64), typical)
    now, before = weights[-1], np.maximum(weights[-2], 0.1 * typical)
    jumped = now > _WEIGHT_JUMP * before
    recent = weights[-min(len(weights), 33)]
    grown = (now > _WEIGHT_GROWTH * base) & (now > 1.5 * recent)
    if typical <= 0 or not (jumped | grown).any():
        return None
    growth = np.where(jumped | grown, now / np.where(jumped, before, base), 0.0)
    group = int(np.argmax(growth))
    # its own update is the event, so only what came before it can be its cause
    began = _origin(history, weights=False, gradients=False)
    began = history.labels[group] if began == "batch" else began
    return _event(
        history,
        "exploding-weights",
        began,
        block=history.labels[group],
        weight_norm=float(now[group]),
        norm_before=float(weights[-2][group]),
        norm_at_the_start=float(history.start_weights[group]),
    )


def vanished_updates(history: History) -> Event | None:
    """Groups whose gradient became nothing, or a learning rate that did, and stayed so."""
    if history.num_steps < 3 * _VANISHED_STEPS:
        return None
    gradients = history.gradients
    first = len(gradients) - _VANISHED_STEPS
    usual = gradients[:first].max(axis=0)  # no median lies above: most steps need none
    if (gradients[-1] <= _VANISHED * usual).any():
        usual = np.median(gradients[:first], axis=0)
    gone = (usual > 0) & (gradients[first:] <= _VANISHED * usual).all(axis=0)
    gone &= (gradients[first:] >= 0).all(axis=0)
    if gone.any() and not (gone.all() and _is_fitted(history)):
        # what lies before a dead layer gets no gradient either: the last one is where it stops
        group = int(np.flatnonzero(gone)[-1])
        return _event(
            history,
            "cut-gradient",
            history.labels[group],
            at=first,
            gradient_norm=float(gradients[-1, group]),
            median_before=float(usual[group]),
            groups=int(gone.sum()),
        )
    rates = history.rates
    if (rates[first:] < _VANISHED * rates[first - 1]).all():
        return _event(history, "small-update", "learning rate", at=first, rate=float(rates[-1]))
    return None


def _is_fitted(history: History) -> bool:
    loss = float(history.losses[-1])
    return math.isfinite(loss) and loss < 0.05 * history.start_loss


def _origin(
    history: History, *, at: int | None = None, weights: bool = True, gradients: bool = True
) -> str:
    """Where a jump of loss or gradient at a step began, from what was out of the ordinary before it.

    The loss of a step is computed from the weights of the step before and from the batch. So: a rate
    that jumped up to then; an input of another scale in that very step, or one that has grown slowly
    and far since the start; weights that moved unlike
    before; a gradient that grew in one group earlier; and where nothing stirred, the batch.
    """
    at = len(history.steps) - 1 if at is None else at
    if _stirred_at(history.rates[: at + 1], minimum=0.15) is not None:
        return "learning rate"
    if _stirred_at(history.input_scales[: at + 1], minimum=0.3) == at:
        return "input"
    if history.input_growth(at) >= _INPUT_GROWTH:
        return "input"
    if weights and (group := _moved_group(history, before=at)) is not None:
        return history.labels[group]
    if gradients and at > 0 and (group := _grown_group(history, before=at)) is not None:
        return history.labels[group]
    return "batch"


def _stirred_at(values: Series, *, minimum: float) -> int | None:
    """The first of the last steps at which a signal lies above its earlier band, in decades."""
    logs = logarithms(values)
    late = min(_STAYS + 4, len(logs) // 2)
    ordinary = band(logs[: len(logs) - late])
    if ordinary is None:
        return None
    limit = max(minimum, 6 * ordinary.spread)
    above = np.flatnonzero(logs[len(logs) - late :] - ordinary.middle > limit)
    return len(logs) - late + int(above[0]) if len(above) else None


def _moved_group(history: History, *, before: int) -> int | None:
    """The group whose weights first moved unlike before in the last steps, the furthest of them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(history.weights[: before + 1].astype(np.float64))
    moves = np.nan_to_num(np.abs(np.diff(logs, axis=0)), nan=0.0, posinf=0.0)
    if len(moves) < 16 or not history.labels:
        return None
    late = moves[-_STAYS:]
    usual = np.quantile(moves[:-_STAYS], 0.95, axis=0)
    unlike = late > np.maximum(10 * usual, 0.05)
    return _first_furthest(unlike, late)


def _grown_group(history: History, *, before: int) -> int | None:
    """The group whose gradient first left its band in the steps before, the furthest of them."""
    logs = logarithms(history.gradients[:before].astype(np.float64))
    if len(logs) < 16 or not history.labels:
        return None
    late = logs[-_STAYS:]
    bands = [band(column) or Band(math.inf, 0.0) for column in logs[:-_STAYS].T]
    excess = late - np.array([b.middle for b in bands])
    unlike = excess > np.maximum([_DEVIATIONS * b.spread for b in bands], _GRADIENT_DECADES)
    return _first_furthest(unlike, excess)


def _first_furthest(
    unlike: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    excess: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> int | None:
    rows = np.flatnonzero(unlike.any(axis=1))
    if not len(rows):
        return None
    return int(np.argmax(np.where(unlike[rows[0]], excess[rows[0]], -np.inf)))


def _group_excess(gradients: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Series:
    """Decades of each group's last gradient above its median."""
    usual = np.median(np.maximum(gradients[:-1], 1e-30), axis=0)
    now = np.maximum(gradients[-1], 1e-30).astype(np.float64)
    result: Series = np.log10(now / usual)
    return result


def _event(
    history: History,
    code: str,
    began: str,
    *,
    block: str | None = None,
    at: int | None = None,
    **numbers: float | int,
) -> Event:
    at = len(history.steps) - 1 if at is None else at
    return Event(
        code=code,
        step=int(history.steps[at]),
        began=began,
        block=block or (began if began in history.labels else None),
        before=stirrings(history, until=at),
        numbers=numbers,
    )


def stirrings(history: History, *, until: int) -> tuple[str, ...]:
    """What was out of the ordinary up to a step, in order, in words."""
    result: list[tuple[int, str]] = []
    for name, values, minimum in (
        ("learning rate", history.rates, 0.15),
        ("input's scale", history.input_scales, 0.3),
        ("gradient norm", history.total_gradients, 0.5),
    ):
        at = _stirred_at(values[: until + 1], minimum=minimum)
        if at is not None:
            ordinary = float(np.nanmedian(values[: max(1, at)]))
            result.append((at, f"{name} {values[at]:.3g} after {ordinary:.3g}"))
    if (growth := history.input_growth(until)) >= _INPUT_GROWTH:
        result.append((until, f"input's scale {growth:.3g} times that at the start"))
    group = _moved_group(history, before=until)
    if group is not None:
        weights = history.weights[: until + 1, group].astype(np.float64)
        at = int(np.argmax(np.abs(np.diff(weights[-_STAYS - 1 :])))) + len(weights) - _STAYS
        result.append(
            (
                at,
                f"weights of {history.labels[group]} {weights[at]:.3g} after {weights[at - 1]:.3g}",
            )
        )
    return tuple(f"step {history.steps[at]}: {text}" for at, text in sorted(result))
