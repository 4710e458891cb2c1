"""A kernel as taps: matrices at offsets, of which the Fourier transform is a small product.

P(ω) = Σ_t W_t e^{iω·q_t}. Stride becomes more input channels (polyphase components), dilation and
the number of axes become offsets, groups a batch: what follows needs to know none of them.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from bathyscope.linalg.convolution import Convolution

Offsets = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the taps of a kernel lie, and the way back to the kernel.

    `slots` names for each tap of the kernel the polyphase component and the offset it became;
    None stands for taps that are those of the kernel, in its order.
    """

    offsets: Offsets
    kernel: tuple[int, ...]
    components: int = 1
    slots: tuple[tuple[int, int], ...] | None = None

    @cached_property
    def span(self) -> tuple[int, ...]:
        """Offsets from first to last along each axis, inclusive."""
        return tuple(max(axis) + 1 for axis in zip(*self.offsets, strict=True))

    @cached_property
    def alias_free_grid(self) -> tuple[int, ...]:
        """The smallest grid on which P, PᴴP, and P·PᴴP at the kernel's taps, are all exact.

        P·PᴴP reaches span − 1 beyond the kernel on either side: on a torus of 2·span − 1 points
        what reaches over lands beside the taps, not on them.
        """
        return tuple(2 * span - 1 for span in self.span)


