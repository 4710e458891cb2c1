"""How far a kernel is from its target, and what step towards it is safe, from Gram matrices alone.

The excess of a Gram matrix is PᴴP − target²·I: real matrices, and for complex P their imaginary
parts beside them.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

# A step is worth taking below this bound on (σ/target)², where the guard leaves it a fair length,
# and below this spread: a projection that was cut back to few taps has about 0.2.
_WARM_BOUND, _WARM_SPREAD = 3.5, 0.25
# The bound is taken at the grid's frequencies; between them P may be somewhat larger.
_MARGIN = 1.25
_FULL_STEP = 0.5
_FAR = 0.55  # a spread that no small kernel has: of one near zero it is ½
_ROUNDED = 1e-3  # a bound on (σ/target)² below which an excess of −1 has lost its digits
_POWER_STEPS = 8


@dataclass(frozen=True, slots=True)
class Gauge:
    """How far a kernel is from its target.

    `spread` is ½·rms of (σ/target)² − 1, which is the rms of σ/target − 1 to first order;
    `bound` lies above (σ/target)² at every frequency of the grid.
    """

    spread: float
    bound: float

    @property
    def is_finite(self) -> bool:
        """Whether the kernel holds neither NaN nor entries too large to square."""
        return math.isfinite(self.spread) and math.isfinite(self.bound)

    @property
    def is_zero(self) -> bool:
        """Whether the kernel is zero, or too small to square."""
        return self.bound <= 0

    @property
    def step_length(self) -> float:
        """η of a Newton–Schulz step: ½, or less where a mode would else change its sign."""
        room = _MARGIN * (self.bound - 1)
        return _FULL_STEP if room <= 1 / _FULL_STEP else 1 / room

    @property
    def is_warm(self) -> bool:
        """Whether a Newton–Schulz step is worth more than an exact projection."""
        return self.bound <= _WARM_BOUND and self.spread <= _WARM_SPREAD

    @property
    def is_near(self) -> bool:
        """Whether the kernel is warm and a step needs no shortening: no finer bound is needed."""
        return self.spread <= _WARM_SPREAD and self.step_length == _FULL_STEP

    @property
    def is_far(self) -> bool:
        """Whether the kernel is well above its target, so that it is cold and not zero."""
        return self.spread > _FAR


def refine(
    gauge: Gauge,
    target: float,
    *,
    x: Float[Tensor, " b d c"],
    excess: Float[Tensor, " b c c"],
    imaginary: Float[Tensor, " b c c"] | None = None,
) -> Gauge:
    """The gauge with a finer bound, by the mean and variance of the eigenvalues of each matrix.

    m numbers of mean μ and variance v are at most μ + √((m − 1)v) (Wolkowicz and Styan). Where
    this is too coarse to let a step pass, power iteration on the Gram matrices gives an estimate.

    Args:
        gauge: with a coarse bound.
        target: the singular value wanted.
        x: real and imaginary parts of P, stacked.
        excess: real part of PᴴP − target²·I.
        imaginary: imaginary part of PᴴP; None where P is real.
    """
    m = excess.shape[-1]
    mean = excess.diagonal(dim1=1, dim2=2).sum(1) / (m * target**2)
    square = torch.linalg.vector_norm(excess, dim=(1, 2)).square()
    if imaginary is not None:
        square = square + torch.linalg.vector_norm(imaginary, dim=(1, 2)).square()
    variance = (square / (m * target**4) - mean.square()).clamp_min(0)
    bound = 1 + (mean + ((m - 1) * variance).sqrt()).max().item()
    if bound < _ROUNDED:  # the excess is −I but for rounding; the kernel itself decides
        bound = (torch.linalg.vector_norm(x, dim=(1, 2)).max().item() / target) ** 2
    finer = Gauge(gauge.spread, bound)
    if gauge.spread <= _WARM_SPREAD and not finer.is_near:
        whole = excess if imaginary is None else torch.complex(excess, imaginary)
        return Gauge(gauge.spread, min(bound, _power_estimate(whole, target) / target**2))
    return finer


def _power_estimate(excess: Tensor, target: float) -> float:
    """The largest eigenvalue of the Gram matrices, from below and near."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    start = torch.randn(excess.shape[-1], 4, generator=generator, device="cpu")
    start = start.to(excess.device, excess.dtype)
    vectors = start.expand(len(excess), -1, -1)
    for _ in range(_POWER_STEPS):
        vectors = vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        vectors = torch.baddbmm(vectors, excess, vectors, beta=target**2)
    result: float = torch.linalg.vector_norm(vectors, dim=1).max().item()
    return result
