"""Measurements that several claims are judged by, made once for all of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy

from bathyscope.claims.claim import Measured

_Measure = Callable[..., Measured]
_KEPT: ContextVar[dict[tuple[_Measure, int], Measured] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_measurements() -> Iterator[None]:
    """Within, a measurement that two claims take with the same seed is made for the first and kept."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def measured(measure: _Measure, seed: int, **settings: object) -> Measured:
    """What a claim's function measures; its own copy of what was kept, where measurements are shared.

    The function draws from the seed alone, so that the numbers are the same either way. What the user
    gave for it is measured each time.
    """
    kept = _KEPT.get()
    if kept is None or any(value is not None for value in settings.values()):
        return measure(seed, **settings)
    if (measure, seed) not in kept:
        kept[measure, seed] = measure(seed)
    return deepcopy(kept[measure, seed])
