"""Several callables timed in turn, so that a change of the machine's load meets all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of every repeat of one callable, on the clock and of CPU time."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def median_wall(self) -> float:
        """Median seconds on the clock."""
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        """Median seconds of CPU time."""
        return statistics.median(self.cpu)

    def ratio_to(self, other: "Times") -> float:
        """Median over the rounds of (CPU time of the other) / (CPU time of this): above 1 is faster.

        The two of one round ran one right after the other, so the ratio of a round is less noisy
        than that of the medians.
        """
        return statistics.median(self._ratios_to(other))

    def fastest_ratio_to(self, other: "Times") -> float:
        """The ratio of the smallest CPU times, which a busy machine disturbs least."""
        return min(other.cpu) / min(self.cpu)

    def spread_to(self, other: "Times") -> float:
        """Half the interquartile range of the ratio over the rounds: what counts as noise."""
        low, _, high = statistics.quantiles(self._ratios_to(other), n=4)
        return (high - low) / 2

    def _ratios_to(self, other: "Times") -> list[float]:
        return [theirs / ours for ours, theirs in zip(self.cpu, other.cpu, strict=True)]


def interleaved(
    callables: Mapping[str, Callable[[], object]], *, repeats: int = 7, warmup: int = 1
) -> dict[str, Times]:
    """Call all in turn, `repeats` times, and time each call.

    The order turns by one each round, so that no callable always follows the same other one.
    Garbage is collected before each call and not during it.
    """
    for _ in range(warmup):
        for call in callables.values():
            call()
    names = list(callables)
    wall: dict[str, list[float]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        shift = repeat % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            gc.disable()
            try:
                began, cpu_began = time.perf_counter(), time.process_time()
                callables[name]()
                cpu[name].append(time.process_time() - cpu_began)
                wall[name].append(time.perf_counter() - began)
            finally:
                gc.enable()
    return {name: Times(wall=tuple(wall[name]), cpu=tuple(cpu[name])) for name in names}
