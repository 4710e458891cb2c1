"""Lanczos with full re-orthogonalization: an orthonormal Krylov basis of any symmetric operator.

Without re-orthogonalization rounding makes converged eigenvalues appear again and again (ghosts).
Here every new vector is made orthogonal to all earlier ones twice, which keeps the basis orthonormal
to rounding at any number of steps.
"""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from torch import Tensor
from torch.linalg import vector_norm

from bathyscope.core.devices import LARGE_VECTOR
from bathyscope.core.errors import UsageError, shorten

# Random vectors that an estimate may ask for: the error falls with their root, memory does not.
MOST_PROBES = 10_000
# Up to this size numpy's dense solver is quicker than what scipy does around its tridiagonal one.
_SMALL = 32


@runtime_checkable
class SymmetricOperator(Protocol):
    """Anything symmetric that multiplies a block of column vectors. A square tensor is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(d, d)."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of the vectors that go in and come out."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the vectors lie."""
        ...

    def __matmul__(self, other: Tensor, /) -> Tensor:
        """The operator applied to the columns of a (d, b) tensor."""
        ...


def check_operator(operator: SymmetricOperator) -> None:
    """Raise where something is not an operator at all; that it is symmetric is taken on trust.

    Raises:
        UsageError: it has no shape (d, d) with d above 0, or multiplies no floating-point vectors.
    """
    shape, dtype = getattr(operator, "shape", None), getattr(operator, "dtype", None)
    square = isinstance(shape, (tuple, list)) and len(shape) == 2 and shape[0] == shape[1] > 0
    if not square or not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise UsageError(
            f"The operator is a square matrix, or anything with `shape`, `dtype`, `device` and `@`, "
            f"but {shorten(operator)} was given."
        )


