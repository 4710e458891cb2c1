"""Parameters that the output needs and the model does not list, and listed ones that get no gradient."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors, predictions
from bathyscope.core.preserve import preserve_model
from bathyscope.core.walks import named_modules, named_parameters
from bathyscope.measure.dependence.eval_pass import (
    EvalPass,
    NotMeasurable,
    few_in_eval_pass,
    few_of,
)
from bathyscope.measure.dependence.sample_mixing import tolerance_of

_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
_MOST_NODES = 200_000


@dataclass(frozen=True, slots=True)
class ParameterLists:
    """What the graph of a pass, the model's list of parameters and the optimizer's disagree on.

    Attributes:
        unlisted: shapes of trainable tensors in the graph that neither model nor optimizer lists.
        held_by: the attribute that holds the first of them (a list, a dict, a tensor), None where none does.
        made_in_forward: whether no attribute of the model holds them: the pass makes them.
        repeated: containers that hold one layer several times, as `name (times)`.
        foreign: tensors of the optimizer that are not the model's.
        untied: names of two weights that the configuration ties and that are not one tensor.
        not_checked: what was left out, and why.
    """

    unlisted: tuple[str, ...]
    held_by: str | None
    made_in_forward: bool
    repeated: tuple[str, ...]
    foreign: int
    untied: tuple[str, str] | None
    not_checked: tuple[str, ...] = ()


def parameter_lists(
    model: nn.Module, batch: Batch, *, optimizer: torch.optim.Optimizer | None = None
) -> ParameterLists:
    """The trainable leaves of the output's graph against what the model and the optimizer list.

    Args:
        model: any module, left as it was.
        batch: inputs and targets; few samples are run.
        optimizer: the one meant for training.

    Examples:
        >>> class Hidden(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layers = [nn.Linear(3, 3), nn.Linear(3, 2)]  # no ModuleList
        ...         self.scale = nn.Parameter(torch.ones(1))
        ...     def forward(self, x):
        ...         return self.scale * self.layers[1](self.layers[0](x))
        >>> found = parameter_lists(Hidden(), (torch.randn(4, 3), None))
        >>> len(found.unlisted), found.held_by
        (4, 'layers')
    """
    model = unwrap(model)
    with preserve_model(model, copy_parameters=False):
        try:
            ran, _ = few_in_eval_pass(model, batch[0])
        except NotMeasurable as error:
            return _lists(model, [], optimizer, (f"parameters: {error}",))
        return lists_of_pass(model, ran, optimizer=optimizer)


def lists_of_pass(
    model: nn.Module, ran: EvalPass, *, optimizer: torch.optim.Optimizer | None = None
) -> ParameterLists:
    """As `parameter_lists`, from a pass that was run."""
    given = {id(leaf) for leaf in ran.leaves}
    leaves = [t for t in graph_leaves(ran.output) if id(t) not in given]
    return _lists(model, leaves, optimizer, ())


def _lists(
    model: nn.Module,
    leaves: list[Tensor],
    optimizer: torch.optim.Optimizer | None,
    not_checked: tuple[str, ...],
) -> ParameterLists:
    listed = {id(p) for p in named_parameters(model).values()}
    groups = optimizer.param_groups if optimizer is not None else []
    stepped = {id(p) for group in groups for p in group["params"]}
    known = listed | stepped
    unlisted = [t for t in leaves if id(t) not in known]
    holder = _holder(model, unlisted[0]) if unlisted else None
    return ParameterLists(
        unlisted=tuple(" × ".join(map(str, t.shape)) for t in unlisted),
        held_by=holder,
        made_in_forward=bool(unlisted) and holder is None,
        repeated=tuple(repeated_layers(model)),
        foreign=len(stepped - listed),
        untied=_untied(model),
        not_checked=not_checked,
    )


def graph_leaves(output: Tensor) -> Iterator[Tensor]:
    """The tensors that a backward pass from the output would give a gradient to."""
    waiting: list[Node | None] = [output.grad_fn]
    seen: set[Node] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            yield leaf
        waiting.extend(following for following, _ in node.next_functions)


def repeated_layers(model: nn.Module) -> Iterator[str]:
    """Containers that hold one layer with parameters more than once, as `[layer] * n` makes them.

    Examples:
        >>> list(repeated_layers(nn.Sequential(*[nn.Linear(2, 2)] * 3)))
        ['(3 times)']
    """
    for name, module in named_modules(model).items():
        if not isinstance(module, _CONTAINERS):
            continue
        held: dict[int, int] = {}
        for child in module._modules.values():
            if child is not None and next(child.parameters(), None) is not None:
                held[id(child)] = held.get(id(child), 0) + 1
        most = max(held.values(), default=0)
        if most > 1:
            yield f"{name} ({most} times)".strip()


def _holder(model: nn.Module, tensor: Tensor) -> str | None:
    """The attribute of a module that holds a tensor outside of its parameters."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_") and name in ("_parameters", "_modules", "_buffers"):
                continue
            if any(t is tensor for t in _tensors_below(value, depth=4)):
                return f"{prefix}.{name}".lstrip(".")
    return None


