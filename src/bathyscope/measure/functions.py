"""The functions that a pass calls: nonlinearities, dropouts and norms among them."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bathyscope.core.calls import unwrap
from bathyscope.core.global_state import no_autocast
from bathyscope.core.records import Measurement, Number
from bathyscope.core.walks import named_modules


def is_chain_of_layers(model: nn.Module) -> bool:
    """Whether a pass calls torch's own layers alone, one after the other: no sums, no attention.

    Examples:
        >>> is_chain_of_layers(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        True
        >>> is_chain_of_layers(nn.TransformerEncoderLayer(8, 2))
        False
    """
    return all(
        type(module).__module__.startswith("torch.nn.modules.")
        and type(module) is not nn.MultiheadAttention
        and type(module).__module__ != nn.modules.transformer.__name__
        and not module._forward_hooks
        and not module._forward_pre_hooks
        for module in named_modules(model).values()
    )


class FunctionWatch(TorchFunctionMode, ABC):
    """Within, sees every function that is called, except for those that it calls itself."""

    def before(self, func: Callable[..., object], args: tuple[object, ...]) -> object:
        """The function is about to be called; what is returned comes back in `after`."""
        return None

    @abstractmethod
    def after(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
        kept: object,
    ) -> None:
        """The function has given its output."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call the function between the two."""
        kwargs = kwargs or {}
        kept = self.before(func, args)
        output = func(*args, **kwargs)
        with no_autocast():
            self.after(func, args, kwargs, output, kept)
        return output


class Together(FunctionWatch):
    """Several watches as one: each mode of its own would cost every function another call in Python.

    They see it in the order given, as if each had been entered inside the one before.
    """

    def __init__(self, *watches: FunctionWatch) -> None:
        super().__init__()
        self.watches = watches

    def before(self, func: Callable[..., object], args: tuple[object, ...]) -> object:
        """What each of them keeps."""
        return [watch.before(func, args) for watch in self.watches]

    def after(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        output: object,
        kept: object,
    ) -> None:
        """One after the other."""
        assert isinstance(kept, list), "what `before` gave"
        for watch, own in zip(self.watches, kept, strict=True):
            watch.after(func, args, kwargs, output, own)


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
    """Within, shows of every output of an activation function: `reported(name, output)`.

    A mode and not module hooks, because half of all networks call `F.relu`. A function that is
    built on another (`F.relu` on `torch.relu`) is reported of once. Calls of the functions in `also` are
    reported with their arguments: `called(function, args, kwargs)`.
    """

    def __init__(
        self,
        result: Callable[[str, Tensor], None],
        *,
        also: frozenset[Callable[..., object]] = frozenset(),
        called: Callable[[Callable[..., object], object, dict[str, object]], None] | None = None,
    ) -> None:
        super().__init__()
        self.result = result
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
        """Report what the function gave."""
        if func in activation_functions():
            if isinstance(output, Tensor):
                with torch.no_grad():
                    self.result(func.__name__.strip("_"), output.detach())
        elif self.called is not None and func in self.also:
            self.called(func, args, kwargs)


def dead_units(output: Tensor, *, units: int) -> int | None:
    """How many units give one and the same value for every sample and position.

    A ReLU that never fires gives 0 everywhere, a saturated sigmoid 1: neither passes a gradient
    nor distinguishes samples. None where there is but one value per unit.

    Args:
        output: what an activation function gave.
        units: the axis of the units.

    Examples:
        >>> dead_units(torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 3.0]]), units=1)
        2
    """
    count = count_dead_units(output, units=units)
    return None if count is None else int(count)


def count_dead_units(output: Tensor, *, units: int) -> Tensor | None:
    """As `dead_units`, on the device of the output."""
    others = [axis for axis in range(output.ndim) if axis != units]
    if not others or output.numel() <= output.shape[units]:
        return None
    each = output.numel() // max(1, output.shape[0] * output.shape[units])
    if output.device.type == "cpu" and units != 0 and len(output) > 1 and each > 8:
        # most units differ within the first sample already: the others alone are looked at in all
        still = _are_constant(output[:1], others).nonzero().flatten()
        output = output.index_select(units, still)
        if not len(still):
            return still.sum()
    return _are_constant(output, others).sum()


def _are_constant(output: Tensor, others: list[int]) -> Tensor:
    """Of each unit, whether all its values are one."""
    low, high = output.amin(others), output.amax(others)
    return high == low


_MODAL = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


_NOISE = (torch.randn, torch.randn_like, torch.normal, Tensor.normal_)
"""What draws Gaussian noise in a pass."""


@functools.cache
def modal_functions() -> frozenset[Callable[..., object]]:
    """The functions whose calls say something of the mode: dropouts, norms over one sample, noise."""
    return frozenset(
        {
            *(F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout),
            *(F.feature_alpha_dropout, F.group_norm, F.layer_norm, F.instance_norm),
            *_NOISE,
        }
    )


class ModeObserver:
    """Hears of every call of a dropout or norm in a pass, as a module or as a function."""

    def __init__(self) -> None:
        self.dropped = 0.0
        self.lone_norms = 0
        self.noise = 0

    def called(self, function: Callable[..., object], args: Any, kwargs: Mapping[str, Any]) -> None:
        """Take the probability of a dropout that is on, the size of the groups of a norm; count noise."""
        if function in _NOISE:
            self.noise += 1
            return
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or x.ndim < 2:
            return
        if function is F.layer_norm:
            shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
            self.lone_norms += math.prod(shape) == 1
        elif function is F.group_norm:
            groups = int(args[1] if len(args) > 1 else kwargs["num_groups"])
            self.lone_norms += math.prod(x.shape[1:]) == groups
        elif function is F.instance_norm:
            self.lone_norms += x.ndim > 2 and math.prod(x.shape[2:]) == 1
        else:
            given = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            default = function not in (F.alpha_dropout, F.feature_alpha_dropout)
            on = args[2] if len(args) > 2 else kwargs.get("training", default)
            self.dropped = max(self.dropped, float(given) if on else 0.0)

    def measurement(self, model: nn.Module) -> Measurement:
        """The measurement `mode`, in `settings`.

        training: whether the network is in train mode; modal: how many of its modules work
        differently in eval mode; resting: of these, how many are in eval mode; dropped: the largest
        probability of a dropout that is on; lone_norms: calls of norms whose groups hold one value;
        noise: calls of functions that draw Gaussian noise.
        """
        modules = [m for m in named_modules(unwrap(model)).values() if isinstance(m, _MODAL)]
        numbers: dict[str, Number] = {
            "training": model.training,
            "modal": len(modules),
            "resting": sum(not m.training for m in modules),
            "dropped": self.dropped,
            "lone_norms": self.lone_norms,
            "noise": self.noise,
        }
        return Measurement(name="mode", blocks=(), columns={}, settings=numbers)
