"""Which parameters are trained: frozen, held by the optimizer, reached by a gradient, pulled by decay."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.records import Measurement, Number
from bathyscope.linalg import frobenius_norm

_NAMED = 6
"""Parameters of a list that are named; the others are counted."""


def parameters_measurement(
    model: nn.Module,
    gradients: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer | None,
) -> Measurement:
    """The measurement `parameters`: counts and names over the whole network, in `settings`.

    parameters: how many tensors; frozen: of them without `requires_grad`; missing: trained, reached
    by a gradient other than zero, and not in the optimizer; twice: more than once in it; unreached:
    trained, but no part of the loss; zero_gradient: of those reached, how many have a gradient that
    is zero throughout; zero_head: whether the last weight is zero; decay_over_gradient: the median,
    over weights, of the pull of weight decay in units of the gradient's (for an optimizer that
    divides by the gradient's size, of its step); largest_decay: of the optimizer's groups. Lists of
    names end in `_names`.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        >>> sgd = torch.optim.SGD(model[0].parameters(), lr=0.1)
        >>> gradients = {n: torch.ones_like(p) for n, p in model.named_parameters()}
        >>> found = parameters_measurement(model, gradients, sgd).settings
        >>> found["missing"], found["missing_names"]
        (2, '1.weight, 1.bias')
    """
    named = dict(unwrap(model).named_parameters())
    frozen = [n for n, p in named.items() if not p.requires_grad]
    reached = [n for n, g in gradients.items() if n in named]
    zero = [n for n in reached if not bool(gradients[n].any())]
    unreached = [n for n, p in named.items() if p.requires_grad and n not in gradients]
    weights = [p for p in named.values() if p.ndim >= 2]
    numbers: dict[str, Number] = {
        "parameters": len(named),
        "entries": sum(p.numel() for p in named.values()),
        **_listed("frozen", frozen),
        "frozen_entries": sum(named[n].numel() for n in frozen),
        **_listed("unreached", unreached),
        "zero_head": _is_zero(weights[-1]) if weights else False,
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


def _is_zero(weight: Tensor) -> bool:
    return not bool(weight.detach().any())


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
    ratios = []
    for group in optimizer.param_groups:
        decay = group.get("weight_decay") or 0.0
        for parameter in _weights(group["params"]):
            gradient = gradients.get(names.get(id(parameter), ""))
            if not decay or gradient is None:
                continue
            pull = float(decay) * frobenius_norm(parameter.detach())
            push = parameter.numel() ** 0.5 if decoupled else frobenius_norm(gradient)
            if push > 0:
                ratios.append(pull / push)
    return sorted(ratios)[len(ratios) // 2] if ratios else None


def _weights(parameters: Iterable[Tensor]) -> Iterable[Tensor]:
    return (p for p in parameters if p.ndim >= 2 and p.numel())
