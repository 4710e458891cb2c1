"""The scalars of a whole training in a bounded number of points."""

import numpy as np

from bathyscope.recorder.history import Signal

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
