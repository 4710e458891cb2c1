"""Whether the second derivative through a function of one's own is the slope of its first.

A `torch.autograd.Function` whose backward reads a tensor that its forward computed and kept (as an
attribute, or as an intermediate in `save_for_backward`) has a gradient that is right, but a constant to
autograd: its curvature is left out, often in a symmetric way. Gradients at two points beside the
parameters show, along one vector, what their difference should be.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import Node

from bathyscope.core.batch import Batch
from bathyscope.curvature.memory import graph_nodes
from bathyscope.curvature.objective import Objective
from bathyscope.curvature.terms import HessianTerm

# Relative to the slope: central differences with a step of ε^(1/3) leave ε^(2/3), far below it, but where
# something bends sharply within the step; and the second, shorter step finds those out.
_TOLERANCE = 0.03
_SHORTER = 0.25
# A slope that is not that many times the rounding of the gradients over the step is not known.
_ABOVE_ROUNDING = 30.0


def has_custom_function(value: Tensor) -> bool:
    """Whether a `torch.autograd.Function` that is not the package's own lies in the value's graph."""
    return any(map(_is_custom, graph_nodes([value])))


def _is_custom(node: Node) -> bool:
    written = getattr(type(node), "_forward_cls", None)
    return written is not None and not str(written.__module__).startswith("bathyscope.")


def is_slope_of_gradient(
    term: HessianTerm, objective: Objective, batch: Batch, parameters: Sequence[Tensor]
) -> bool:
    """Whether Hv = (g(θ + hv) − g(θ − hv)) / 2h for a random v, as far as differences can show.

    Where two steps h do not agree on the right side, as at kinks, nothing is known: True.
    """
    size = sum(float(p.detach().double().square().sum()) for p in parameters)
    count = sum(p.numel() for p in parameters)
    scale = max((size / max(count, 1)) ** 0.5, 1e-3)
    eps = max(torch.finfo(p.dtype).eps for p in parameters)
    generator = torch.Generator().manual_seed(1)
    vector = [
        (scale * torch.randn(p.shape, generator=generator, device="cpu")).to(p.device, p.dtype)
        for p in parameters
    ]
    product = _flat(result[0] for result in term.times([v[None] for v in vector]))
    step = eps ** (1 / 3)
    slopes, rounding = [], 0.0
    for h in (step, _SHORTER * step):
        ahead = _gradient_at(objective, batch, parameters, vector, h)
        behind = _gradient_at(objective, batch, parameters, vector, -h)
        slopes.append((ahead - behind) / (2 * h))
        rounding = eps * float(ahead.norm()) / h
    if not all(bool(torch.isfinite(slope).all()) for slope in slopes):
        return True
    slope = float(max(slopes[0].norm(), product.norm()))
    unsure = float((slopes[0] - slopes[1]).norm())
    error = float((product - slopes[0]).norm())
    allowed = max(_TOLERANCE * slope, _ABOVE_ROUNDING * rounding, 3 * unsure)
    return not error > allowed


def _gradient_at(
    objective: Objective,
    batch: Batch,
    parameters: Sequence[Tensor],
    vector: Sequence[Tensor],
    step: float,
) -> Tensor:
    """The gradient at θ + step · v; the parameters come back bit for bit."""
    kept = [p.detach().clone() for p in parameters]
    try:
        # through `.data`: a graph that is kept finds its tensors again as they were, and must not be
        # reported that they have changed
        for parameter, direction in zip(parameters, vector, strict=True):
            parameter.data.add_(direction, alpha=step)
        gradients = torch.autograd.grad(objective.value(batch), parameters, allow_unused=True)
    finally:
        for parameter, old in zip(parameters, kept, strict=True):
            parameter.data.copy_(old)
    return _flat(
        torch.zeros_like(p) if g is None else g for g, p in zip(gradients, parameters, strict=True)
    )


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([t.detach().double().flatten() for t in tensors])
