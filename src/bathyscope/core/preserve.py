"""The context that puts a model back as it was, bit for bit, also after an exception."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.global_state import RngState, measuring, one_at_a_time
from bathyscope.core.hooks import run_eagerly
from bathyscope.core.sharded import FSDP, reshard, sharded_modules
from bathyscope.core.snapshot import (
    MUTABLE,
    Restore,
    snapshot,
    snapshot_tensors,
    version_of,
    write_back,
    write_together,
)

# Every table of hooks that torch keeps on a module; a name that a torch version lacks is passed over.
HOOK_TABLES = (
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
_OWN_TABLES = frozenset(
    {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", *HOOK_TABLES}
)


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
        modules = [_ModuleState.of(module) for module in inside]
        held = {id(p): p for m in inside for p in m._parameters.values() if p is not None}
        parameters = [
            _ParameterState.of(p, copy=copy_parameters or id(p) in rewritten) for p in held.values()
        ]
        values = [RngState.now().restore, *_snapshot_buffers(inside)]
        of_modules = [state.restore for state in modules]
        of_parameters = [state.restore for state in parameters]
        is_far = any(p.device.type != "cpu" for p in held.values())
        stack.callback(_restore_all, [*values, *of_modules, *of_parameters], is_far=is_far)
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
        modules: list["_ModuleState"],
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
        self.contents = [restore for state in modules for restore in state.contents]
        self.tables = [
            table
            for module in (state.module for state in modules)
            for table in (vars(module), module._parameters, module._buffers, module._modules)
        ]
        self.sizes = list(map(len, self.tables))
        self.keys = self._keys_now()
        self.entries = list(chain.from_iterable(table.values() for table in self.tables))

    def _keys_now(self) -> list[str]:
        # .keys(): a table of a module of torch.jit cannot be iterated over
        return list(chain.from_iterable(table.keys() for table in self.tables))

    def covers(self, model: nn.Module) -> bool:
        """Whether all of a model is protected: it is the one, or a part of it."""
        return any(state.module is model for state in self.modules)

    def rewind(self) -> None:
        """Give everything back but hooks and gradients of before, of which a pass inside finds none."""
        if self.sharded:
            reshard(self.sharded)
        of_parameters = [state.rewind for state in self.parameters]
        _restore_all([*self.values, self._rewind_modules, *of_parameters], is_far=self.is_far)

    def _rewind_modules(self) -> None:
        for state in self.modules:
            state.rewind_mode()
        # of most passes nothing else is left behind: all modules are seen in two comparisons
        now = chain.from_iterable(table.values() for table in self.tables)
        are_same = (
            list(map(len, self.tables)) == self.sizes
            and self._keys_now() == self.keys
            and all(map(is_, now, self.entries))
        )
        _restore_each(self.contents if are_same else [state.rewind for state in self.modules])


@contextmanager
def preserve_buffers(model: nn.Module) -> Iterator[None]:
    """Put buffers and RNG back: what one of several passes inside `preserve_model` leaves behind."""
    with_buffers = [module for module in model.modules() if module._buffers]
    states = [RngState.now().restore, *_snapshot_buffers(with_buffers)]
    states += [_ModuleState.of(module).restore for module in with_buffers]
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
        _restore_each(states)


def _restore_each(states: Sequence[Restore]) -> None:
    for number in reversed(range(len(states))):
        try:
            states[number]()
        except BaseException:
            _restore_each(states[:number])
            raise


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
                _refill(now, self.hooks.get(name))


@dataclass(frozen=True, slots=True)
class _ModuleState:
    module: nn.Module
    training: bool
    parameters: dict[str, nn.Parameter | None]
    buffers: dict[str, Tensor | None]
    modules: dict[str, nn.Module | None]
    attributes: dict[str, object]
    contents: list[Restore]  # of attributes that hold something
    hooks: dict[str, object]  # but for empty tables

    @classmethod
    def of(cls, module: nn.Module) -> "_ModuleState":
        own = vars(module)
        parameters, buffers = module._parameters, module._buffers
        contents: list[Restore] = []
        seen: set[int] = set()
        for name, value in own.items():
            if type(value) in MUTABLE and name not in _OWN_TABLES:
                restore = snapshot(value, seen)
                if restore is not None:
                    contents.append(restore)
        return cls(
            module,
            module.training,
            dict(parameters) if parameters else {},
            dict(buffers) if buffers else {},
            dict(module._modules),
            dict(own),
            contents,
            {n: _copy_of(own[n]) for n in HOOK_TABLES if own.get(n) not in (None, {})}
            if _has_hooks(own)
            else {},
        )

    def rewind_mode(self) -> None:
        """Give back train or eval mode."""
        own = vars(self.module)
        if own.get("training") is not self.training:
            if "training" in own:
                own["training"] = self.training  # what `module.training = …` comes to, much sooner
            else:
                self.module.training = self.training

    def rewind(self) -> None:
        """Give back everything but the hooks."""
        module, own = self.module, vars(self.module)
        self.rewind_mode()
        if self.parameters or module._parameters:
            _refill(module._parameters, self.parameters)
        if self.buffers or module._buffers:
            _refill(module._buffers, self.buffers)
        if self.modules or module._modules:
            _refill(module._modules, self.modules)
        same = all(map(is_, own.values(), self.attributes.values()))
        if not same or len(own) != len(self.attributes):
            for name in own.keys() - self.attributes.keys():
                del own[name]
            own |= self.attributes
        for restore in self.contents:
            restore()

    def restore(self) -> None:
        """Give back everything."""
        self.rewind()
        own = vars(self.module)
        if not self.hooks and not _has_hooks(own):
            return
        for name in HOOK_TABLES:
            table, now = self.hooks.get(name), own.get(name)
            if isinstance(now, dict):
                if now or table:
                    _refill(now, table)
            elif table is not None or now is not None:
                own[name] = table


def _address(tensor: Tensor) -> int:
    """Where the values lie; tensors without a storage (sparse, meta) all have the address 0."""
    return tensor.data_ptr() if tensor.layout is torch.strided and not tensor.is_meta else 0


def _has_hooks(own: dict[str, object]) -> bool:
    """Whether any table of a module holds something; quick, for hardly any does."""
    return any(map(own.get, HOOK_TABLES)) or own.get("_is_full_backward_hook") is not None


def _copy_of(table: object) -> object:
    return dict(table) if isinstance(table, dict) else table


def _refill(table: object, contents: object) -> None:
    """Give a dict its former contents, in order, without replacing the dict: others may hold it."""
    if isinstance(table, dict) and (table or contents):
        if isinstance(contents, dict) and _are_the_same(table, contents):
            return
        table.clear()
        table.update(contents if isinstance(contents, dict) else {})


def _are_the_same(first: dict[Any, object], second: dict[Any, object]) -> bool:
    """Whether two dicts hold the same objects under the same keys in the same order."""
    return list(first) == list(second) and all(map(is_, first.values(), second.values()))
