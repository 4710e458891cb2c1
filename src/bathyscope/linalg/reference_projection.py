"""The projection of norm_preservation as its algorithm 1 states it, to compare with."""

import math
import warnings

import torch
from torch import Tensor

from bathyscope.linalg.polar import inverse_square_root
from bathyscope.linalg.taps import Taps

_CONVERGED = 0.01
"""How far a singular value may be off its target after the ten iterations."""


def reference_projection(taps: Taps, target: float, *, grid: tuple[int, ...]) -> Taps:
    """Algorithm 1 of norm_preservation to the letter: all frequencies, equation 9, cut.

    PᴴP is the c×c Gram matrix whatever the shape of P, and ten coupled iterations give its inverse
    root. The authors' code conjugates the spectrum on the way back, which mirrors the kernel and
    moves its energy to one corner; that is not repeated here.

    Ten iterations do not suffice for matrices with small singular values: where a singular value, before
    the cut, is off its target by more than a hundredth, a warning says so.
    """
    phases = _all_phases(taps.layout.offsets, grid, taps.weight)
    matrices = torch.einsum("gdct,ft->fgdc", taps.weight.to(phases.dtype), phases)
    projected = target * (matrices @ inverse_square_root(matrices.mH @ matrices))
    _warn_unless_converged(projected, target)
    kernel = torch.einsum("fgdc,ft->gdct", projected, phases.conj()).real / math.prod(grid)
    return taps.with_weight(kernel.contiguous())


def _warn_unless_converged(projected: Tensor, target: float) -> None:
    tall = projected.shape[-2] >= projected.shape[-1]
    gram = projected.mH @ projected if tall else projected @ projected.mH
    # |σ²/s² − 1| of the worst singular value is at most this norm, and near convergence twice |σ/s − 1|
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    worst = float(torch.linalg.matrix_norm(gram / target**2 - eye).max())
    if not worst <= 2 * _CONVERGED:
        warnings.warn(
            f"Ten iterations of the reference projection did not converge: a singular value is off its "
            f"target by a factor that differs from 1 by about {worst / 2:.2g}. "
            "Take method='exact' or 'auto'.",
            stacklevel=3,
        )


def _all_phases(
    offsets: tuple[tuple[int, ...], ...], grid: tuple[int, ...], like: Tensor
) -> Tensor:
    frequencies = torch.cartesian_prod(*(torch.arange(n, device="cpu") / n for n in grid)).view(
        -1, len(grid)
    )
    turns = frequencies.double() @ torch.tensor(offsets, device="cpu").double().T
    phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
    return phases.to(like.device, torch.complex(like[:0], like[:0]).dtype)
