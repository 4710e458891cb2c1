"""Kernels brought to where every singular value of the convolution is one target.

Two sets are to be met at once: kernels all of whose P(ω) have equal singular values, and kernels of
k taps. Projecting on the first (the polar factor at every frequency) leaves the second, and cutting
back to k taps undoes part of it. A Newton–Schulz step in between costs little and can be repeated.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.linalg.polar import polar_factor
from bathyscope.linalg.taps import Taps, frequency_matrices, half_plane, transform

# A Newton–Schulz step is worth taking below this bound on (σ/target)², where the guard leaves it a
# fair length, and below this spread: a projection that was cut back to few taps has about 0.2.
_WARM_BOUND, _WARM_SPREAD = 3.5, 0.25
# The bound is taken at the grid's frequencies; between them P may be somewhat larger.
_MARGIN = 1.25
_POWER_STEPS = 8
_COLD_STEPS = 8  # after an exact projection: they bring the spread from 0.2 to 0.05


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
    def is_warm(self) -> bool:
        """Whether a Newton–Schulz step is worth more than an exact projection."""
        return self.bound <= _WARM_BOUND and self.spread <= _WARM_SPREAD


@dataclass(frozen=True, eq=False, slots=True)
class Spectral:
    """P(ω) on the alias-free grid, and its Gram matrices, as real and imaginary parts."""

    parts: Float[Tensor, "2 b d c"]
    real: Float[Tensor, "b c c"]
    imaginary: Float[Tensor, "b c c"] | None  # None where all frequencies are zero
    synthesis: Float[Tensor, "t parts"]
    share: Float[Tensor, " b"]  # of each matrix among all frequencies and groups


def newton_schulz_step(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    """One guarded Newton–Schulz step of a kernel, cut back to its taps, and the gauge before it.

    K ← K + η(K − [K·KᴴK]/target²), the bracket cut to the kernel's taps: a gradient step on
    ‖PᴴP/target² − I‖² within kernels of k taps. With η = ½ this is the Newton–Schulz step at every
    frequency of any image, followed by the cut. A product of three kernels is exact on a torus of
    2k − 1 points an axis, so that the cost does not depend on the image: a 3×3 kernel takes 13
    frequencies. A mode of size σ is multiplied by 1 + η(1 − σ²/target²); the guard shortens η
    so that none changes sign.

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
    return _stepped(taps, spectral, gauge, target), gauge


def gauge_of(taps: Taps, target: float) -> Gauge:
    """How far a kernel is from having every singular value at the target."""
    return _gauge(_spectral(taps), target)


def projected(taps: Taps, target: float) -> tuple[Taps, Gauge]:
    """The cheapest projection that fits the kernel, and the gauge of the kernel given.

    A kernel near its target takes one Newton–Schulz step. One further off is projected exactly,
    which for a single tap is all, and else followed by steps that undo what the cut has done.
    A kernel that is zero or not finite is returned as it is.
    """
    spectral = _spectral(taps)
    gauge = _gauge(spectral, target)
    if not gauge.is_finite or gauge.is_zero:
        return taps, gauge
    if gauge.is_warm:
        return _stepped(taps, spectral, gauge, target), gauge
    return alternating_projection(taps, target, most=_COLD_STEPS)[0], gauge


def exact_projection(taps: Taps, target: float, *, grid: tuple[int, ...] | None = None) -> Taps:
    """Every P(ω) of a grid replaced by target times its polar factor, then cut to the taps.

    Args:
        taps: a kernel that is finite and not zero.
        target: the singular value wanted.
        grid: frequencies along each axis; None for a grid fine enough for the kernel.
    """
    if len(taps.offsets) == 1:
        return taps.with_weight(polar_factor(taps.weight[..., 0])[..., None] * target)
    if grid is None:
        grid = tuple(2 * span + 2 if span > 1 else 1 for span in taps.span)
    plane = half_plane(taps.offsets, grid, dtype=taps.weight.dtype, device=taps.weight.device)
    polar = polar_factor(frequency_matrices(taps.weight, plane.analysis))
    return taps.with_weight(target * _to_taps(polar.real, polar.imag, plane.synthesis))


def alternating_projection(
    taps: Taps, target: float, *, spread: float = 0.05, most: int = 64
) -> tuple[Taps, Gauge]:
    """Project exactly, then step and cut until the spread is as asked, or `most` steps are done.

    Momentum carries the kernel on along its last move, with β = 0.5 and, after eight steps, 0.85;
    it starts anew when the spread grows.

    Returns:
        The taps and their gauge, of which `spread` says what was reached.

    Example:
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> from bathyscope.linalg.taps import polyphase
        >>> kernel = torch.randn(8, 2, 3, 3, generator=torch.Generator().manual_seed(0))
        >>> taps = polyphase(convolution_of(kernel))
        >>> gauge_of(exact_projection(taps, 2.0), 2.0).spread > 0.05
        True
        >>> alternating_projection(taps, 2.0, spread=0.01)[1].spread <= 0.01
        True
    """
    current = exact_projection(taps, target)
    previous, last = current.weight, math.inf
    for count in range(most):
        beta = 0.5 if count < 8 else 0.85
        ahead = replace(current, weight=current.weight + beta * (current.weight - previous))
        stepped, gauge = newton_schulz_step(ahead, target)
        if gauge.spread <= spread:
            return ahead, gauge
        previous = current.weight if gauge.spread < last else stepped.weight
        current, last = stepped, gauge.spread
    return current, gauge_of(current, target)


