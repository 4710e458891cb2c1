"""The scalars of a whole training in a bounded number of points."""

import numpy as np

from bathyscope.recorder.history import Signal

MOST_POINTS = 512


class BoundedCurve:
    """Loss, gradient norm and learning rate over the steps; when full, every other point is let go.

    Examples:
        >>> curve = BoundedCurve(most=4)
        >>> none = np.zeros(0, dtype=np.float32)
        >>> for step in range(6):
        ...     curve.append(
        ...         Signal(step=step, loss=1.0, rate=0.1, input_scale=1.0, gradients=none, weights=none)
        ...     )
        >>> curve.steps.tolist()
        [0, 2, 4]
    """

    def __init__(self, *, most: int = MOST_POINTS) -> None:
        self.most = most
        self._stride = 1
        self._num_seen = 0
        self._points: list[tuple[int, float, float, float]] = []

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Of the points that are kept."""
        return np.array([point[0] for point in self._points], dtype=np.int64)

    @property
    def values(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """One row a point: loss, gradient norm, learning rate."""
        rows = [point[1:] for point in self._points]
        return np.array(rows, dtype=np.float32).reshape(len(rows), 3)

    def append(self, signal: Signal) -> None:
        """Take in one step."""
        if self._num_seen % self._stride == 0:
            self._points.append((signal.step, signal.loss, signal.gradient, signal.rate))
            if len(self._points) > self.most:
                del self._points[1::2]
                self._stride *= 2
        self._num_seen += 1