@dataclass(frozen=True, eq=False)
class Taps:
    """The matrices W_t of a kernel, and where they lie."""

    weight: Float[Tensor, " g d c t"]
    layout: Layout

    def with_weight(self, weight: Float[Tensor, " g d c t"]) -> "Taps":
        """Other matrices at the same places; entries that are not a tap of the kernel are cut."""
        if self.layout.slots is not None:
            weight = _scatter(_gather(weight, self.layout), self.layout)
        return Taps(weight, self.layout)

    @property
    def is_wide(self) -> bool:
        """Whether the matrices have fewer rows than columns."""
        return self.weight.shape[1] < self.weight.shape[2]

    def tall(self) -> Float[Tensor, " g d c t"]:
        """The matrices, transposed where they are wide: Gram matrices are then on the smaller side."""
        return self.weight.transpose(1, 2) if self.is_wide else self.weight

    def from_tall(self, weight: Float[Tensor, " g d c t"]) -> "Taps":
        """The way back from `tall`, for other matrices."""
        return self.with_weight(weight.transpose(1, 2) if self.is_wide else weight)

    def with_kernel(self, kernel: Float[Tensor, " ..."]) -> "Taps":
        """The taps of another kernel, shaped as in `Convolution.weight` or as in its layer."""
        if self.layout.slots is None:
            return Taps(kernel.reshape(self.weight.shape), self.layout)
        groups, d, rc, _ = self.weight.shape
        weight = kernel.reshape(groups, d, rc // self.layout.components, -1)
        return Taps(_scatter(weight, self.layout), self.layout)

    def to_kernel(self, shape: torch.Size | None = None) -> Float[Tensor, " ..."]:
        """The kernel, shaped as in `Convolution.weight` if no other shape is given."""
        weight = self.weight if self.layout.slots is None else _gather(self.weight, self.layout)
        return weight.reshape(shape or (*weight.shape[:3], *self.layout.kernel))


def polyphase(conv: Convolution) -> Taps:
    """The taps of a convolution, with stride s turned into s polyphase components an axis.

    With δ·t = s·q + r, y[o] = Σ_r Σ_q K[r, q] x_r[o + q], where x_r[j] = x[s·j + r]: a convolution
    of stride 1 over the images x_r. Components that no tap meets are left out.

    Examples:
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> taps = polyphase(convolution_of(torch.ones(8, 3, 3, 3), stride=2))
        >>> taps.layout.components, taps.layout.span, tuple(taps.weight.shape)
        (4, (2, 2), (1, 8, 12, 4))
    """
    locations = itertools.product(*(range(k) for k in conv.kernel))
    pixels = [tuple(t * dil for t, dil in zip(p, conv.dilation, strict=True)) for p in locations]
    split = [
        tuple(zip(*(divmod(x, s) for x, s in zip(p, conv.stride, strict=True)), strict=True))
        or ((), ())
        for p in pixels
    ]
    offsets = sorted({q for q, _ in split})
    remainders = sorted({r for _, r in split})
    slots = tuple((remainders.index(r), offsets.index(q)) for q, r in split)
    unmoved = slots == tuple((0, index) for index in range(len(offsets)))
    layout = Layout(
        offsets=tuple(offsets),
        kernel=conv.kernel,
        components=len(remainders),
        slots=None if unmoved else slots,
    )
    weight = conv.weight.reshape(*conv.weight.shape[:3], -1)
    return Taps(weight if unmoved else _scatter(weight, layout), layout)


def _scatter(weight: Float[Tensor, " g d c k"], layout: Layout) -> Float[Tensor, " g d rc t"]:
    assert layout.slots is not None
    g, d, c, _ = weight.shape
    spread = weight.new_zeros(g, d, layout.components, len(layout.offsets), c)
    component, offset = zip(*layout.slots, strict=True)
    spread[:, :, component, offset] = weight.transpose(2, 3)
    return spread.transpose(3, 4).flatten(2, 3)


def _gather(weight: Float[Tensor, " g d rc t"], layout: Layout) -> Float[Tensor, " g d c k"]:
    assert layout.slots is not None
    component, offset = zip(*layout.slots, strict=True)
    split = weight.unflatten(2, (layout.components, -1)).transpose(3, 4)
    result: Tensor = split[:, :, component, offset].transpose(2, 3)
    return result


def compress(taps: Taps) -> Taps:
    """The taps with common factors of their offsets taken out, as after dilation.

    On an endless lattice this only relabels frequencies: the set of singular values is the same.
    """
    locations = taps.layout.offsets
    factors = [math.gcd(*axis) or 1 for axis in zip(*locations, strict=True)]
    if all(factor == 1 for factor in factors):
        return taps
    offsets = tuple(
        tuple(q // factor for q, factor in zip(location, factors, strict=True))
        for location in locations
    )
    return Taps(taps.weight, replace(taps.layout, offsets=offsets))


def tap_products(taps: Taps) -> Taps:
    """The taps of P(ω)ᴴP(ω) = Σ_δ A_δ e^{iω·δ}, A_δ = Σ W_tᵀW_u over all pairs with q_u − q_t = δ.

    Of wide matrices those of their transposes: the smaller Gram matrix, or its conjugate. Products are
    summed up in double precision.

    Examples:
        >>> from bathyscope.linalg.convolution import convolution_of
        >>> products = tap_products(polyphase(convolution_of(torch.ones(1, 1, 2))))
        >>> products.layout.offsets, products.weight.flatten().tolist()
        (((-1,), (0,), (1,)), [1.0, 2.0, 1.0])
    """
    groups, d, c, num_taps = taps.tall().shape
    columns = taps.tall().double().reshape(groups, d, c * num_taps)
    pairs = (columns.mT @ columns).view(groups, c, num_taps, c, num_taps)
    locations = list(itertools.product(taps.layout.offsets, repeat=2))
    distances = [tuple(b - a for a, b in zip(*pair, strict=True)) for pair in locations]
    offsets = tuple(sorted(set(distances)))
    index = torch.tensor([offsets.index(x) for x in distances], device=columns.device)
    weight = columns.new_zeros(groups, c, c, len(offsets))
    weight.index_add_(3, index, pairs.permute(0, 1, 3, 2, 4).flatten(3))
    return Taps(weight, Layout(offsets=offsets, kernel=taps.layout.kernel))


@dataclass(frozen=True, eq=False)
class HalfPlane:
    """One of each pair ω, −ω of a grid's frequencies: for a real kernel P(−ω) is the conjugate.

    `analysis` holds cos and sin of ω·q_t, stacked; `synthesis` takes real and imaginary parts,
    stacked, back to the taps; `multiplicity` is 2 for a pair and 1 for ω = −ω, and `share` the
    same as part of all frequencies.
    """

    multiplicity: Float[Tensor, " f"]
    fraction: tuple[float, ...]
    analysis: Float[Tensor, " parts t"]
    synthesis: Float[Tensor, " t parts"]

    def __len__(self) -> int:
        return len(self.multiplicity)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is kept must serve autograd too, whoever asked first
def half_plane(
    offsets: Offsets,
    grid: tuple[int, ...],
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | None = None,
) -> HalfPlane:
    """Half of a grid's frequencies with the Fourier transform of taps at the offsets.

    Examples:
        >>> plane = half_plane(((0,), (1,), (2,)), (4,))
        >>> plane.multiplicity.tolist()
        [1.0, 2.0, 1.0]
    """
    # not `unravel_index`, whose checks import sympy
    axes = [torch.arange(n, device="cpu") for n in grid]
    points = torch.zeros(1, 0, dtype=torch.long, device="cpu")
    if grid:
        points = torch.cartesian_prod(*axes).reshape(-1, len(grid))
    sizes = torch.tensor(grid, dtype=torch.long, device="cpu")
    rank = torch.arange(len(points), device="cpu")
    mirror = _flat_index(-points % sizes, sizes)
    points, multiplicity = points[rank <= mirror], 1.0 + (rank < mirror)[rank <= mirror].double()
    # Whole turns are taken off in integers, so that the phase keeps its digits at any size.
    turns = (points[:, None] * torch.tensor(offsets, dtype=torch.long, device="cpu")) % sizes
    phase = 2 * math.pi * (turns.double() / sizes).sum(-1)
    analysis = torch.cat([phase.cos(), phase.sin()])
    fraction = multiplicity / math.prod(grid)
    weights = torch.cat([fraction, fraction])
    return HalfPlane(
        multiplicity.to(device, dtype),
        tuple(fraction.tolist()),
        analysis.to(device, dtype),
        (analysis * weights[:, None]).T.contiguous().to(device, dtype),
    )


def _flat_index(points: Tensor, sizes: Tensor) -> Tensor:
    index = torch.zeros(len(points), dtype=torch.long, device="cpu")
    for axis, size in enumerate(sizes.tolist()):
        index = index * size + points[:, axis]
    return index


def transform(
    weight: Float[Tensor, " g d c t"], analysis: Float[Tensor, " parts t"]
) -> Float[Tensor, " 2 f g d c"]:
    """Real and imaginary parts of P(ω) at every frequency, as one matrix product."""
    g, d, c, t = weight.shape
    return (analysis @ weight.reshape(-1, t).T).view(2, -1, g, d, c)


def frequency_matrices(
    weight: Float[Tensor, " g d c t"], analysis: Float[Tensor, " parts t"]
) -> Complex[Tensor, " f g d c"]:
    """P(ω) at every frequency (theorem 3 of norm_preservation)."""
    return torch.complex(*transform(weight, analysis))


def matrices_of_groups(
    weight: Float[Tensor, " p d c t"], analysis: Float[Tensor, " parts t"]
) -> Complex[Tensor, " p d c"]:
    """P(ω) of every group at a frequency of its own: rows p and p + (how many) of the analysis.

    Examples:
        >>> analysis = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> matrices_of_groups(torch.ones(2, 1, 1, 1), analysis).flatten()
        tensor([1.+0.j, 1.+0.j])
    """
    parts = analysis.unflatten(0, (2, -1)).permute(1, 2, 0)
    return torch.view_as_complex((weight.flatten(1, 2) @ parts).unflatten(1, weight.shape[1:3]))
