"""Activation functions as they are called, as modules or as functions, and their dead units."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bathyscope.measure.functions import FunctionWatch

_NAMES = (
    *(
        "relu",
        "relu6",
        "leaky_relu",
        "prelu",
        "rrelu",
        "elu",
        "selu",
        "celu",
        "gelu",
        "silu",
        "mish",
    ),
    *("hardtanh", "hardswish", "hardsigmoid", "sigmoid", "tanh", "softplus", "threshold"),
)


@functools.cache
def activation_functions() -> frozenset[Callable[..., object]]:
    """Every form in which torch offers an activation function: `F.relu`, `torch.relu`, `x.relu_`."""
    homes = (torch, F, Tensor, torch._C._nn)
    return frozenset(
        function
        for home in homes
        for name in _NAMES
        for form in (name, f"{name}_")
        if (function := getattr(home, form, None))
    )


class Nonlinearities(FunctionWatch):
    """Within, tells of every output of an activation function: `told(name, output)`.

    A mode and not module hooks, because half of all networks call `F.relu`. A function that is
    built on another (`F.relu` on `torch.relu`) is told of once. Calls of the functions in `also` are
    told with their arguments: `called(function, args, kwargs)`.
    """

    def __init__(
        self,
        told: Callable[[str, Tensor], None],
        *,
        also: frozenset[Callable[..., object]] = frozenset(),
        called: Callable[[Callable[..., object], object, dict[str, object]], None] | None = None,
    ) -> None:
        super().__init__()
        self.told = told
        self.also = also
        self.called = called

    def after(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
        kept: object,
    ) -> None:
        """Tell of what the function gave."""
        if func in activation_functions():
            if isinstance(output, Tensor):
                with torch.no_grad():
                    self.told(func.__name__.strip("_"), output.detach())
        elif self.called is not None and func in self.also:
            self.called(func, args, kwargs)


def dead_units(output: Tensor, *, units: int) -> int | None:
    """How many units give one and the same value for every sample and position.

    A ReLU that never fires gives 0 everywhere, a saturated sigmoid 1: neither passes a gradient
    nor tells samples apart. None where there is but one value a unit.

    Args:
        output: what an activation function gave.
        units: the axis of the units.

    Examples:
        >>> dead_units(torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]]), units=1)
        2
    """
    others = [axis for axis in range(output.ndim) if axis != units]
    if not others or output.numel() <= output.shape[units]:
        return None
    return int((output.amax(others) == output.amin(others)).sum())
