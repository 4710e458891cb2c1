"""Which parameters are trained, and the gradients that reach them, as a whole and per block."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, run_forward
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import Members, members_of, unwrap
from bathyscope.core.devices import is_packed, on_a_copy_without_double
from bathyscope.core.fetch import fetch
from bathyscope.core.hooks import Hooks
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.probe import probe
from bathyscope.core.records import Block, Measurement, Number
from bathyscope.core.walks import named_parameters
from bathyscope.linalg.norms import frobenius_norms
from bathyscope.measure.layers import parameters_of
from bathyscope.measure.rows import Rows, find_blocks

_NAMED = 6
"""Parameters of a list that are named; the others are counted."""

_PASSES = 8
"""Most further passes in which a layer is looked for that did not run in one."""


def parameters_measurement(
    model: nn.Module,
    gradients: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer | None,
    *,
    inputs: object = None,
) -> Measurement:
    """The measurement `parameters`: counts and names over the whole network, in `settings`.

    parameters: how many tensors; frozen: of them without `requires_grad`; missing: trained, reached
    by a gradient other than zero, and not in the optimizer; twice: more than once in it; unreached:
    trained, but no part of the loss; left_out: not counted among those, as their layer runs in other
    passes over the same `inputs`, if they are given (stochastic depth); zero_gradient: of those
    reached, how many have a gradient that is zero throughout; zero_head: whether the last weight is
    zero; decay_over_gradient: the median, over weights, of the pull of weight decay in units of the
    gradient's (for an optimizer that divides by the gradient's size, of its step); largest_decay: of
    the optimizer's groups. Lists of names end in `_names`.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        >>> sgd = torch.optim.SGD(model[0].parameters(), lr=0.1)
        >>> gradients = {n: torch.ones_like(p) for n, p in model.named_parameters()}
        >>> found = parameters_measurement(model, gradients, sgd).settings
        >>> found["missing"], found["missing_names"]
        (2, '1.weight, 1.bias')
    """
    named = named_parameters(unwrap(model))
    frozen = [n for n, p in named.items() if not p.requires_grad]
    reached = [n for n, g in gradients.items() if n in named]
    weights = [p for p in named.values() if p.ndim >= 2 and not is_packed(p)]
    head = [weight.detach().any() for weight in weights[-1:]]
    any_entry = fetch([*(gradients[n].any() for n in reached), *head])
    zero_head = any_entry.pop() == [0.0] if head else False
    zero = [n for n, (is_some,) in zip(reached, any_entry, strict=True) if not is_some]
    unreached = [n for n, p in named.items() if p.requires_grad and n not in gradients]
    left_out: set[str] = set()
    if unreached and inputs is not None and model.training:
        left_out = left_out_at_random(model, inputs, unreached)
        unreached = [n for n in unreached if n not in left_out]
    numbers: dict[str, Number] = {
        "parameters": len(named),
        "entries": sum(p.numel() for p in named.values()),
        **_listed("frozen", frozen),
        "frozen_entries": sum(named[n].numel() for n in frozen),
        **_listed("unreached", unreached),
        "left_out": len(left_out),
        "zero_head": zero_head,
        "reached": len(reached),
        "zero_gradient": len(zero),
    }
    if optimizer is not None:
        held = Counter(id(p) for group in optimizer.param_groups for p in group["params"])
        moving = [n for n in reached if n not in set(zero)]
        numbers |= _listed("missing", [n for n in moving if id(named[n]) not in held])
        numbers |= _listed("twice", [n for n, p in named.items() if held[id(p)] > 1])
        decays = [float(group.get("weight_decay") or 0.0) for group in optimizer.param_groups]
        numbers["largest_decay"] = max(decays, default=0.0)
        numbers["decay_over_gradient"] = _decay_over_gradient(named, gradients, optimizer)
    return Measurement(name="parameters", blocks=(), columns={}, settings=numbers)


def left_out_at_random(model: nn.Module, inputs: object, names: Iterable[str]) -> set[str]:
    """Of these parameters, those whose layer a pass leaves out and another one runs.

    The first pass draws the random numbers that a measurement before it drew, and so leaves out the
    same layers. If the second runs none of them, they are taken for layers that never run.

    Examples:
        >>> class Twice(nn.Sequential):
        ...     def forward(self, x):
        ...         return x + self[0](x) if torch.rand(()) < 0.5 else x + self[1](x)
        >>> net = Twice(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Linear(2, 2))
        >>> _ = torch.manual_seed(0)  # 0.496 is drawn first, then 0.768
        >>> left_out_at_random(net, torch.zeros(1, 2), ["0.weight", "1.weight", "2.weight"])
        {'1.weight'}
    """
    model = unwrap(model)
    owners = {name: name.rpartition(".")[0] for name in names}
    ran: set[str] = set()
    result: set[str] = set()
    with preserve_model(model, copy_parameters=False), Hooks() as hooks, torch.no_grad():
        for owner in set(owners.values()):
            module = model.get_submodule(owner)
            hooks.before_forward(module, lambda *_, owner=owner: ran.add(owner))
        run_forward(model, copy_tensors(inputs))
        idle = set(owners.values()) - ran
        for _ in range(_PASSES):
            ran.clear()
            if idle:
                run_forward(model, copy_tensors(inputs))
            if not idle & ran:
                break
            result |= idle & ran
            idle -= ran
    return {name for name, owner in owners.items() if owner in result}


def _listed(name: str, names: Sequence[str]) -> dict[str, Number]:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return {name: len(names), f"{name}_names": ", ".join(names[:_NAMED]) + more}


def _decay_over_gradient(
    named: Mapping[str, nn.Parameter],
    gradients: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
) -> float | None:
    """Median over the weights that decay of λ‖W‖/‖g‖, or of λ‖W‖/√n where each entry steps by one."""
    names = {id(p): n for n, p in named.items()}
    decoupled = type(optimizer).__name__ in ("AdamW", "NAdamW", "Lion", "Adafactor")
    pulls: list[tuple[float, Tensor, Tensor]] = []
    for group in optimizer.param_groups:
        decay = group.get("weight_decay") or 0.0
        for parameter in _weights(group["params"]):
            gradient = gradients.get(names.get(id(parameter), ""))
            if not decay or gradient is None:
                continue
            pulls.append((float(decay), parameter, gradient))
    sizes = frobenius_norms([parameter.detach() for _, parameter, _ in pulls])
    if decoupled:
        pushes = [parameter.numel() ** 0.5 for _, parameter, _ in pulls]
    else:
        pushes = frobenius_norms([gradient for _, _, gradient in pulls])
    each = zip(pulls, sizes, pushes, strict=True)
    ratios = [decay * size / push for (decay, _, _), size, push in each if push > 0]
    return sorted(ratios)[len(ratios) // 2] if ratios else None


def _weights(parameters: Iterable[Tensor]) -> Iterable[Tensor]:
    return (p for p in parameters if p.ndim >= 2 and p.numel())


@on_a_copy_without_double
def parameter_gradients(
    model: nn.Module, batch: Batch, *, loss: LossFn, blocks: Iterable[str] | Blocks | None = None
) -> Measurement:
    """Norm of the gradient of every block's matrices and kernels, and how it compares.

    Columns, one value per block, over its weights with two axes or more:
        norm: ‖∂E/∂W‖ of all of them together; None where the block has none, or none is trained.
        fraction: the norm as a fraction of the largest of all blocks.
        zero_layers: how many of them have a gradient of zero throughout.
        scale_fraction: the norm over the block's scales (weights of norms, with one axis), as a fraction of
            the largest of all blocks; None where it has none.

    Args:
        model: any module; it is left as it was.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: names or globs, or blocks found before; by default they are found.

    Examples:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        >>> with torch.no_grad():
        ...     _ = model[1].weight.zero_()
        >>> found = parameter_gradients(model, (torch.ones(1, 2), None), loss=lambda y, _: y.sum())
        >>> found["zero_layers"]
        (1, 0)
    """
    result = find_blocks(model, batch, blocks)
    return parameter_gradient_measurement(
        model, result, probe(model, batch, loss=loss, blocks=result).gradients
    )


def parameter_gradient_measurement(
    model: nn.Module, blocks: Blocks, gradients: Mapping[str, Tensor]
) -> Measurement:
    """The measurement `parameter_gradients`, given the gradients of a pass by parameter name."""
    rows = Rows(blocks, ("norm", "fraction", "zero_layers", "scale_fraction"))
    members = members_of(model)
    norms: dict[int, float] = {}
    scales: dict[int, float] = {}
    trained = {block: _trained_names(members, block) for block in blocks}
    names_of = (n for pair in trained.values() for names in pair for n in names)
    every = list(dict.fromkeys(n for n in names_of if n in gradients))
    known = dict(zip(every, frobenius_norms([gradients[n] for n in every]), strict=True))
    for block, pair in trained.items():
        # a parameter that the loss does not reach has no gradient: that is zero
        of_layers, of_scales = ([known.get(n, 0.0) for n in names] for names in pair)
        if of_layers:
            norms[block.index] = math.hypot(*of_layers)
            rows.put(block, norm=norms[block.index], zero_layers=sum(n == 0 for n in of_layers))
        if of_scales:
            scales[block.index] = math.hypot(*of_scales)
    for column, values in (("fraction", norms), ("scale_fraction", scales)):
        largest = max((v for v in values.values() if math.isfinite(v)), default=0.0)
        for block in blocks:
            if block.index in values:
                rows.put(block, **{column: values[block.index] / largest if largest else 0.0})
    return rows.measurement("parameter_gradients")


def _trained_names(model: Members, block: Block) -> tuple[list[str], list[str]]:
    """Names of the block's trained weights with two axes or more, and of its scales."""
    trained = {n: p for n, p in parameters_of(model, block).items() if p.requires_grad}
    layers = [name for name, p in trained.items() if p.ndim >= 2]
    scales = [name for name, p in trained.items() if p.ndim == 1 and not name.endswith("bias")]
    return layers, scales
