"""The trace of a symmetric operator from random probes, with its standard error."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bathyscope.core.arguments import check_count
from bathyscope.linalg.lanczos import MOST_PROBES, SymmetricOperator, check_operator, random_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEstimate:
    """A trace with the standard error of the estimate; where it is exact that is 0, as is
    `num_probes`."""

    value: float
    standard_error: float
    num_probes: int
    products: int


def trace_estimate(
    operator: SymmetricOperator,
    *,
    probes: int = 32,
    sketch: int = 8,
    at_once: int | None = None,
    generator: torch.Generator | None = None,
) -> TraceEstimate:
    """tr A ≈ tr(QᵀAQ) + mean of gᵀA g with g random signs orthogonal to Q (Hutch++).

    Q spans the operator applied to a few random vectors and so most of the large eigenvalues: what
    is left has a far smaller variance than the plain mean. Cost: probes + 2 × sketch products;
    where d products are no more, they give the diagonal and with it the exact trace.

    Args:
        operator: symmetric, d by d.
        probes: random sign vectors, at least 2.
        sketch: columns of Q; 0 is Hutchinson's plain mean.
        at_once: vectors multiplied at the same time.
        generator: of the random vectors; seeded with 0 unless given.

    Raises:
        UsageError: fewer than 2 probes.

    Examples:
        >>> estimate = trace_estimate(torch.diag(torch.linspace(0, 1, 101)), sketch=2)
        >>> abs(estimate.value - 50.5) <= 3 * estimate.standard_error
        True
        >>> trace_estimate(torch.diag(torch.tensor([9.0, 3.0, 1.0]))).value
        13.0
    """
    check_operator(operator)
    if at_once is not None:
        at_once = check_count("at_once", at_once, minimum=1)
    probes = check_count("probes", probes, minimum=2, most=MOST_PROBES)
    sketch = check_count("sketch", sketch)
    d = operator.shape[0]
    if d <= probes + 2 * min(sketch, d):
        units = torch.eye(d, dtype=operator.dtype, device=operator.device)
        exact = float(_times(operator, units, at_once).double().trace())
        return TraceEstimate(value=exact, standard_error=0.0, num_probes=0, products=d)
    generator = generator or torch.Generator().manual_seed(0)
    q = torch.zeros(d, 0, dtype=operator.dtype, device=operator.device)
    along, products = 0.0, 0
    sketch = min(sketch, d)
    if sketch:
        starts = random_starts(operator, sketch, generator=generator).T
        q = torch.linalg.qr(_times(operator, starts, at_once)).Q
        along = float((q.double() * _times(operator, q, at_once).double()).sum())
        products += 2 * sketch
    signs = torch.randint(0, 2, (d, probes), generator=generator, device=generator.device)
    g = (2 * signs - 1).to(dtype=operator.dtype).to(device=operator.device)
    g = g - q @ (q.T @ g)
    samples = (g.double() * _times(operator, g, at_once).double()).sum(dim=0)
    return TraceEstimate(
        value=along + float(samples.mean()),
        standard_error=float(samples.std()) / math.sqrt(probes),
        num_probes=probes,
        products=products + probes,
    )


def _times(operator: SymmetricOperator, block: Tensor, at_once: int | None) -> Tensor:
    parts = [operator @ part for part in block.split(at_once or block.shape[1], dim=1)]
    return torch.cat(parts, dim=1)
