"""The Gram matrices of a small kernel, or of one tap, held in space: two products make a step.

PᴴP(ω) = Σ_Δ R_Δ e^{iω·Δ}, where R_Δ sums the blocks W_tᵀW_t' of the Gram matrix of all taps whose
offsets differ by Δ. Spreading them out again gives the matrix by which a step multiplies the kernel.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bathyscope.linalg.gauge import Gauge, refine
from bathyscope.linalg.taps import Offsets

_LARGEST = 96  # taps times channels; beyond it the Gram matrix of all taps costs more than it saves


class _Fold(NamedTuple):
    """Which entry of the R_Δ each entry of the Gram matrix goes to, and the R_Δ of the identity."""

    locations: Int[Tensor, " pairs"]
    identity: Float[Tensor, " 1 r"]
    shifts: int


class SpatialForm(NamedTuple):
    """A kernel with all its taps in one matrix, and PᴴP − target²·I as the blocks R_Δ."""

    weight: Float[Tensor, " g d c t"]
    target: float
    flat: Float[Tensor, " g d ct"]
    excess: Float[Tensor, " g ..."]
    fold: _Fold | None

    def gauge(self, *, finely: bool = True) -> Gauge | None:
        """The spread, by Parseval, with the bound Σ_Δ‖R_Δ‖_F ≤ √(number of Δ)·‖R‖_F.

        None where this bound is too coarse and only frequencies can show. Without `finely` it will
        do for a kernel far above its target too, of which no step is asked.
        """
        groups, _, c, _ = self.weight.shape
        size = torch.linalg.vector_norm(self.excess.detach()).item() / self.target**2
        reach = 1.0 if self.fold is None else math.sqrt(self.fold.shifts)
        gauge = Gauge(size / (2 * math.sqrt(groups * c)), 1 + reach * size)
        if gauge.is_near:
            return gauge
        if not finely and gauge.is_far:
            return gauge
        if self.fold is None:
            return refine(gauge, self.target, x=self.flat.detach(), excess=self.excess.detach())
        return None

    def step(self, length: float) -> Float[Tensor, " g d c t"]:
        """K − length·[K(PᴴP/target² − I)], the bracket cut to the kernel's taps."""
        excess = self.excess
        if self.fold is not None:
            size = self.flat.shape[-1]
            excess = excess.index_select(1, self.fold.locations).view(-1, size, size)
        stepped = torch.baddbmm(self.flat, self.flat, excess, alpha=-length / self.target**2)
        return stepped.view(self.weight.shape)


def spatial_form(
    weight: Float[Tensor, " g d c t"], target: float, offsets: Offsets
) -> SpatialForm | None:
    """A kernel of no more columns than rows in this form, or None for one that is too large."""
    groups, d, c, taps = weight.shape
    if taps > 1 and c * taps > _LARGEST:
        return None
    flat = weight.reshape(groups, d, c * taps)
    gram = torch.bmm(flat.mT, flat)
    if taps == 1:
        gram.diagonal(dim1=1, dim2=2).sub_(target**2)
        return SpatialForm(weight, target, flat, gram, None)
    fold = _fold(offsets, c, weight.dtype, weight.device)
    start = (fold.identity * -(target**2)).expand(groups, -1)
    excess = start.index_add(1, fold.locations, gram.flatten(1))
    return SpatialForm(weight, target, flat, excess, fold)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is kept must serve autograd too, whoever asked first
def _fold(offsets: Offsets, channels: int, dtype: torch.dtype, device: torch.device) -> _Fold:
    shifts = [
        tuple(b - a for a, b in zip(first, second, strict=True))
        for first in offsets
        for second in offsets
    ]
    known = sorted(set(shifts))
    taps, block = len(offsets), channels**2
    shift = torch.tensor([known.index(s) for s in shifts], device="cpu").view(1, taps, 1, taps)
    pair = torch.arange(block, device="cpu").view(channels, 1, channels, 1)
    identity = torch.zeros(len(known), channels, channels, device="cpu")
    identity[known.index((0,) * len(offsets[0]))] = torch.eye(channels, device="cpu")
    return _Fold(
        (shift * block + pair).flatten().to(device),
        identity.view(1, -1).to(device, dtype),
        len(known),
    )
