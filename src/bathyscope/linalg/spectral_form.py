"""The Gram matrices of a kernel at few frequencies, which stand for those of any image.

A product of three kernels of k taps is exact on a torus of 2k − 1 points an axis where only the
kernel's own taps are kept: a 3×3 kernel takes 13 frequencies, whatever the size of the image.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.linalg.gauge import Gauge, refine
from bathyscope.linalg.polar import inverse_root
from bathyscope.linalg.taps import Offsets, half_plane


class _Transforms(NamedTuple):
    """To P and −iP at half the frequencies, real parts before imaginary ones, and back."""

    fraction: tuple[float, ...]
    analysis: Float[Tensor, " rows t"]
    synthesis: Float[Tensor, " parts t"]


class SpectralForm(NamedTuple):
    """P(ω) on a grid, and PᴴP − target²·I in real and imaginary parts.

    x holds P and y holds −iP, real parts above imaginary ones, so that PᴴP = xᵀx + i·xᵀy.
    A batch runs over frequencies and groups.
    """

    weight: Float[Tensor, " g d c t"]
    target: float
    transforms: _Transforms
    x: Float[Tensor, " b parts c"]
    y: Float[Tensor, " b parts c"]
    excess: Float[Tensor, " b c c"]
    imaginary: Float[Tensor, " b c c"]

    def gauge(self) -> Gauge:
        """Spread by Parseval, with the Frobenius norm of the excess as bound where that will do."""
        excess, imaginary = self.excess.detach(), self.imaginary.detach()
        norms = torch.linalg.vector_norm(excess, dim=(1, 2)).hypot(
            torch.linalg.vector_norm(imaginary, dim=(1, 2))
        )
        # Plain numbers: there are few, and each small operation on tensors would cost as much.
        sizes = [norm / self.target**2 for norm in norms.tolist()]
        groups, _, c, _ = self.weight.shape
        fraction = self.transforms.fraction
        square = sum(fraction[index // groups] * size * size for index, size in enumerate(sizes))
        gauge = Gauge(math.sqrt(square / (groups * c)) / 2, 1 + max(sizes))
        if gauge.is_near:
            return gauge
        return refine(gauge, self.target, x=self.x.detach(), excess=excess, imaginary=imaginary)

    def step(self, length: float) -> Float[Tensor, " g d c t"]:
        """K − length·[P(PᴴP/target² − I)], the bracket taken back to the kernel's taps."""
        pull = -length / self.target**2
        return self._synthesize(self.excess, self.imaginary, stay=1.0, pull=pull)

    def polar(self) -> Float[Tensor, " g d c t"] | None:
        """[P(PᴴP)^{-1/2}] taken back to the kernel's taps; None where the Gram matrix is too poor."""
        gram = torch.complex(self.excess, self.imaginary)
        gram.diagonal(dim1=1, dim2=2).add_(self.target**2)
        root = inverse_root(gram)
        if root is None:
            return None
        return self._synthesize(root.real, root.imag, stay=0.0, pull=1.0)

    def _synthesize(
        self, real: Tensor, imaginary: Tensor, *, stay: float, pull: float
    ) -> Float[Tensor, " g d c t"]:
        """stay·K + pull·[P(real + i·imaginary)], the bracket taken back to the kernel's taps."""
        product = torch.bmm(self.x, real).sub_(torch.bmm(self.y, imaginary))
        groups, d, c, taps = self.weight.shape
        if groups > 1:
            product = product.view(-1, groups, 2, d * c).transpose(1, 2)
        parts = product.reshape(len(self.transforms.synthesis), -1)
        kernel = self.weight.reshape(-1, taps)
        back = torch.addmm(kernel, parts.T, self.transforms.synthesis, beta=stay, alpha=pull)
        return back.view(self.weight.shape)


def spectral_form(
    weight: Float[Tensor, " g d c t"],
    target: float,
    offsets: Offsets,
    grid: tuple[int, ...],
) -> SpectralForm:
    """A kernel of no more columns than rows at the frequencies of a grid.

    A step and its gauge are exact from the kernel's alias-free grid on.
    """
    groups, d, c, taps = weight.shape
    transforms = _transforms(offsets, grid, weight.dtype, weight.device)
    both = transforms.analysis @ weight.reshape(-1, taps).T
    if groups > 1:
        both = both.view(-1, 2, groups, d * c).transpose(1, 2)
    x, y = both.reshape(2, -1, 2 * d, c).unbind()
    excess = torch.bmm(x.mT, x)
    excess.diagonal(dim1=1, dim2=2).sub_(target**2)
    return SpectralForm(weight, target, transforms, x, y, excess, torch.bmm(x.mT, y))


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is kept must serve autograd too, whoever asked first
def _transforms(
    offsets: Offsets,
    grid: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> _Transforms:
    plane = half_plane(offsets, grid, dtype=dtype, device=device)
    cos, sin = plane.analysis.view(2, len(plane), -1)
    analysis = torch.stack([torch.stack([cos, sin], 1), torch.stack([sin, -cos], 1)])
    synthesis = plane.synthesis.T.unflatten(0, (2, -1)).transpose(0, 1)
    return _Transforms(plane.fraction, analysis.flatten(0, 2), synthesis.flatten(0, 1))