class KrylovBasis:
    """The growing bases K_m(A, v) of b start vectors at once, each orthonormal on its own.

    A Q_m = Q_m T_m + β_m q_{m+1} e_mᵀ with T_m tridiagonal (α on its diagonal, β beside it). Where
    a basis becomes invariant (β = 0) it resumes from a fresh random vector, so T_m splits and
    further copies of repeated eigenvalues can appear; at m = d it is the whole space.

    Args:
        operator: symmetric, d by d.
        starts: one start vector a row, on any device; they need not be normalized.
        locked: orthonormal rows to stay orthogonal to: the operator is deflated by them.
        generator: draws the vector that follows an invariant subspace.
        products: the operator times each start, where they are known: the first step costs none then.

    Examples:
        >>> a = torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
        >>> start = torch.ones(1, 3, dtype=torch.float64)
        >>> basis = KrylovBasis(a, start, generator=torch.Generator())
        >>> basis.grow(3)
        >>> basis.ritz(0)[0].round(6).tolist()
        [1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        operator: SymmetricOperator,
        starts: Float[Tensor, " b d"],
        *,
        locked: Float[Tensor, " l d"] | None = None,
        generator: torch.Generator,
        products: Float[Tensor, " b d"] | None = None,
    ) -> None:
        self.operator = operator
        self._store = _store_for(starts, operator.device)
        locked = starts.new_zeros(0, starts.shape[1]) if locked is None else locked
        self.locked = locked.to(self._store)
        self.generator = generator
        self.size = 0
        b = len(starts)
        self.alpha: list[NDArray[np.float64]] = []
        self.beta: list[NDArray[np.float64]] = []
        self._scale = np.zeros(b)  # largest |T| entry so far: rounding is relative to it
        self._vectors = starts.new_zeros(b, 16, starts.shape[1], device=self._store)
        self._next = self._unlock(starts.to(self._store))
        norms = vector_norm(self._next, dim=1, keepdim=True)
        self._next = self._next / norms
        self._known = None if products is None else products.to(self._store) / norms

    @property
    def room(self) -> int:
        """How many more steps there are before the basis spans everything that is not locked."""
        return self._vectors.shape[2] - len(self.locked) - self.size

    def grow(self, steps: int) -> None:
        """Take this many steps, or fewer where the whole space is spanned; each costs b products."""
        for _ in range(min(steps, self.room)):
            self._step()

    def ritz(self, index: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Eigenvalues of T_m in ascending order, and its eigenvectors as columns."""
        diagonal = np.array([a[index] for a in self.alpha])
        beside = np.array([b[index] for b in self.beta[:-1]])
        if self.size <= _SMALL:
            matrix = np.diag(diagonal) + np.diag(beside, -1)  # eigh reads the lower triangle
            return np.linalg.eigh(matrix)
        values, vectors = eigh_tridiagonal(diagonal, beside)
        return values, vectors

    def residuals(self, index: int, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖A u − θ u‖ of the Ritz pairs: β_m times the last component; zero once all is spanned."""
        beta = self.beta[-1][index] if self.room > 0 else 0.0
        result: NDArray[np.float64] = np.abs(beta * vectors[-1])
        return result

    def lift(self, index: int, columns: NDArray[np.float64]) -> Float[Tensor, " c d"]:
        """Eigenvectors of T_m carried to the whole space, one per row."""
        q = self._vectors[index, : self.size]
        lifted = torch.as_tensor(columns.T.copy(), dtype=q.dtype, device=q.device) @ q
        return lifted.to(self.operator.device)

    def _step(self) -> None:
        self._append(self._next)
        q = self._next
        w, self._known = self._known, None
        if w is None:
            w = (self.operator @ q.T.to(self.operator.device)).T.to(self._store)
        alpha = torch.linalg.vecdot(w.double(), q.double())
        before = vector_norm(w, dim=1)
        w = self._orthogonal(w)
        norms = vector_norm(w, dim=1)
        beta = norms.double().cpu().numpy()
        self._scale = np.maximum(self._scale, before.double().cpu().numpy())
        # what is left after the projections is rounding once it falls below eps times the operator
        broken = beta <= 8 * torch.finfo(w.dtype).eps * self._scale
        if self.room > 0 and broken.any():
            w = self._restart(w, torch.as_tensor(broken))
            beta = np.where(broken, 0.0, beta)
            norms = vector_norm(w, dim=1)
        self.alpha.append(alpha.cpu().numpy())
        self.beta.append(beta)
        self._next = w / norms.clamp_min(torch.finfo(w.dtype).tiny)[:, None]

    def _append(self, q: Float[Tensor, " b d"]) -> None:
        b, capacity, d = self._vectors.shape
        if self.size == capacity:
            grown = self._vectors.new_zeros(b, min(2 * capacity, d), d)
            grown[:, :capacity] = self._vectors
            self._vectors = grown
        self._vectors[:, self.size] = q
        self.size += 1

    def _orthogonal(self, w: Float[Tensor, " b d"]) -> Float[Tensor, " b d"]:
        """Two passes of Gram-Schmidt: "twice is enough" to be orthogonal to rounding."""
        q = self._vectors[:, : self.size]
        for _ in range(2):
            w = self._unlock(w)
            along = torch.bmm(q, w[:, :, None])
            w = torch.baddbmm(w[:, :, None], q.transpose(1, 2), along, alpha=-1)[:, :, 0]
        return w

    def _unlock(self, w: Float[Tensor, " b d"]) -> Float[Tensor, " b d"]:
        if not len(self.locked):
            return w
        return w - (w @ self.locked.T) @ self.locked

    def _restart(self, w: Float[Tensor, " b d"], broken: Tensor) -> Float[Tensor, " b d"]:
        fresh = random_starts(self.operator, len(w), generator=self.generator).to(self._store)
        return torch.where(broken.to(w.device)[:, None], self._orthogonal(fresh), w)


def _store_for(starts: Float[Tensor, " b d"], device: torch.device) -> torch.device:
    """Where the basis lies: with the operator, or on the host."""
    large = starts.shape[1] * starts.element_size() > LARGE_VECTOR
    return torch.device("cpu") if large else device


def random_starts(
    operator: SymmetricOperator, num: int, *, generator: torch.Generator
) -> Float[Tensor, " num d"]:
    """Gaussian start vectors; drawn on the generator's device, so that a seed means the same on each."""
    d = operator.shape[0]
    drawn = torch.randn(num, d, generator=generator, device=generator.device, dtype=torch.float64)
    return drawn.to(dtype=operator.dtype).to(device=operator.device)
