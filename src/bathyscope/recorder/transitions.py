"""Events in the samples of a training: blocks that cross a limit which they kept before."""

import math
from collections.abc import Iterator

import numpy as np

from bathyscope.recorder.event import Event
from bathyscope.recorder.samples import COLUMNS, Flags, TakenSamples, Values
from bathyscope.rules import Transition, all_rules


def sampled_events(samples: TakenSamples) -> Iterator[Event]:
    """What the last sample shows that those before did not: of each rule the first block."""
    now, before = samples.values[-1], samples.values[:-1]
    if (lost := np.isinf(now[:, COLUMNS.index("std")])).any():
        yield _event(samples, "non-finite", lost, std=math.inf)
        return
    if not before:
        return
    crossed: dict[str, Flags] = {}
    for code, rule in all_rules().items():
        if rule.event is None or rule.event.column not in COLUMNS:
            continue
        column = COLUMNS.index(rule.event.column)
        last = before[-rule.event.last :] if rule.event.last else before
        usual = _median([values[:, column] for values in last])
        crossed[code] = _crosses(rule.event, now[:, column], usual)
        for other in rule.event.unless:
            crossed[code] &= ~crossed.get(other, np.zeros_like(crossed[code]))
        if crossed[code].any():
            first, name = int(np.argmax(crossed[code])), rule.event.column
            numbers = {name: float(now[first, column]), f"{name}_before": float(usual[first])}
            yield _event(samples, code, crossed[code], **numbers)


def _crosses(event: Transition, now: Values, usual: Values) -> Flags:
    """Blocks beyond the limit now whose median kept it before; NaN compares as neither."""
    unit = np.maximum(usual, event.floor) if event.times else np.ones_like(usual)
    result: Flags = usual > 0 if event.times else np.isfinite(usual)
    if event.above is not None:
        result = result & (now >= event.above * unit)
    if event.below is not None:
        result = result & (now < event.below * unit)
    if event.before is not None:
        result = result & (
            usual <= event.before if event.above is not None else usual > event.before
        )
    return result


def _median(values: list[Values]) -> Values:
    ordered = np.sort(np.stack(values), axis=0)  # with what was not measured last
    number = len(ordered) - np.isnan(ordered).sum(axis=0)
    places = np.arange(ordered.shape[1])
    low, high = np.maximum(number - 1, 0) // 2, np.minimum(number // 2, len(ordered) - 1)
    result: Values = (ordered[low, places] + ordered[high, places]) / 2
    return result


def _event(samples: TakenSamples, code: str, flags: Flags, **numbers: float) -> Event:
    label = samples.blocks[int(np.argmax(flags))].label
    return Event(
        code=code,
        step=samples.steps[-1],
        began=label,
        block=label,
        numbers={**numbers, "blocks": int(flags.sum())},
    )
