"""One forward pass, written down: which module was called when, inside which, with what shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from bathyscope.core.batch import run_forward
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import copy_tensors, first_samples, main_tensor, tensors_in
from bathyscope.core.preserve import preserve_model


@dataclass(slots=True)
class Call:
    """One call of one module. Shapes are None where no single floating tensor goes in or comes out."""

    name: str
    module: nn.Module
    number: int
    order: int
    parent: "Call | None"
    in_shape: tuple[int, ...] | None
    out_shape: tuple[int, ...] | None = None
    children: list["Call"] = field(default_factory=list)
    follows: "Call | None" = None
    """The call whose output, untouched, is this one's input."""
    returns: "Call | None" = None
    """The call inside whose output, untouched, is this one's; None where a function made it."""

    @property
    def maps_a_tensor(self) -> bool:
        """Whether one tensor went in and a tensor came out, as a block of a trunk does."""
        return self.in_shape is not None and self.out_shape is not None


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside DataParallel, DistributedDataParallel and `torch.compile` wrappers.

    Examples:
        >>> inner = nn.Linear(2, 2)
        >>> unwrap(nn.DataParallel(inner)) is inner
        True
    """
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = getattr(model, "module" if isinstance(model, parallel) else "_orig_mod", None)
    return unwrap(inner) if isinstance(inner, nn.Module) else model


_FEW = 5
"""Samples that are enough to see which modules are called; a number that few other axes have."""


def calls_of_few(model: nn.Module, inputs: object) -> list[Call]:
    """`calls_of`, found on a few samples of a larger batch where that shows the same.

    The axis of the samples is the one that is as long as they are few: where there is none or more
    than one in the shapes of a call, or a module was not called though one like it beside it was (as
    of experts that few samples do not need), the whole batch is run.
    """
    samples = next((len(t) for t in tensors_in(inputs) if t.ndim), 0)
    if samples < 4 * _FEW:
        return calls_of(model, inputs)
    try:
        calls = calls_of(model, first_samples(inputs, _FEW))
    except UsageError:  # the model takes batches of one size, or none: the whole batch tells
        return calls_of(model, inputs)
    shapes = [s for c in calls for s in (c.in_shape, c.out_shape) if s is not None]
    if any(s.count(_FEW) != 1 for s in shapes) or _passes_some_by(model, calls):
        return calls_of(model, inputs)
    for call in calls:
        call.in_shape = _with_samples(call.in_shape, samples)
        call.out_shape = _with_samples(call.out_shape, samples)
    return calls


def _passes_some_by(model: nn.Module, calls: list[Call]) -> bool:
    """Whether of two modules of one kind beside each other one was called and the other was not."""
    called = {id(call.module) for call in calls}
    for module in model.modules():
        seen: dict[type, bool] = {}
        for child in module._modules.values():
            was = id(child) in called
            if child is not None and seen.setdefault(type(child), was) != was:
                return True
    return False


def _with_samples(shape: tuple[int, ...] | None, samples: int) -> tuple[int, ...] | None:
    return None if shape is None else tuple(samples if n == _FEW else n for n in shape)


def calls_of(model: nn.Module, inputs: object) -> list[Call]:
    """Every call of every module in one forward pass, in the order in which they began.

    The pass runs in eval mode and without a graph, so that blocks skipped at random in training are
    called and a batch of one is enough; the model comes back as it was.
    """
    names = {module: name for name, module in model.named_modules()}
    calls: list[Call] = []
    counts: dict[str, int] = {}
    open_calls: list[Call] = []
    made_by = (
        WeakIdKeyDictionary()
    )  # the call that gave a tensor, and how often it was written then

    def maker(tensor: Tensor) -> Call | None:
        call, version = made_by.get(tensor, (None, 0))
        return call if call is not None and version == tensor._version else None

    def began(module: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        name = names[module]
        parent = open_calls[-1] if open_calls else None
        call = Call(
            name, module, counts.get(name, 0), len(calls), parent, _shape_passed_on(args, kwargs)
        )
        counts[name] = call.number + 1
        if args and isinstance(args[0], Tensor):
            call.follows = maker(args[0])
        if parent is not None:
            parent.children.append(call)
        calls.append(call)
        open_calls.append(call)

    def ended(module: nn.Module, args: object, kwargs: object, output: object) -> None:
        call = open_calls.pop()
        assert call.module is module, "calls nest"
        tensor = main_tensor(output)
        if tensor is not None:
            call.out_shape = tuple(tensor.shape)
            call.returns = maker(tensor)
            made_by[tensor] = (call, tensor._version)

    with preserve_model(model, copy_parameters=False), torch.no_grad():
        model.eval()
        for module in names:
            check_takes_hooks(module, names[module])
            module.register_forward_pre_hook(began, with_kwargs=True)
            module.register_forward_hook(ended, with_kwargs=True)
        run_forward(model, copy_tensors(inputs))
    return calls


def check_takes_hooks(module: nn.Module, name: str) -> None:
    """Raise where nothing can listen to a module.

    Raises:
        UsageError: torch.jit has compiled it.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise UsageError(
            f"{f'{name} of the model' if name else 'The model'} is compiled by torch.jit, which "
            "takes no hooks: its blocks cannot be seen. Pass the module that it was made from."
        )


def _shape_passed_on(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[int, ...] | None:
    """The shape of the one floating tensor that goes in first; None for a list of them or none."""
    first = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(first, Tensor) and first.is_floating_point():
        return tuple(first.shape)
    return None
