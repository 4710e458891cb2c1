"""Whether products with a curvature matrix are those of a symmetric matrix, as they must be.

A second derivative that torch, or a function of one's own, computes wrongly is hardly ever wrong in a
symmetric way. So vᵀ(Hw) and wᵀ(Hv) for two random vectors tell at the cost of two products on one
batch what no later symmetrizing may hide.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from bathyscope.curvature.terms import Term

# Fraction of ‖Hv‖ + ‖Hw‖ by which the two sides may differ. Rounding makes about √depth units of it; a
# wrong second derivative in one layer of fifty makes some thousandths.
_TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
_COARSE_TOLERANCE = 0.3  # half precisions
# A difference that is not that many times the error of H(v + w) = Hv + Hw may be rounding.
_ABOVE_ROUNDING = 30.0


def is_symmetric(term: Term, parameters: Sequence[Tensor]) -> bool:
    """Whether vᵀHw = wᵀHv to rounding, for v and w with independent normal entries.

    |vᵀHw − wᵀHv| ≤ tolerance · (‖Hv‖ + ‖Hw‖). The bound has no ‖v‖ in it: an error of Hv with
    entries of any sign meets a random w, and both sides then are of the size of the error's norm.
    Where the difference is larger, a third product separates rounding from a wrong derivative: products
    that are wrong in a structural way still are linear, and rounding is not.
    """
    generator = torch.Generator().manual_seed(0)
    v, w = (
        [
            torch.randn(p.shape, generator=generator, device="cpu").to(p.device, p.dtype)
            for p in parameters
        ]
        for _ in range(2)
    )
    hv, hw = _product(term, v), _product(term, w)
    difference = abs(_dot(w, hv) - _dot(v, hw))
    size = _norm(hv) + _norm(hw)
    tolerance = max(_TOLERANCE.get(p.dtype, _COARSE_TOLERANCE) for p in parameters)
    if not difference > tolerance * size:  # non-finite either: the product itself says so later
        return True
    both = _product(term, [a + b for a, b in zip(v, w, strict=True)])
    error = [c.double() - a.double() - b.double() for a, b, c in zip(hv, hw, both, strict=True)]
    return difference <= _ABOVE_ROUNDING * _norm(error)


def _product(term: Term, vector: Sequence[Tensor]) -> list[Tensor]:
    return [result[0] for result in term.times([v[None] for v in vector])]


def _dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    return sum(float((x.double() * y.double()).sum()) for x, y in zip(a, b, strict=True))


def _norm(a: Sequence[Tensor]) -> float:
    result: float = sum(float(x.double().square().sum()) for x in a) ** 0.5
    return result
