"""A Newton–Schulz step of a kernel at every frequency of any image, at the cost of few frequencies.

A product of three kernels of k taps is exact on a torus of 2k − 1 points an axis where only the
kernel's own taps are kept: a 3×3 kernel takes 13 frequencies, whatever the size of the image.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.linalg.taps import HalfPlane, Taps, half_plane, transform

# A step is worth taking below this bound on (σ/target)², where the guard leaves it a fair length,
# and below this spread: a projection that was cut back to few taps has about 0.2.
_WARM_BOUND, _WARM_SPREAD = 3.5, 0.25
# The bound is taken at the grid's frequencies; between them P may be somewhat larger.
_MARGIN = 1.25
_POWER_STEPS = 8


@dataclass(frozen=True, slots=True)
class Gauge:
    """How far a kernel is from its target, from Gram matrices alone.

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
        return 0.5 if room <= 2 else 1 / room

    @property
    def is_warm(self) -> bool:
        """Whether a Newton–Schulz step is worth more than an exact projection."""
        return self.bound <= _WARM_BOUND and self.spread <= _WARM_SPREAD


class _Spectral(NamedTuple):
    """P(ω) on the alias-free grid and its Gram matrices G + iH, as real and imaginary parts.

    A batch runs over frequencies and groups. P has no more columns than rows: the step commutes
    with the transpose, and the Gram matrix is that of the smaller side.
    """

    weight: Float[Tensor, "groups d c t"]
    plane: HalfPlane
    p: Float[Tensor, "b d c"]
    q: Float[Tensor, "b d c"]
    g: Float[Tensor, "b c c"]
    h: Float[Tensor, "b c c"]


class _Single(NamedTuple):
    """A kernel of one tap: one real matrix a group at all frequencies, and its Gram matrix."""

    p: Float[Tensor, "b d c"]
    g: Float[Tensor, "b c c"]


def newton_schulz_step(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    """One guarded Newton–Schulz step of a kernel, cut back to its taps, and the gauge before it.

    K ← K + η(K − [K·KᴴK]/target²), the bracket cut to the kernel's taps: a gradient step on
    ‖PᴴP/target² − I‖² within kernels of k taps. With η = ½ this is the Newton–Schulz step at every
    frequency of any image, followed by the cut. A mode of size σ is multiplied by
    1 + η(1 − σ²/target²); the guard shortens η so that none changes sign.

    Args:
        taps: a kernel that is finite and not zero.
        target: the singular value wanted.

    Returns:
        The taps after the step, and the gauge of those given.

    Example:
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> from bathyscope.linalg.taps import polyphase
        >>> taps = polyphase(convolution_of(torch.full((1, 1, 1), 1.1)))
        >>> stepped, gauge = newton_schulz_step(taps, 1.0)
        >>> round(gauge.spread, 4), round(stepped.weight.item(), 4)
        (0.105, 0.9845)
    """
    spectral = _spectral(taps)
    gauge = _gauge(spectral, target)
    stay, pull = 1 + gauge.step_length, -gauge.step_length / target**2
    if isinstance(spectral, _Single):
        stepped = torch.baddbmm(spectral.p, spectral.p, spectral.g, beta=stay, alpha=pull)[
            ..., None
        ]
    else:
        stepped = _cut_step(spectral, stay, pull)
    return taps.with_weight(stepped.transpose(1, 2) if _is_wide(taps) else stepped), gauge


def gauge_of(taps: Taps, target: float) -> Gauge:
    """How far a kernel is from having every singular value at the target."""
    return _gauge(_spectral(taps), target)


def _is_wide(taps: Taps) -> bool:
    return taps.weight.shape[1] < taps.weight.shape[2]


def _spectral(taps: Taps) -> _Spectral | _Single:
    weight, layout = taps.weight, taps.layout
    if _is_wide(taps):
        weight = weight.transpose(1, 2)
    if weight.shape[3] == 1:
        p = weight.squeeze(3)
        return _Single(p, torch.bmm(p.mT, p))
    plane = half_plane(
        layout.offsets, layout.alias_free_grid, dtype=weight.dtype, device=weight.device
    )
    p, q = transform(weight, plane.analysis).flatten(1, 2).unbind()
    cross = torch.bmm(p.mT, q)
    g = torch.bmm(p.mT, p).add_(torch.bmm(q.mT, q))
    return _Spectral(weight, plane, p, q, g, cross - cross.mT)


def _cut_step(spectral: _Spectral, stay: float, pull: float) -> Float[Tensor, "groups d c t"]:
    """stay·K + pull·[P·PᴴP], with the way back from frequencies to taps in the same products."""
    p, q, g, h = spectral.p, spectral.q, spectral.g, spectral.h
    half = len(spectral.plane)
    real = torch.bmm(p, g).sub_(torch.bmm(q, h)).view(half, -1)
    imaginary = torch.bmm(p, h).add_(torch.bmm(q, g)).view(half, -1)
    shape = spectral.weight.shape
    kernel = spectral.weight.reshape(-1, shape[3]).T
    cos, sin = spectral.plane.synthesis.split(half, dim=1)
    stepped = torch.addmm(kernel, cos, real, beta=stay, alpha=pull)
    return torch.addmm(stepped, sin, imaginary, alpha=pull).T.view(shape)


def _gauge(spectral: _Spectral | _Single, target: float) -> Gauge:
    """Spread by Parseval; bound by the mean and variance of the eigenvalues at each frequency.

    m numbers of mean μ and variance v are at most μ + √((m − 1)v) (Wolkowicz and Styan). Where
    this is too coarse to let a step pass, power iteration on the Gram matrices gives an estimate.
    """
    g = spectral.g.detach()
    trace = g.diagonal(dim1=1, dim2=2).sum(1)
    norm = torch.linalg.vector_norm(g, dim=(1, 2))
    shares: tuple[float, ...] = (1.0,)
    if isinstance(spectral, _Spectral):
        norm = torch.hypot(norm, torch.linalg.vector_norm(spectral.h.detach(), dim=(1, 2)))
        shares = spectral.plane.share
    m, groups = g.shape[-1], len(g) // len(shares)
    first, second = 1 / (m * target**2), 1 / (m * target**4)
    bound = deviation = 0.0
    # Plain numbers: there are few, and each small operation on tensors would cost as much as all.
    for index, (t, n) in enumerate(zip(*torch.stack([trace, norm]).tolist(), strict=True)):
        mean, square = t * first, n * n * second
        bound = max(bound, mean + math.sqrt((m - 1) * max(square - mean * mean, 0)))
        deviation += shares[index // groups] * (square - 2 * mean + 1)
    deviation /= groups
    gauge = Gauge(math.sqrt(max(deviation, 0)) / 2, bound)
    if gauge.step_length < 0.5 and gauge.spread <= _WARM_SPREAD:
        return Gauge(gauge.spread, min(gauge.bound, _power_estimate(spectral) / target**2))
    return gauge


def _power_estimate(spectral: _Spectral | _Single) -> float:
    """The largest eigenvalue of the Gram matrices, from below and near."""
    gram = spectral.g.detach()
    if isinstance(spectral, _Spectral):
        gram = torch.complex(gram, spectral.h.detach())
    generator = torch.Generator(device="cpu").manual_seed(0)
    start = torch.randn(gram.shape[-1], 4, generator=generator).to(gram.device, gram.dtype)
    vectors = start.expand(len(gram), -1, -1)
    for _ in range(_POWER_STEPS):
        vectors = gram @ (vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True))
    return torch.linalg.vector_norm(vectors, dim=1).max().item()
