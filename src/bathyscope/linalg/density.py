"""Spectral density of a symmetric operator by stochastic Lanczos quadrature, with its errors."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtrit
from torch import Tensor

from bathyscope.core.arguments import check_count
from bathyscope.core.errors import UsageError
from bathyscope.linalg.lanczos import (
    MOST_PROBES,
    KrylovBasis,
    SymmetricOperator,
    check_operator,
    random_starts,
)

# A Ritz pair with a residual below this fraction of the norm is split off as an eigenpair: its value is
# then known to the square of it.
_SPLIT_OFF = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with an interval that holds the true value at the confidence of the density."""

    value: float
    lower: float
    upper: float

    @property
    def width(self) -> float:
        """upper − lower."""
        return self.upper - self.lower


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralDensity:
    """Eigenvalues split off exactly, and a Gauss quadrature of the rest for every probe.

    Each of the `atoms` carries the weight 1/d; row p of `weights` sums to (d − num_atoms)/d. One
    Krylov run and the probes together give the density, the outermost eigenvalues and the trace.
    """

    dim: int
    atoms: Float[Tensor, " a"]
    atom_residuals: Float[Tensor, " a"]
    nodes: Float[Tensor, " p m"]
    weights: Float[Tensor, " p m"]
    products: int
    confidence: float = 0.95

    @property
    def num_probes(self) -> int:
        """How many random vectors were averaged."""
        return self.nodes.shape[0]

    @property
    def trace(self) -> Interval:
        """Σ λ: the atoms' sum and the probes' first moment, which the quadrature gives exactly."""
        moments = self.dim * (self.nodes * self.weights).sum(dim=1)
        return self._interval(moments.numpy(), moments.numpy(), base=float(self.atoms.sum()))

    @property
    def trace_standard_error(self) -> float:
        """Standard error of the trace across probes."""
        moments = self.dim * (self.nodes * self.weights).sum(dim=1)
        return float(moments.std()) / math.sqrt(self.num_probes)

    def fraction_below(self, threshold: float) -> Interval:
        """The fraction of eigenvalues below a threshold, with bounds.

        A probe's quadrature fixes the fraction below each node to within that node's own weight
        (Chebyshev, Markov and Stieltjes), so between two nodes it is known to their two weights;
        to this comes the spread across probes.
        """
        lower, upper = self._bounds(threshold)
        base = float((self.atoms < threshold).sum()) / self.dim
        result = self._interval(lower, upper, base=base)
        return Interval(
            value=result.value, lower=max(0.0, result.lower), upper=min(1.0, result.upper)
        )

    def fraction_within(self, radius: float) -> Interval:
        """The fraction of eigenvalues with |λ| ≤ radius, with bounds."""
        above_l, above_u = self._bounds(math.nextafter(radius, math.inf))
        below_l, below_u = self._bounds(-radius)
        base = float((self.atoms.abs() <= radius).sum()) / self.dim
        result = self._interval(
            np.maximum(above_l - below_u, 0.0), np.maximum(above_u - below_l, 0.0), base=base
        )
        return Interval(
            value=result.value, lower=max(0.0, result.lower), upper=min(1.0, result.upper)
        )

    def points(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """All atoms and nodes, and the fraction of the eigenvalues that each stands for."""
        values = torch.cat([self.atoms, self.nodes.reshape(-1)])
        fractions = torch.cat(
            [
                torch.full_like(self.atoms, 1 / self.dim),
                self.weights.reshape(-1) / self.num_probes,
            ]
        )
        return values, fractions

    def curve(self, grid: Float[Tensor, " n"], *, width: float) -> Float[Tensor, " n"]:
        """The density on a grid: every eigenvalue drawn as a Gaussian of this width."""
        points, mass = self.points()
        bells = torch.exp(-0.5 * ((grid[:, None] - points) / width) ** 2)
        return (bells * mass).sum(dim=1) / (width * math.sqrt(2 * math.pi))

    def _bounds(self, threshold: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each probe, the smallest and the largest share below the threshold."""
        nodes, weights = self.nodes.numpy(), self.weights.numpy()
        whole = np.cumsum(weights, axis=1)
        below = (nodes < threshold).sum(axis=1)  # nodes are ascending
        padded = np.pad(whole, ((0, 0), (2, 0)))
        padded = np.concatenate([padded, padded[:, -1:]], axis=1)
        rows = np.arange(len(nodes))
        # padded[j + 1] is the sum of the first j weights
        return padded[rows, np.maximum(below, 1)], padded[rows, below + 2]

    def _interval(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64], *, base: float
    ) -> Interval:
        p = len(lower)
        if p < 2:
            raise UsageError("One probe has no error; ask for at least 2 probes.")
        reach = float(stdtrit(p - 1, 0.5 + self.confidence / 2)) / math.sqrt(p)
        return Interval(
            value=base + float((lower + upper).mean()) / 2,
            lower=base + float(lower.mean() - reach * lower.std(ddof=1)),
            upper=base + float(upper.mean() + reach * upper.std(ddof=1)),
        )


def spectral_density(
    operator: SymmetricOperator,
    *,
    probes: int = 8,
    steps: int = 40,
    outlier_steps: int = 80,
    at_once: int | None = None,
    generator: torch.Generator | None = None,
) -> SpectralDensity:
    """Where the eigenvalues lie: φ(t) = (1/d) Σ δ(t − λ_i), by Lanczos quadrature of random probes.

    One Krylov run of `outlier_steps` splits off the eigenpairs that it resolves, which would
    otherwise carry nearly all the variance; the probes are orthogonal to them. The cost is
    outlier_steps + probes × steps products.

    Args:
        operator: symmetric, d by d.
        probes: random vectors; the error falls with their square root.
        steps: quadrature nodes a probe; detail in the bulk needs many.
        outlier_steps: length of the first run; 0 leaves the outliers to the probes.
        at_once: probes whose bases are held at the same time (steps × d numbers each).
        generator: of the random vectors; seeded with 0 unless given.

    Raises:
        UsageError: fewer than 2 probes or 1 step.

    Examples:
        >>> a = torch.diag(torch.linspace(-1, 3, 200, dtype=torch.float64))
        >>> found = spectral_density(a, probes=4, steps=30)
        >>> share = found.fraction_below(0.0)
        >>> share.lower <= 0.25 <= share.upper
        True
    """
    check_operator(operator)
    if at_once is not None:
        at_once = check_count("at_once", at_once, minimum=1)
    probes = check_count("probes", probes, minimum=2, most=MOST_PROBES)
    steps = check_count("steps", steps, minimum=1)
    outlier_steps = check_count("outlier_steps", outlier_steps)
    generator = generator or torch.Generator().manual_seed(0)
    values, residuals, locked, products = _outliers(operator, outlier_steps, generator)
    d, num_atoms = operator.shape[0], len(values)
    nodes, weights = [], []
    starts = random_starts(operator, probes, generator=generator)
    for together in starts.split(at_once or probes) if d > num_atoms else ():
        basis = KrylovBasis(operator, together, locked=locked, generator=generator)
        basis.grow(steps)
        products += len(together) * basis.size
        for index in range(len(together)):
            theta, vectors = basis.ritz(index)
            nodes.append(theta)
            weights.append(vectors[0] ** 2 * (d - num_atoms) / d)
    empty = np.zeros((probes, 0))
    return SpectralDensity(
        dim=d,
        atoms=values,
        atom_residuals=residuals,
        nodes=torch.as_tensor(np.stack(nodes) if nodes else empty),
        weights=torch.as_tensor(np.stack(weights) if weights else empty),
        products=products,
    )


def _outliers(
    operator: SymmetricOperator, steps: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Converged Ritz pairs of one run: values, residuals, orthonormal vectors, products."""
    none = torch.zeros(0, operator.shape[0], dtype=operator.dtype, device=operator.device)
    empty = torch.zeros(0, dtype=torch.float64, device="cpu")
    if not steps:
        return empty, empty, none, 0
    start = random_starts(operator, 1, generator=generator)
    basis = KrylovBasis(operator, start, generator=generator)
    basis.grow(steps)
    values, vectors = basis.ritz(0)
    residuals = basis.residuals(0, vectors)
    kept = residuals <= _SPLIT_OFF * np.abs(values).max()
    # a bulk that looks converged because all of it is small would be noise: keep what stands out
    kept &= np.abs(values) > 10 * residuals
    if not kept.any():
        return empty, empty, none, basis.size
    locked = torch.linalg.qr(basis.lift(0, vectors[:, kept]).T).Q.T
    return (
        torch.as_tensor(values[kept]),
        torch.as_tensor(residuals[kept]),
        locked.contiguous(),
        basis.size,
    )
