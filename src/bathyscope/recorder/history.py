"""The last steps of a training in a few kilobytes, what is ordinary for their signals, and a curve of all."""

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

import numpy as np

from bathyscope.recorder.groups import Norms

Series = np.ndarray[tuple[int], np.dtype[np.float64]]

WINDOW = 64
"""Steps kept: enough for a median and a spread, and 30 kB for a network of fifty blocks."""

# Steps that may wait to be written into the ring.
_WAITING = 7

# A median absolute deviation of a normal variable is 0.6745 of its standard deviation.
_TO_DEVIATION = 1.4826


@dataclass(slots=True, kw_only=True)
class Signal:
    """The cheap signals of one step.

    Attributes:
        step: its number.
        loss: mean of the losses that went into it; NaN where none was seen.
        rate: the largest learning rate of the optimizer; NaN where none was seen.
        input_scale: root mean square of the model's input.
        gradients: norm by group; −1 where it has none.
        weights: norm by group, after the step or one shortly before it.
        total_gradient: norm of the whole gradient, where it was measured apart.
    """

    step: int
    loss: float
    rate: float
    input_scale: float
    gradients: Norms
    weights: Norms
    total_gradient: float | None = None

    @property
    def gradient(self) -> float:
        """The total norm, where it is known as such; else over all groups that have a gradient."""
        if self.total_gradient is not None:
            return self.total_gradient
        known = self.gradients[~(self.gradients < 0)]
        return float(np.sqrt(np.sum(np.square(known, dtype=np.float64))))


