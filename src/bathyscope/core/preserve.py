"""The context that puts a model back as it was, bit for bit, also after an exception."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.global_state import RngState, measuring, one_at_a_time
from bathyscope.core.hooks import run_eagerly
from bathyscope.core.module_state import ManyModules, ModuleState, refill, restore_each
from bathyscope.core.snapshot import (
    Restore,
    snapshot_tensors,
    version_of,
    write_back,
    write_together,
)
from bathyscope.core.walks import FSDP, reshard, sharded_modules

_TENSOR_HOOK_TABLES = ("_backward_hooks", "_post_accumulate_grad_hooks")


@contextmanager
def preserve_model(model: nn.Module, *, copy_parameters: bool = True) -> Iterator[nn.Module]:
    """Put parameters, buffers, `.grad`, hooks, train/eval modes and RNG back on the way out.

    So are the attributes of every module, also those that hold tensors, containers and random
    generators (`core.snapshot`), and submodules that a pass has made are let go. Inside, every
    `.grad` is None, so that a backward pass adds nothing to the user's gradients. Another
    thread that comes here waits until this one has left.

    Args:
        model: the model to protect; it is yielded unchanged.
        copy_parameters: keep a copy of every parameter's values. A caller that writes to no
            parameter can spare the memory; what else is restored does not depend on it. Weights
            that a forward pass rewrites (an embedding with `max_norm`) are always copied.

    Examples:
        >>> model = nn.BatchNorm1d(3)
        >>> with preserve_model(model):
        ...     _ = model(torch.randn(8, 3)).sum().backward()
        >>> int(model.num_batches_tracked), model.weight.grad
        (0, None)
    """
    with one_at_a_time():
        outer = _open[-1] if _open else None
        if not copy_parameters and outer is not None and outer.covers(model):
            with _closed_to_others(None):
                try:
                    yield model
                finally:
                    outer.rewind()
        else:
            with _protection(model, copy_parameters=copy_parameters), _closed_to_others(None):
                yield model


@contextmanager
def preserve_once(model: nn.Module) -> Iterator[None]:
    """One protection for a row of measurements, each of which asks for its own (`preserve_model`).

    What stands is looked at once. Inside, a protection without copies of the parameters that is opened
    directly takes no second look on the way in: on the way out it gives back what stood here, so
    that each of the row finds the model as the first one did. Hooks that something inside has set stay
    until it removes them, or until the end of the row. A protection inside of one of those is one
    of its own again, because the model may have been changed by then.
    """
    with (
        one_at_a_time(),
        _protection(model, copy_parameters=False) as protection,
        _closed_to_others(protection),
    ):
        yield


_open: list["_Protection | None"] = []
"""The protections that are open, outermost first; None for those that others inside cannot share."""


@contextmanager
def _closed_to_others(protection: "_Protection | None") -> Iterator[None]:
    _open.append(protection)
    try:
        yield
    finally:
        _open.pop()


@contextmanager
def _protection(model: nn.Module, *, copy_parameters: bool) -> Iterator["_Protection"]:
    with ExitStack() as stack:
        inside = list(model.modules())
        sharded = sharded_modules(inside) if FSDP in sys.modules else []
        if sharded:
            reshard(sharded)  # what is put back below are the shards
        stack.enter_context(run_eagerly(inside))
        rewritten = _rewritten_by_a_pass(inside)
        modules = ManyModules(inside)
        held = {id(p): p for m in inside for p in m._parameters.values() if p is not None}
        parameters = [
            _ParameterState.of(p, copy=copy_parameters or id(p) in rewritten) for p in held.values()
        ]
        values = [RngState.now().restore, *_snapshot_buffers(inside)]
        of_parameters = [state.restore for state in parameters]
        is_far = any(p.device.type != "cpu" for p in held.values())
        stack.callback(_restore_all, [*values, modules.restore, *of_parameters], is_far=is_far)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.parameter.grad = None
        if sharded:
            stack.callback(reshard, sharded)
        stack.enter_context(measuring())
        yield _Protection(values, modules, parameters, sharded, is_far=is_far)


class _Protection:
    """What stood when a protection began."""

    def __init__(
        self,
        values: list[Restore],  # of random numbers and of buffers
        modules: "ManyModules",
        parameters: list["_ParameterState"],
        sharded: list[nn.Module],
        *,
        is_far: bool,
    ) -> None:
        self.values = values
        self.sharded = sharded
        self.is_far = is_far  # on an accelerator
        self.modules = modules
        self.parameters = parameters

    def covers(self, model: nn.Module) -> bool:
        """Whether all of a model is protected: it is the one, or a part of it."""
        return any(module is model for module in self.modules.modules)

    def rewind(self) -> None:
        """Give everything back but hooks and gradients of before, of which a pass inside finds none."""
        if self.sharded:
            reshard(self.sharded)
        of_parameters = [state.rewind for state in self.parameters]
        _restore_all([*self.values, self.modules.rewind, *of_parameters], is_far=self.is_far)


@contextmanager
def preserve_buffers(model: nn.Module) -> Iterator[None]:
    """Put buffers and RNG back: what one of several passes inside `preserve_model` leaves behind."""
    with_buffers = [module for module in model.modules() if module._buffers]
    states = [RngState.now().restore, *_snapshot_buffers(with_buffers)]
    states += [ModuleState.of(module).restore for module in with_buffers]
    try:
        yield
    finally:
        _restore_all(states, is_far=any(b.device.type != "cpu" for b in model.buffers()))


def _snapshot_buffers(modules: Iterable[nn.Module]) -> list[Restore]:
    buffers = [b for m in modules if m._buffers for b in m._buffers.values() if b is not None]
    return snapshot_tensors(buffers) if buffers else []


def _restore_all(states: Sequence[Restore], *, is_far: bool) -> None:
    """From last to first, and each of them even where another one raises; on an accelerator in few waits."""
    with write_together() if is_far else nullcontext():
        restore_each(states)


def _rewritten_by_a_pass(modules: Iterable[nn.Module]) -> set[int]:
    """The parameters that a forward pass overwrites: embeddings rescale rows beyond `max_norm`."""
    bounded = [m for m in modules if vars(m).get("max_norm") is not None]
    return {id(p) for module in bounded for p in module.parameters(recurse=False)}


@dataclass(frozen=True, slots=True)
class _ParameterState:
    parameter: nn.Parameter
    data: Tensor
    values: Tensor | None
    grad: Tensor | None
    requires_grad: bool
    address: int
    version: int | None
    hooks: dict[str, object]

    @classmethod
    def of(cls, parameter: nn.Parameter, *, copy: bool) -> "_ParameterState":
        data = parameter.data
        return cls(
            parameter,
            data,
            parameter.detach().clone() if copy else None,
            parameter.grad,
            parameter.requires_grad,
            _address(data),
            version_of(parameter) if copy else None,
            {
                name: dict(table)
                for name in _TENSOR_HOOK_TABLES
                if (table := getattr(parameter, name, None))
            },
        )

    def rewind(self) -> None:
        """Give the values back, and leave no gradient."""
        if _address(self.parameter) != self.address:
            self.parameter.data = self.data
        if self.values is not None:
            write_back(self.parameter, self.values, version=self.version)
        if self.parameter.grad is not None:
            self.parameter.grad = None
        if self.parameter.requires_grad != self.requires_grad:
            self.parameter.requires_grad_(self.requires_grad)

    def restore(self) -> None:
        """Give back everything."""
        self.rewind()
        if self.grad is not None:
            self.parameter.grad = self.grad
        for name in _TENSOR_HOOK_TABLES:
            now = getattr(self.parameter, name, None)
            if now or name in self.hooks:
                refill(now, self.hooks.get(name))


def _address(tensor: Tensor) -> int:
    """Where the values lie; tensors without a storage (sparse, meta) all have the address 0."""
    return tensor.data_ptr() if tensor.layout is torch.strided and not tensor.is_meta else 0