def _spectral(taps: Taps) -> Spectral:
    weight = taps.weight
    if weight.shape[1] < weight.shape[2]:
        # The step commutes with the transpose; the Gram matrix is formed on the smaller side.
        weight = weight.transpose(1, 2)
    plane = half_plane(taps.offsets, taps.alias_free_grid, dtype=weight.dtype, device=weight.device)
    parts = transform(weight, plane.analysis).flatten(1, 2)
    real, imaginary = parts
    gram = torch.bmm(real.mT, real)
    share = plane.share
    if len(weight) > 1:
        share = share.repeat_interleave(len(weight)) / len(weight)
    if len(plane) == 1:
        return Spectral(parts, gram, None, plane.synthesis, share)
    gram.baddbmm_(imaginary.mT, imaginary)
    cross = torch.bmm(real.mT, imaginary)
    return Spectral(parts, gram, cross - cross.mT, plane.synthesis, share)


def _gauge(spectral: Spectral, target: float) -> Gauge:
    """Spread by Parseval; bound by the mean and variance of the eigenvalues at each frequency.

    m numbers of mean μ and variance v are at most μ + √((m − 1)v) (Wolkowicz and Styan). Where
    this is too coarse to let a step pass, power iteration on the Gram matrices gives an estimate.
    """
    m = spectral.real.shape[-1]
    trace = spectral.real.diagonal(dim1=1, dim2=2).sum(1)
    norm = torch.linalg.vector_norm(spectral.real, dim=(1, 2))
    if spectral.imaginary is not None:
        norm = torch.hypot(norm, torch.linalg.vector_norm(spectral.imaginary, dim=(1, 2)))
    square = norm * norm
    deviation = torch.addcmul(square, trace, trace, value=-1 / m).clamp_min_(0)
    bound = deviation.mul_((m - 1) / m).sqrt_().add_(trace, alpha=1 / m).max()
    share = spectral.share
    largest, second, first = torch.stack([bound, share @ square, share @ trace]).tolist()
    bound_of_all = largest / target**2
    if _eased(bound_of_all) > 3:
        bound_of_all = min(bound_of_all, _power_estimate(spectral) / target**2)
    mean_square = second / target**4 / m - 2 * first / target**2 / m + 1
    return Gauge(math.sqrt(max(mean_square, 0)) / 2, bound_of_all)


def _power_estimate(spectral: Spectral) -> float:
    """The largest eigenvalue of the Gram matrices, from below and near."""
    gram = spectral.real
    if spectral.imaginary is not None:
        gram = torch.complex(gram, spectral.imaginary)
    generator = torch.Generator(device="cpu").manual_seed(0)
    start = torch.randn(gram.shape[-1], 4, generator=generator).to(gram.device, gram.dtype)
    vectors = start.expand(len(gram), -1, -1)
    for _ in range(_POWER_STEPS):
        vectors = gram @ (vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True))
    return torch.linalg.vector_norm(vectors, dim=1).max().item()


def _eased(bound: float) -> float:
    return 1 + _MARGIN * (bound - 1)


def _stepped(taps: Taps, spectral: Spectral, gauge: Gauge, target: float) -> Taps:
    eased = _eased(gauge.bound)
    eta = 0.5 if eased <= 3 else 1 / (eased - 1)
    p, q = spectral.parts
    g, h = spectral.real, spectral.imaginary
    if h is None:
        cubic = torch.bmm(p, g)[..., None]
    else:
        real = torch.baddbmm(torch.bmm(p, g), q, h, alpha=-1)
        imaginary = torch.baddbmm(torch.bmm(p, h), q, g)
        groups = (-1, len(taps.weight))
        cubic = _to_taps(
            real.unflatten(0, groups), imaginary.unflatten(0, groups), spectral.synthesis
        )
    if taps.weight.shape[1] < taps.weight.shape[2]:
        cubic = cubic.transpose(1, 2)
    return taps.with_weight(torch.add((1 + eta) * taps.weight, cubic, alpha=-eta / target**2))


def _to_taps(
    real: Float[Tensor, "f g d c"],
    imaginary: Float[Tensor, "f g d c"],
    synthesis: Float[Tensor, "t parts"],
) -> Float[Tensor, "g d c t"]:
    """The kernel of matrices P(ω): its taps only, whatever else the inverse transform would hold."""
    half = len(real)
    kernel = synthesis[:, :half] @ real.reshape(half, -1)
    kernel = torch.addmm(kernel, synthesis[:, half:], imaginary.reshape(half, -1))
    return kernel.T.reshape(*real.shape[1:], -1)