def _tensors_below(value: object, *, depth: int) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()
        yield from (t for v in vars(value).values() if isinstance(v, Tensor) for t in (v,))
    elif depth and isinstance(value, (Mapping, list, tuple, set)):
        items: Iterable[object] = value.values() if isinstance(value, Mapping) else value
        for item in items:
            yield from _tensors_below(item, depth=depth - 1)
    elif depth and _may_hold_tensors(value):
        for item in vars(value).values():
            yield from _tensors_below(item, depth=max(0, depth - 2))


def _may_hold_tensors(value: object) -> bool:
    """Whether it is an object of a user's own class."""
    package = type(value).__module__.split(".")[0]
    plain = hasattr(value, "__dict__") and not isinstance(value, type)
    return plain and package not in ("torch", "builtins", "logging")


def _untied(model: nn.Module) -> tuple[str, str] | None:
    """Embedding and head of a model whose configuration ties them, where they are two tensors."""
    config = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False):
        return None
    ends = [getattr(model, f"get_{end}_embeddings", None) for end in ("input", "output")]
    try:
        result = [end() if callable(end) else None for end in ends]
    except Exception:  # a user's own code may raise anything
        return None
    weights = [getattr(module, "weight", None) for module in result]
    first, last = weights
    if not isinstance(first, Tensor) or not isinstance(last, Tensor) or first is last:
        return None
    if first.shape != last.shape or first.data_ptr() == last.data_ptr():
        return None
    names = {id(p): name for name, p in model.named_parameters()}
    return names.get(id(first), "embedding"), names.get(id(last), "head")


@dataclass(frozen=True, slots=True)
class DetachedParameters:
    """Parameters without a gradient whose values nevertheless change the output.

    Attributes:
        names: those that were changed together; empty where the output did not change.
        change: relative change of the output.
        not_checked: what was left out, and why.
    """

    names: tuple[str, ...]
    change: float
    not_checked: tuple[str, ...] = ()


def detached_parameters(
    model: nn.Module, batch: Batch, *, unreached: Iterable[str]
) -> DetachedParameters:
    """Whether parameters that a backward pass does not reach change the output, in eval mode.

    A layer that is never called has no gradient either, and changes nothing. One behind `detach`, `no_grad`,
    `.data` or a re-entrant checkpoint whose input needs no gradient works, and never learns.

    Args:
        model: any module, left as it was.
        batch: inputs and targets; few samples are run.
        unreached: names of trainable parameters without a gradient.

    Examples:
        >>> class Cut(nn.Sequential):
        ...     def forward(self, x):
        ...         return self[1](self[0](x).detach())
        >>> net = Cut(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 2))  # the third one is never called
        >>> detached_parameters(net, (torch.randn(4, 3), None), unreached=["0.weight", "2.weight"]).names
        ('0.weight',)
    """
    model = unwrap(model)
    wanted = list(unreached)
    inputs, _ = few_of(batch[0])
    names = []
    largest = 0.0
    with preserve_model(model), torch.no_grad():
        model.eval()
        try:
            before = predictions(run_forward(model, copy_tensors(inputs)))
            if before is None:
                return DetachedParameters((), 0.0, ("detached parameters: no output tensor",))
            for group in _by_layer(wanted):
                change = _change(model, inputs, group, before)
                if change > 10 * tolerance_of(before):
                    names += group
                    largest = max(largest, change)
        except BathyscopeError as error:
            return DetachedParameters((), 0.0, (f"detached parameters: {error}",))
    return DetachedParameters(tuple(names), largest)


_MOST_LAYERS = 8
"""Layers that are tried one by one; of more, the first ones."""


def _by_layer(names: list[str]) -> list[list[str]]:
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    return list(layers.values())[:_MOST_LAYERS]


def _change(model: nn.Module, inputs: object, names: list[str], before: torch.Tensor) -> float:
    generator = torch.Generator().manual_seed(0)
    originals = {}
    for name in names:
        parameter = model.get_parameter(name)
        originals[name] = parameter.detach().clone()
        noise = torch.randn(parameter.shape, generator=generator, device="cpu").to(parameter)
        parameter.add_(noise * (parameter.abs().mean() + 0.1))
    try:
        after = predictions(run_forward(model, copy_tensors(inputs)))
    finally:
        for name, value in originals.items():
            model.get_parameter(name).copy_(value)
    if after is None or after.shape != before.shape:
        return 0.0
    size = float(before.abs().max()) or 1.0
    return float((after - before).abs().nan_to_num(0.0).max()) / size
