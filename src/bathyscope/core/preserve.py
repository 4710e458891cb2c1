"""The context that puts a model back as it was, bit for bit, also after an exception."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Every table of hooks that torch keeps on a module; a name that a torch version lacks is passed over.
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_TENSOR_HOOK_TABLES = ("_backward_hooks", "_post_accumulate_grad_hooks")


_inside = threading.local()


def is_measuring() -> bool:
    """Whether this thread is inside `measuring`: a pass then belongs to a measurement, no training."""
    return getattr(_inside, "depth", 0) > 0


@contextmanager
def measuring() -> Iterator[None]:
    """Mark the passes inside as a measurement's, for whoever watches the training of the same model."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        yield
    finally:
        _inside.depth -= 1


@contextmanager
def preserve_model(model: nn.Module, *, copy_parameters: bool = True) -> Iterator[nn.Module]:
    """Put parameters, buffers, `.grad`, hooks, train/eval modes and RNG back on the way out.

    Inside, every `.grad` is None, so that a backward pass adds nothing to the user's gradients.

    Args:
        model: the model to protect; it is yielded unchanged.
        copy_parameters: keep a copy of every parameter's values. A caller that writes to no
            parameter can spare the memory; what else is restored does not depend on it.

    Examples:
        >>> model = nn.BatchNorm1d(3)
        >>> with preserve_model(model):
        ...     _ = model(torch.randn(8, 3)).sum().backward()
        >>> int(model.num_batches_tracked), model.weight.grad
        (0, None)
    """
    modules = [_ModuleState.of(module) for module in model.modules()]
    parameters = [_ParameterState.of(p, copy=copy_parameters) for p in model.parameters()]
    rng = RngState.now()
    try:
        for parameter in parameters:
            parameter.parameter.grad = None
        with measuring():
            yield model
    finally:
        for parameter in parameters:
            parameter.restore()
        for module in modules:
            module.restore()
        rng.restore()


@dataclass(frozen=True, slots=True)
class _ParameterState:
    parameter: nn.Parameter
    data: Tensor
    values: Tensor | None
    grad: Tensor | None
    requires_grad: bool
    hooks: dict[str, Any]

    @classmethod
    def of(cls, parameter: nn.Parameter, *, copy: bool) -> "_ParameterState":
        return cls(
            parameter,
            parameter.data,
            parameter.detach().clone() if copy else None,
            parameter.grad,
            parameter.requires_grad,
            {name: _copy_of(getattr(parameter, name, None)) for name in _TENSOR_HOOK_TABLES},
        )

    def restore(self) -> None:
        if self.parameter.data_ptr() != self.data.data_ptr():
            self.parameter.data = self.data
        if self.values is not None:
            with torch.no_grad():
                self.parameter.copy_(self.values)
        self.parameter.grad = self.grad
        self.parameter.requires_grad_(self.requires_grad)
        for name, table in self.hooks.items():
            _refill(getattr(self.parameter, name, None), table)


@dataclass(frozen=True, slots=True)
class _ModuleState:
    module: nn.Module
    training: bool
    parameters: dict[str, nn.Parameter | None]
    buffers: dict[str, Tensor | None]
    buffer_values: dict[str, Tensor]
    hooks: dict[str, Any]

    @classmethod
    def of(cls, module: nn.Module) -> "_ModuleState":
        buffers = dict(module._buffers)
        return cls(
            module,
            module.training,
            dict(module._parameters),
            buffers,
            {name: b.detach().clone() for name, b in buffers.items() if b is not None},
            {name: _copy_of(getattr(module, name, None)) for name in _HOOK_TABLES},
        )

    def restore(self) -> None:
        self.module.training = self.training
        _refill(self.module._parameters, self.parameters)
        _refill(self.module._buffers, self.buffers)
        with torch.no_grad():
            for name, values in self.buffer_values.items():
                buffer = self.buffers[name]
                assert buffer is not None
                buffer.copy_(values)
        for name, table in self.hooks.items():
            if isinstance(table, dict):
                _refill(getattr(self.module, name, None), table)
            elif table is not None or hasattr(self.module, name):
                setattr(self.module, name, table)


@dataclass(frozen=True, slots=True)
class RngState:
    """The state of torch's, numpy's and Python's global random numbers."""

    cpu: Tensor
    cuda: list[Tensor]
    numpy: Any
    python: Any

    @classmethod
    def now(cls) -> "RngState":
        """As it is."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return cls(torch.get_rng_state(), cuda, np.random.get_state(), random.getstate())  # noqa: NPY002

    def restore(self) -> None:
        """Put it back."""
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)


def _copy_of(table: Any) -> Any:
    return dict(table) if isinstance(table, dict) else table


def _refill(table: Any, contents: Any) -> None:
    """Give a dict its former contents, in order, without replacing the dict: others may hold it."""
    if isinstance(table, dict):
        table.clear()
        table.update(contents or {})
