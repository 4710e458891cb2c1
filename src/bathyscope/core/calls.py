"""The modules of a model: which belong to a block, and which was called when, with what shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from bathyscope.core.batch import run_forward
from bathyscope.core.errors import UsageError
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors, first_samples, main_tensor, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Block
from bathyscope.core.walks import named_modules, once


class UnbuiltModel(UsageError):
    """A model that makes modules in its first pass, before that pass."""


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
    reads: int | None = None
    """A number for the tensor that goes in: calls beside one another that read the same are branches."""

    @property
    def maps_a_tensor(self) -> bool:
        """Whether one tensor went in and a tensor came out, as a block of a body does."""
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
    if samples <= _FEW:
        return calls_of(model, inputs)
    try:
        calls = calls_of(model, first_samples(inputs, _FEW))
    except UnbuiltModel:
        raise
    except UsageError:  # the model takes batches of one size, or none: the whole batch shows
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
    numbers = WeakIdKeyDictionary()  # one for each tensor that goes into a call

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
            call.reads = numbers.setdefault(args[0], len(calls))
        if parent is not None:
            parent.children.append(call)
        calls.append(call)
        open_calls.append(call)

    def ended(module: nn.Module, args: object, output: object) -> None:
        call = open_calls.pop()
        assert call.module is module, "calls nest"
        tensor = main_tensor(output)
        if tensor is not None:
            call.out_shape = tuple(tensor.shape)
            call.returns = maker(tensor)
            made_by[tensor] = (call, tensor._version)

    with preserve_model(model, copy_parameters=False), Hooks() as hooks, torch.no_grad():
        model.eval()
        for module in names:
            check_takes_hooks(module, names[module])
            hooks.before_forward(module, began, with_kwargs=True)
            hooks.after_forward(module, ended)
        run_forward(model, copy_tensors(inputs))
        _check_none_was_made(model, names)
    return calls


def _check_none_was_made(model: nn.Module, names: Mapping[nn.Module, str]) -> None:
    """Raise where a pass has made modules that were not there before it.

    Raises:
        UnbuiltModel: it has, as one that begins with `if self.head is None` does.
    """
    made = [name for name, module in model.named_modules() if module not in names]
    if made:
        raise UnbuiltModel(
            f"The model makes {made[0]!r} in its first pass; run one batch through the model first, "
            "and make the optimizer after that, so that it holds its parameters."
        )


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


class Members:
    """The modules of a model by name, walked once for everything that is asked block by block.

    It is of use only as long as the model's modules stay as they are.
    """

    def __init__(self, model: nn.Module) -> None:
        self.root = unwrap(model)
        self.named = named_modules(self.root)
        self.names = list(self.named)
        self.known: dict[tuple[str, str], dict[str, nn.Module]] = {}

    def of(self, block: Block) -> dict[str, nn.Module]:
        """As `modules_of`; the dict is shared, so it is only read."""
        key = (block.name, block.end)
        if key not in self.known:
            self.known[key] = self._found(block)
        return self.known[key]

    def _found(self, block: Block) -> dict[str, nn.Module]:
        if block.name == block.end:
            return dict(self.root.get_submodule(block.name).named_modules(prefix=block.name))
        first, last = self.names.index(block.name), self.names.index(block.end)
        inside = takewhile(lambda n: n.startswith(f"{block.end}."), self.names[last + 1 :])
        return {name: self.named[name] for name in [*self.names[first : last + 1], *inside]}


def members_of(model: nn.Module | Members) -> Members:
    """The members of a model, or those walked before."""
    return model if isinstance(model, Members) else once(model, Members)


def modules_of(model: nn.Module | Members, block: Block) -> dict[str, nn.Module]:
    """The modules of a block by qualified name, in the order in which they were registered.

    Of a run of modules (`end != name`) these are the modules from the first to the last.

    Examples:
        >>> import torch
        >>> from bathyscope.core import blocks_of
        >>> mlp = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
        >>> [list(modules_of(mlp, block)) for block in blocks_of(mlp, torch.zeros(2, 4))]
        [['0', '1', '2'], ['3']]
    """
    return dict(members_of(model).of(block))


def num_parameters(model: nn.Module) -> int:
    """How many numbers a model's parameters are; one that is shared counts once.

    Examples:
        >>> num_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in model.parameters())


def weighted_layers(model: nn.Module, block: Block) -> dict[str, nn.Module]:
    """The layers of a block that hold a weight matrix or a kernel, norms left out."""
    return {
        name: module
        for name, module in modules_of(model, block).items()
        if any(p.ndim >= 2 for p in module.parameters(recurse=False))
    }
