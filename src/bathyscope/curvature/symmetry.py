"""Whether products with a curvature matrix are those of a symmetric matrix, as they must be.

A second derivative that torch, or a function of one's own, computes wrongly is hardly ever wrong in a
symmetric way. So vᵀ(Hw) and wᵀ(Hv) for two random vectors tell at the cost of two products on one
batch what no later symmetrizing may hide.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from bathyscope.core.fetch import fetch
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
        [torch.randn(p.shape, generator=generator, device="cpu").to(p.dtype) for p in parameters]
        for _ in range(2)
    )
    # one product at a time, and of the vectors what is in use: on a device each is as large as the model
    (wv, of_v), (vw, of_w) = (
        _dot_and_norm(term, v, w, parameters),
        _dot_and_norm(term, w, v, parameters),
    )
    tolerance = _tolerance(parameters)
    # non-finite either: the product itself says so later
    if not abs(wv - vw) > tolerance * (of_v + of_w):
        return True
    sums = [a + b for a, b in zip(v, w, strict=True)]
    hv, hw, both = (_product(term, vector, parameters) for vector in (v, w, sums))
    error = [c.double() - a.double() - b.double() for a, b, c in zip(hv, hw, both, strict=True)]
    return abs(wv - vw) <= _ABOVE_ROUNDING * _norm(error)


def are_symmetric(vectors: Tensor, products: Tensor, parameters: Sequence[Tensor]) -> bool:
    """Whether VᵀHV is symmetric to rounding, for random V with products HV that are there already.

    Each pair of columns is compared as by `is_symmetric`. False leaves open whether it is rounding.

    Args:
        vectors: independent entries of mean zero, one vector a column.
        products: H times each.
        parameters: for whose dtypes the tolerance is.

    Examples:
        >>> v, h = torch.eye(2), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
        >>> are_symmetric(v, h @ v, [h]), are_symmetric(v, (h + h.T) @ v, [h])
        (False, True)
    """
    both = vectors.T.double() @ products.double()
    sizes = torch.linalg.vector_norm(products.double(), dim=0)
    allowed = _tolerance(parameters) * (sizes[:, None] + sizes)
    # non-finite either: the product itself says so
    return not bool(((both - both.T).abs() > allowed).any())


def _tolerance(parameters: Sequence[Tensor]) -> float:
    return max(_TOLERANCE.get(p.dtype, _COARSE_TOLERANCE) for p in parameters)


def _product(term: Term, vector: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    there = [v[None].to(p.device) for v, p in zip(vector, parameters, strict=True)]
    return [result[0] for result in term.times(there)]


def _dot_and_norm(
    term: Term, vector: Sequence[Tensor], other: Sequence[Tensor], parameters: Sequence[Tensor]
) -> tuple[float, float]:
    """The other vector times H times the vector, and ‖Hv‖; read in one transfer."""
    dots, squares = [], []
    for product, left in zip(_product(term, vector, parameters), other, strict=True):
        wide = product.double()
        dots.append((wide * left.to(wide)).sum())
        squares.append(wide.square().sum())
    numbers = [value for (value,) in fetch([*dots, *squares])]
    return sum(numbers[: len(dots)]), sum(numbers[len(dots) :]) ** 0.5


def _norm(a: Sequence[Tensor]) -> float:
    result: float = sum(float(x.double().square().sum()) for x in a) ** 0.5
    return result
