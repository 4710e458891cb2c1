"""The k largest and the k smallest eigenvalues of a symmetric operator, repeated ones included."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.core.arguments import check_choice, check_count, check_number
from bathyscope.core.errors import UsageError
from bathyscope.linalg.lanczos import (
    KrylovBasis,
    SymmetricOperator,
    check_operator,
    random_starts,
)

Ends = Literal["both", "largest", "smallest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eigenpairs:
    """Some eigenvalues, outermost first, with what is known of each.

    `residuals` are ‖A u − λ u‖; `errors` bound the eigenvalues' error: the smaller of the residual
    and residual²/gap (Kato, Temple), plus the rounding of the operator, which one with an attribute
    `rounding` (the relative error of its products) says itself; `vectors` one per row.
    """

    values: Float[Tensor, " k"]
    residuals: Float[Tensor, " k"]
    errors: Float[Tensor, " k"]
    converged: tuple[bool, ...]
    vectors: Float[Tensor, " k d"]

    def __len__(self) -> int:
        return len(self.converged)

    def __repr__(self) -> str:
        """The eigenvalues with their errors; the vectors are many, and stay out of sight."""
        result = [
            f"{value:.6g} ± {error:.1g}{'' if done else ' (not converged)'}"
            for value, error, done in zip(
                self.values.tolist(), self.errors.tolist(), self.converged, strict=True
            )
        ]
        return ", ".join(result) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremeEigenvalues:
    """Both ends of a spectrum. `products` found them, `check_products` looked for copies.

    `checked` is False where the check for repeated eigenvalues was not asked for or could not be
    finished within the products allowed: multiplicities may then be too low.
    """

    largest: Eigenpairs
    smallest: Eigenpairs
    products: int
    check_products: int
    checked: bool

    @property
    def converged(self) -> bool:
        """Whether every eigenvalue reached the tolerance."""
        return all(self.largest.converged) and all(self.smallest.converged)

    def __repr__(self) -> str:
        """Both ends, a line each, and what they cost."""
        checked = "" if self.checked else "; repeated eigenvalues were not looked for"
        return (
            f"largest:  {self.largest}\nsmallest: {self.smallest}\n"
            f"{self.products + self.check_products} products{checked}"
        )


def extreme_eigenvalues(
    operator: SymmetricOperator,
    k: int,
    *,
    ends: Ends = "both",
    tolerance: float = 1e-5,
    floor: float = 0.0,
    max_products: int = 2000,
    check_copies: bool = True,
    start: tuple[Float[Tensor, " d"], Float[Tensor, " d"]] | None = None,
    min_products: int = 0,
    generator: torch.Generator | None = None,
) -> ExtremeEigenvalues:
    """The k outermost eigenpairs at each end, by re-orthogonalized Lanczos with a stop on residuals.

    A Krylov space holds one vector of each eigenspace, so a repeated eigenvalue is seen once. The
    check for copies deflates what was found and starts again from a fresh random vector, until
    the outermost eigenvalue of what is left lies inside those already found; every copy it meets
    on the way is added. It costs about as much as the first run.

    Args:
        operator: symmetric, d by d; a tensor will do.
        k: how many at each end.
        ends: leave an end out to spare its products.
        tolerance: error of an eigenvalue relative to itself at which it counts as found.
        floor: an eigenvalue smaller than this fraction of the largest |λ| counts as found at
            `tolerance` times that fraction: one near zero has no digits of its own worth finding.
        max_products: stop here, converged or not; the record says which.
        check_copies: look for repeated eigenvalues.
        start: a random vector to begin with and the operator times it, where that is known already:
            it counts as no product.
        min_products: do not stop before.
        generator: of the start vectors; seeded with 0 unless given.

    Raises:
        UsageError: k is not in 1..d, there are no products to find k of them, or an argument is
            out of its range.

    Examples:
        >>> a = torch.diag(torch.tensor([5.0, 5.0, 2.0, 1.0, -3.0], dtype=torch.float64))
        >>> found = extreme_eigenvalues(a, 2)
        >>> found.largest.values.round(decimals=6).tolist()
        [5.0, 5.0]
        >>> found.smallest.values.round(decimals=6).tolist()
        [-3.0, 1.0]
    """
    check_operator(operator)
    d = operator.shape[0]
    check_choice("ends", ends, get_args(Ends))
    check_number("tolerance", tolerance, low=0.0)
    check_number("floor", floor, low=0.0, high=1.0)
    max_products = check_count("max_products", max_products, minimum=1)
    k = check_count("k", k)
    if k not in range(1, d + 1):
        raise UsageError(f"k is {k}, but the operator has {d} eigenvalues; choose k from 1 to {d}.")
    if max_products < min(k + 1, d):
        raise UsageError(f"{max_products} products cannot find {k} eigenvalues; allow {k + 1}.")
    generator = generator or torch.Generator().manual_seed(0)
    search = _Search(operator, k, ends, _Tolerance(tolerance, floor), max_products, generator)
    search.first_run(start, min_products=min_products)
    products = search.products
    checked = search.look_for_copies() if check_copies else False
    return ExtremeEigenvalues(
        largest=search.result(+1),
        smallest=search.result(-1),
        products=products,
        check_products=search.products - products,
        checked=checked,
    )


@dataclass(frozen=True, slots=True)
class _Tolerance:
    relative: float
    floor: float

    def of(self, value: float, norm: float, *, power: float = 1.0) -> float:
        """The error at which an eigenvalue counts as found; at half the digits with power ½."""
        return float(self.relative**power * max(abs(value), self.floor * norm))


@dataclass(slots=True)
class _Pair:
    value: float
    residual: float
    error: float
    vector: Tensor
    converged: bool


class _Search:
    """The state of one search: the pairs found at each end (sign +1 largest, −1 smallest)."""

    def __init__(
        self,
        operator: SymmetricOperator,
        k: int,
        ends: Ends,
        tolerance: _Tolerance,
        max_products: int,
        generator: torch.Generator,
    ) -> None:
        self.operator, self.k, self.tolerance = operator, k, tolerance
        self.max_products, self.generator = max_products, generator
        self.signs = {"both": (1, -1), "largest": (1,), "smallest": (-1,)}[ends]
        self.pairs: dict[int, list[_Pair]] = {1: [], -1: []}
        self.products = 0
        self.norm = 0.0
        self.eps = torch.finfo(operator.dtype).eps

    def first_run(self, known: tuple[Tensor, Tensor] | None, *, min_products: int) -> None:
        """Grow one basis until k Ritz values at each wanted end have converged."""
        # 1. k Ritz values need k vectors; one more gives each of them a residual β_m |s_m|.
        start, product = (None, None) if known is None else (known[0][None], known[1][None])
        if start is None:
            start = random_starts(self.operator, 1, generator=self.generator)
        basis = KrylovBasis(self.operator, start, generator=self.generator, products=product)
        self.products -= product is not None
        self._grow(basis, self.k + 1)
        # 2. Grow until all wanted ones have converged, the basis is the whole space (room 0, where
        #    Ritz values are eigenvalues), or the products are used up.
        while True:
            view = _Ritz(basis, self.eps)
            wanted = [i for sign in self.signs for i in view.outermost(sign, self.k)]
            converged = all(self._is_converged(view, i) for i in wanted)
            if basis.room <= 0 or (converged and self.products >= min_products):
                break
            if not self._grow(basis, _stride(basis.size)):
                break
        # 3. The largest |Ritz value| stands for ‖A‖ from here on: it bounds it from below, and what
        #    is deflated below no longer shows it.
        self.norm = view.norm
        for sign in self.signs:
            self.pairs[sign] = self._pairs(basis, view, view.outermost(sign, self.k))

    def look_for_copies(self) -> bool:
        """Deflate and start again until nothing outside what was found is left; whether finished."""
        # Each round works in the orthogonal complement of all vectors found: a further copy of λ has
        # an eigenvector there, and a random start meets it with probability one.
        while True:
            locked = self._locked()
            if len(locked) >= self.operator.shape[0]:
                return True
            start = random_starts(self.operator, 1, generator=self.generator)
            basis = KrylovBasis(self.operator, start, locked=locked, generator=self.generator)
            new = self._run_deflated(basis)
            if new is None:
                return False
            if not any(new.values()):
                return True
            for sign, pairs in new.items():
                merged = sorted(self.pairs[sign] + pairs, key=lambda p: -sign * p.value)
                self.pairs[sign] = merged[: self.k]

    def _run_deflated(self, basis: KrylovBasis) -> dict[int, list[_Pair]] | None:
        """New pairs outside the k-th found, or empty lists; None where products ran out."""
        if not self._grow(basis, 2):
            return None
        while True:
            view = _Ritz(basis, self.eps)
            new: dict[int, list[_Pair]] = {sign: [] for sign in self.signs}
            undecided = False
            for sign in self.signs:
                # outer[0] is the outermost Ritz value of what is left. It is a copy (or was missed)
                # if it converges beyond the k-th found; the end is settled if it is surely inside.
                # Others beyond it are taken with it, but never without it: an outermost value that
                # still moves may overtake them.
                outer = view.outermost(sign, self.k)
                beyond = [i for i in outer if self._is_beyond(view, i, sign)]
                settled = [i for i in beyond if self._is_converged(view, i) or basis.room <= 0]
                if settled and settled[0] == outer[0]:
                    new[sign] = self._pairs(basis, view, settled)
                elif basis.room > 0 and not self._is_inside(view, outer[0], sign):
                    undecided = True
            if any(new.values()) or not undecided:
                return new
            if not self._grow(basis, _stride(basis.size)):
                return None

    def _is_beyond(self, view: "_Ritz", i: int, sign: int) -> bool:
        # both values carry an error, and two copies of one λ differ by rounding: neither may count
        edge = self.pairs[sign][-1]
        slack = edge.error + view.errors[i] + self.tolerance.of(edge.value, self.norm)
        return bool(sign * (view.values[i] - edge.value) > slack)

    def _is_inside(self, view: "_Ritz", i: int, sign: int) -> bool:
        """Settled well enough to say that it is no farther out than the k-th found."""
        if self._is_converged(view, i):
            return True
        reach = sign * (self.pairs[sign][-1].value - view.values[i])
        # an eigenvalue farther out would still be pulling: half the digits of convergence and a
        # residual well below the distance rule it out
        near = self.tolerance.of(view.values[i], self.norm, power=0.5)
        return bool(view.residuals[i] < min(0.1 * reach, near))

    def _is_converged(self, view: "_Ritz", i: int) -> bool:
        norm = max(view.norm, self.norm)  # a deflated basis no longer sees the largest
        return bool(view.errors[i] <= max(self.tolerance.of(view.values[i], norm), view.rounding))

    def _grow(self, basis: KrylovBasis, steps: int) -> bool:
        before = basis.size
        basis.grow(min(steps, self.max_products - self.products))
        self.products += basis.size - before
        return basis.size > before

    def _pairs(self, basis: KrylovBasis, view: "_Ritz", indices: list[int]) -> list[_Pair]:
        if not indices:
            return []
        vectors = basis.lift(0, view.vectors[:, indices])
        rounding = getattr(self.operator, "rounding", 0.0)  # of its products, where it knows
        return [
            _Pair(
                float(view.values[i]),
                float(view.residuals[i]),
                float(view.errors[i] + max(view.rounding, rounding * view.norm)),
                vector / vector.norm(),
                self._is_converged(view, i) or basis.room <= 0,
            )
            for i, vector in zip(indices, vectors, strict=True)
        ]

    def _locked(self) -> Tensor:
        """Orthonormal rows spanning every vector found; the two ends may share some."""
        # The vectors of one end are orthonormal, but with 2k > d the ends overlap, and a vector that
        # both have found makes two nearly equal rows: of these one singular value is √2, the other
        # 0. What is new to the span has 1, so ½ parts the two.
        rows = torch.stack([p.vector for sign in self.signs for p in self.pairs[sign]])
        _, s, vh = torch.linalg.svd(rows, full_matrices=False)
        result: Tensor = vh[s > 0.5]
        return result

    def result(self, sign: int) -> Eigenpairs:
        pairs = self.pairs[sign]

        def column(name: str) -> Tensor:
            return torch.tensor(
                [getattr(p, name) for p in pairs], dtype=torch.float64, device="cpu"
            )

        like = torch.zeros(
            0, self.operator.shape[0], dtype=self.operator.dtype, device=self.operator.device
        )
        return Eigenpairs(
            values=column("value"),
            residuals=column("residual"),
            errors=column("error"),
            converged=tuple(p.converged for p in pairs),
            vectors=torch.stack([p.vector for p in pairs]) if pairs else like,
        )


class _Ritz:
    """The Ritz values of one basis with residuals and bounds on their errors."""

    def __init__(self, basis: KrylovBasis, eps: float) -> None:
        # ‖A x − θ x‖ = β_m |last entry of s| for the Ritz vector x = Q s: no product is needed
        self.values, self.vectors = basis.ritz(0)
        self.residuals = basis.residuals(0, self.vectors)
        self.norm = float(np.abs(self.values).max())
        self.rounding = eps * self.norm
        self.errors = self._errors()

    def outermost(self, sign: int, k: int) -> list[int]:
        """Indices of the k outermost Ritz values, the farthest first."""
        order = range(len(self.values))
        return list(order[::-1] if sign > 0 else order)[:k]

    def _errors(self) -> NDArray[np.float64]:
        """min(r, r²/gap), the gap to a neighbor being what the neighbor's own error leaves of it."""
        # Weyl: some eigenvalue lies within r of θ. Kato and Temple: within r²/gap, where the gap is
        # to the *eigenvalues* beside it, of which only Ritz values are known. So each neighbor is
        # let drift towards θ by its own error first; where nothing is left of the gap, r stands.
        gaps = np.full(len(self.values), np.inf)
        apart = np.diff(self.values)
        gaps[1:] = apart - _drift(self.residuals[:-1], apart)
        gaps[:-1] = np.minimum(gaps[:-1], apart - _drift(self.residuals[1:], apart))
        with np.errstate(divide="ignore", invalid="ignore"):
            quadratic = np.where(gaps > 0, self.residuals**2 / gaps, np.inf)
        return np.minimum(self.residuals, quadratic)


def _drift(residuals: NDArray[np.float64], apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far an unconverged neighbor may still move: r²/gap to first order, r at most."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(apart > 0, np.minimum(residuals, residuals**2 / apart), residuals)


def _stride(size: int) -> int:
    """How many steps between looks: the eigenproblem of T grows, so look less often."""
    return 1 if size < 96 else size // 48
