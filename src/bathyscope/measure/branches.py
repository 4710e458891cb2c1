"""The sums x + branch(x) inside a block, as they are computed: how large each branch is."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.core.fetch import Readings
from bathyscope.core.hooks import on_gradient
from bathyscope.core.probe import aside
from bathyscope.measure.functions import FunctionWatch
from bathyscope.measure.rows import read_norm

_ADDED = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.add_, Tensor.__iadd__})
_TIMES = frozenset({torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__})
_NORMS = frozenset({F.layer_norm, torch.layer_norm, F.rms_norm, torch.rms_norm})


@dataclass(slots=True)
class Sum:
    """One sum of a stream and a branch.

    Attributes:
        size: ‖branch‖ / ‖stream‖.
        branch_rms: root mean square of the branch.
        is_normalized: whether the stream resumes from the norm of the sum (post-norm).
        gradient_in, gradient_out: norm of the loss's gradient at the stream before and after.
    """

    size: float = math.nan
    branch_rms: float = math.nan
    is_normalized: bool = False
    gradient_in: float | None = None
    gradient_out: float | None = None


class ResidualSums(FunctionWatch):
    """Within, reports every sum of two tensors of the stream's shape: `reported(sum)`.

    Of the two the older one is the stream: the branch was computed from it. A stream that is
    multiplied by a number (DeepNorm) stays as old as it was.
    """

    def __init__(self, result: Callable[[Sum], None], readings: Readings | None = None) -> None:
        super().__init__()
        self.readings = readings or Readings()
        self.result = result
        self.shape: torch.Size | None = None
        self.births: dict[int, int] = {}
        self.clock = 0
        self.last: Sum | None = None
        self.last_address = 0
        self.normed: set[int] = set()  # addresses of the last sum's norm, scaled or not

    def enter(self, x: Tensor) -> None:
        """A block begins to work on this stream."""
        self.shape = x.shape
        self.births = {x.data_ptr(): self.clock}
        self.last = None

    def leave(self, x: Tensor) -> None:
        """The block has given this output."""
        self._normalized(x)
        self.shape = None

    def before(self, func: Callable[..., object], args: tuple[Any, ...]) -> Sum | None:
        """The sum that is about to be computed, where it is one of the stream and a branch."""
        if self.shape is None or func not in _ADDED or len(args) < 2:
            return None
        return self._sum(*args[:2]) if self._both_of_the_stream(args) else None

    def after(
        self,
        func: Callable[..., object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: object,
        kept: Any,
    ) -> None:
        """Report the sum; follow what has the stream's shape."""
        if self.shape is not None and isinstance(output, Tensor) and output.shape == self.shape:
            self._note(func, args, output, kept)

    def _both_of_the_stream(self, args: tuple[object, ...]) -> bool:
        first, second = args[:2]
        return (
            isinstance(first, Tensor)
            and isinstance(second, Tensor)
            and first.shape == second.shape == self.shape
            and first.data_ptr() != second.data_ptr()
            and {first.data_ptr(), second.data_ptr()} <= set(self.births)
        )

    def _sum(self, first: Tensor, second: Tensor) -> Sum:
        older = self.births[first.data_ptr()] < self.births[second.data_ptr()]
        stream, branch = (first, second) if older else (second, first)
        with aside():
            self._normalized(stream)
            result, entries = Sum(), max(1, branch.numel())

            def put_branch(norm: float, _: float) -> None:
                result.size = norm
                result.branch_rms = norm / entries**0.5

            def put_stream(norm: float, _: float) -> None:
                result.size = result.size / norm if norm else math.nan

            read_norm(self.readings, branch, put_branch)
            read_norm(self.readings, stream, put_stream)
        self._keep_norm(stream, result, "gradient_in")
        return result

    def _normalized(self, stream: Tensor) -> None:
        if self.last is not None and stream.data_ptr() in self.normed:
            self.last.is_normalized = True

    def _note(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        output: Tensor,
        result: Sum | None,
    ) -> None:
        address = output.data_ptr()
        if result is not None:
            self._keep_norm(output, result, "gradient_out")
            self.last, self.last_address, self.normed = result, address, set()
            self.result(result)
        elif address in self.births and any(
            isinstance(a, Tensor) and a.data_ptr() == address for a in args
        ):
            return  # a view, or the tensor itself
        source = args[0].data_ptr() if args and isinstance(args[0], Tensor) else 0
        if func in _NORMS and self.last is not None and source == self.last_address:
            self.normed.add(address)
        scaled = [a for a in args if isinstance(a, Tensor)]
        if func in _TIMES and len(scaled) == 1 and scaled[0].data_ptr() in self.births:
            self.births[address] = self.births[scaled[0].data_ptr()]
            if scaled[0].data_ptr() in self.normed:
                self.normed.add(address)
        else:
            self.clock += 1  # an address may be used again: the number of addresses is not a clock
            self.births[address] = self.clock

    def _keep_norm(self, tensor: Tensor, result: Sum, name: str) -> None:
        """Write the norm of a tensor's gradient into a sum once it is there."""

        def hook(gradient: Tensor) -> None:
            with aside():
                read_norm(self.readings, gradient, lambda norm, _: setattr(result, name, norm))

        on_gradient(tensor, hook)
