"""Twenty-four unusual loops with nothing wrong, written and committed before any of them was diagnosed.

`LOOPS` is that of `healthy`: each returns a loss before and after.
"""

from collections.abc import Callable

LOOPS: dict[str, Callable[[], tuple[float, float]]] = {}


def loop(run: Callable[[], tuple[float, float]]) -> Callable[[], tuple[float, float]]:
    """Add a loop that is healthy."""
    LOOPS[run.__name__] = run
    return run