class History:
    """A ring of the last signals, with what the whole run has shown so far.

    Attributes:
        labels: of the groups.
        num_steps: taken in so far.
        start_loss: median of the first losses.
        highest_excess: of a loss above the median of those before it, among the ordinary steps.
        highest_gradient: among the same.
        highest_rate: of all steps.
        highest_gradients: by group, of all steps.
        last_gradients: by group, of the last step.
        last_rate: learning rate of the last step.
        last_weights: norms by group of the last step, and, of the one before it, `weights_before`.
        start_weights: norms after the first step.
    """

    def __init__(self, labels: tuple[str, ...], *, window: int = WINDOW) -> None:
        self.labels = labels
        self.window = window
        self.num_steps = 0
        self.start_loss = math.nan
        self.start_input = math.nan
        self.highest_excess = 0.0
        self.highest_gradient = 0.0
        self.highest_rate = 0.0
        self.highest_gradients = [0.0] * len(labels)
        self.last_gradients: list[float] = []
        self.last_weights: list[float] = []
        self.weights_before: list[float] = []
        self._last_read: Norms | None = None  # what `last_weights` are the numbers of
        self.start_weights: Norms = np.zeros(0)
        self._ordered: list[float] = []  # the finite losses before the last one, by size
        self.last_rate = math.nan
        self._last = (math.nan, math.nan)  # loss and gradient of the last step
        self._kept_losses: deque[float] = deque(maxlen=window)
        self._waiting: list[Signal] = []  # the last steps, which are not in the ring yet
        self._order_of = (0, np.zeros(0, dtype=np.int64))
        self._steps = np.zeros(window, dtype=np.int32)
        self._scalars = np.full((window, 4), np.nan)
        self._gradients = np.full((window, len(labels)), np.nan, dtype=np.float32)
        self._weights = np.full((window, len(labels)), np.nan, dtype=np.float32)

    def append(self, signal: Signal) -> None:
        """Take in one step."""
        if self.num_steps >= self.window:  # the oldest makes room for the new one
            _discard(self._ordered, self._kept_losses[0])
        if math.isfinite(self._last[0]):
            insort(self._ordered, self._last[0])
        self._last = (signal.loss, signal.gradient)
        self._kept_losses.append(signal.loss)
        self._waiting.append(signal)
        if self.num_steps == 0:
            self.start_weights = signal.weights
        self.num_steps += 1
        if len(self._waiting) > _WAITING:
            self._write()
        # numbers of Python: for some tens of groups an operation of numpy's takes longer
        self.last_gradients, self.last_rate = signal.gradients.tolist(), signal.rate
        self.weights_before = self.last_weights
        if signal.weights is not self._last_read:
            self.last_weights, self._last_read = signal.weights.tolist(), signal.weights
        for group, norm in enumerate(self.last_gradients):
            if norm > self.highest_gradients[group]:
                self.highest_gradients[group] = norm
        if signal.rate > self.highest_rate:
            self.highest_rate = signal.rate
        if self.num_steps <= 5:
            self.start_loss = _median(self.losses)
            self.start_input = _median(self.input_scales)

    def _write(self) -> None:
        """Put the last steps into the ring: together, which takes less time than one by one."""
        for number, signal in enumerate(self._waiting, self.num_steps - len(self._waiting)):
            row = number % self.window
            self._steps[row] = signal.step
            self._scalars[row] = (signal.loss, signal.rate, signal.input_scale, signal.gradient)
            self._gradients[row] = signal.gradients
            self._weights[row] = signal.weights
        self._waiting.clear()

    @property
    def _order(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Places of the kept steps, oldest first."""
        if self._waiting:
            self._write()
        if self._order_of[0] != self.num_steps:
            kept = min(self.num_steps, self.window)
            order = (np.arange(kept) + self.num_steps - kept) % self.window
            self._order_of = (self.num_steps, order)
        return self._order_of[1]

    @property
    def last_loss(self) -> float:
        """That of the last step."""
        return self._last[0]

    @property
    def last_gradient(self) -> float:
        """Norm of the whole gradient of the last step."""
        return self._last[1]

    @property
    def losses_before(self) -> list[float]:
        """The finite losses of the kept steps before the last one, smallest first."""
        return self._ordered

    def input_growth(self, at: int) -> float:
        """Scale of the input at one of the kept steps over that at the start; 1 where it is not known."""
        now = float(self.input_scales[at])
        known = math.isfinite(now) and self.start_input > 0
        return now / self.start_input if known else 1.0

    def correct_weights(self, weights: Norms) -> None:
        """Norms of the weights after the last step, which were not read when it was taken in."""
        self._write()
        self._weights[(self.num_steps - 1) % self.window] = weights
        self.last_weights, self._last_read = weights.tolist(), weights

    def accept(self) -> None:
        """The last step was ordinary: let what it showed count as such."""
        loss, gradient = self._last
        if math.isfinite(loss) and self._ordered:
            excess = loss - middle(self._ordered)
            self.highest_excess = max(self.highest_excess, excess)
        if math.isfinite(gradient):
            self.highest_gradient = max(self.highest_gradient, gradient)

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Their numbers, oldest first, as in all that follows."""
        return self._steps[self._order].astype(np.int64)

    @property
    def losses(self) -> Series:
        """One a step."""
        result: Series = self._scalars[self._order, 0]
        return result

    @property
    def rates(self) -> Series:
        """Learning rates."""
        result: Series = self._scalars[self._order, 1]
        return result

    @property
    def input_scales(self) -> Series:
        """Root mean squares of the input."""
        result: Series = self._scalars[self._order, 2]
        return result

    @property
    def total_gradients(self) -> Series:
        """Gradient norms over all groups."""
        result: Series = self._scalars[self._order, 3]
        return result

    @property
    def gradients(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Gradient norms, one row per step and one column a group."""
        return self._gradients[self._order]

    @property
    def weights(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Weight norms, likewise."""
        return self._weights[self._order]

    @property
    def num_bytes(self) -> int:
        """Memory of the ring."""
        arrays = (self._steps, self._scalars, self._gradients, self._weights)
        return sum(a.nbytes for a in arrays) + _WAITING * 8 * (len(self.labels) + 5)


@dataclass(frozen=True, slots=True)
class Band:
    """Where a signal ordinarily lies: its median and its spread (a robust standard deviation)."""

    middle: float
    spread: float

    def excess(self, value: float) -> float:
        """How far above the middle a value lies."""
        return value - self.middle


def band(values: Series) -> Band | None:
    """The band of the finite values; None where there are fewer than eight.

    Examples:
        >>> band(np.array([1.0, 2, 3, 4, 5, 6, 7, 100])).middle
        4.5
    """
    known = values[np.isfinite(values)]
    if len(known) < 8:
        return None
    center = _middle(known)
    return Band(center, _TO_DEVIATION * _middle(np.abs(known - center)))


def logarithms(values: Series) -> Series:
    """log₁₀, with what is not positive as NaN."""
    positive = np.where(values > 0, values, np.nan).astype(np.float64)
    return np.log10(positive)


def _median(values: Series) -> float:
    known = values[np.isfinite(values)]
    return _middle(known) if len(known) else math.nan


def _middle(values: Series) -> float:
    """The median of some finite values; `np.median` takes ten times as long on so few."""
    return middle(np.sort(values))


def middle(ordered: "Series | list[float]") -> float:
    """The median of values that are in order."""
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _discard(ordered: list[float], value: float) -> None:
    """Take a value out of an ordered list, if it is there."""
    place = bisect_left(ordered, value) if math.isfinite(value) else len(ordered)
    if place < len(ordered) and ordered[place] == value:
        del ordered[place]


FEWEST_POINTS, MOST_POINTS = 64, 256


class BoundedCurve:
    """Loss, gradient norm and learning rate over the steps; when full, every other point is let go.

    Examples:
        >>> curve = BoundedCurve(most=4)
        >>> none = np.zeros(0, dtype=np.float64)
        >>> for step in range(6):
        ...     curve.append(
        ...         Signal(step=step, loss=1.0, rate=0.1, input_scale=1.0, gradients=none, weights=none)
        ...     )
        >>> curve.steps.tolist()
        [0, 2, 4]
    """

    NUM_BYTES_EACH = 16
    """Memory of a point."""

    def __init__(self, *, most: int = MOST_POINTS) -> None:
        self.most = most
        self._stride = 1
        self._num_seen = 0
        self._num_points = 0
        self._steps = np.zeros(most + 1, dtype=np.int32)
        self._values = np.zeros((most + 1, 3), dtype=np.float32)

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Of the points that are kept."""
        return self._steps[: self._num_points].astype(np.int64)

    @property
    def values(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """One row per point: loss, gradient norm, learning rate."""
        return self._values[: self._num_points].copy()

    @property
    def num_bytes(self) -> int:
        """Memory of the points."""
        return self._steps.nbytes + self._values.nbytes

    def append(self, signal: Signal) -> None:
        """Take in one step."""
        if self._num_seen % self._stride == 0:
            self._steps[self._num_points] = signal.step
            self._values[self._num_points] = (signal.loss, signal.gradient, signal.rate)
            self._num_points += 1
            if self._num_points > self.most:
                kept = (self._num_points + 1) // 2
                self._steps[:kept] = self._steps[: self._num_points : 2].copy()
                self._values[:kept] = self._values[: self._num_points : 2].copy()
                self._num_points = kept
                self._stride *= 2
        self._num_seen += 1
