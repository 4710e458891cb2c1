"""The projection of norm_preservation as its algorithm 1 states it, to compare with."""

import math

import torch
from torch import Tensor

from bathyscope.linalg.polar import inverse_square_root
from bathyscope.linalg.taps import Taps


def reference_projection(taps: Taps, target: float, *, grid: tuple[int, ...]) -> Taps:
    """Algorithm 1 of norm_preservation to the letter: all frequencies, equation 9, cut.

    PᴴP is the c×c Gram matrix whatever the shape of P, and ten coupled iterations give its inverse
    root. The authors' code conjugates the spectrum on the way back, which mirrors the kernel and
    moves its energy to one corner; that is not repeated here.
    """
    phases = _all_phases(taps.layout.offsets, grid, taps.weight)
    matrices = torch.einsum("gdct,ft->fgdc", taps.weight.to(phases.dtype), phases)
    projected = target * (matrices @ inverse_square_root(matrices.mH @ matrices))
    kernel = torch.einsum("fgdc,ft->gdct", projected, phases.conj()).real / math.prod(grid)
    return taps.with_weight(kernel.contiguous())


def _all_phases(
    offsets: tuple[tuple[int, ...], ...], grid: tuple[int, ...], like: Tensor
) -> Tensor:
    frequencies = torch.cartesian_prod(*(torch.arange(n, device="cpu") / n for n in grid)).view(
        -1, len(grid)
    )
    turns = frequencies.double() @ torch.tensor(offsets, device="cpu").double().T
    phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
    return phases.to(like.device, torch.complex(like[:0], like[:0]).dtype)
