"""Convolutions that are not a torus: bounds on every singular value, and the true ones matrix-free.

A padded convolution is A = R·C·E: E embeds the image in a larger one by padding, C is the
convolution of that larger image on a torus, R keeps the outputs that no edge reached.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from bathyscope.core.errors import BathyscopeError
from bathyscope.linalg.convolution import Convolution, working_dtype

if TYPE_CHECKING:  # it takes a third of a second to import
    from scipy.sparse.linalg import LinearOperator

TorusValues = Callable[[Convolution, tuple[int, ...]], Tensor]

_DENSE = 2**24  # entries of a matrix that is worth writing down: 128 MB in double precision
_CONVOLVE: dict[int, Callable[..., Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}


@dataclass(frozen=True, eq=False)
class PaddedOperator:
    """A convolution on images of one size, with its true padding, in double precision."""

    conv: Convolution
    image: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of outputs and of inputs."""
        return self.conv.shape(self.image)

    def apply(self, x: Float[Tensor, " b c *n"]) -> Float[Tensor, " b d *m"]:
        """A x, for a batch of images."""
        conv = self.conv
        groups, d, c = conv.weight.shape[:3]
        weight = conv.weight.to(x.dtype).reshape(groups * d, c, *conv.kernel)
        if not conv.kernel:
            return functional.linear(x, weight)
        options = {"stride": conv.stride, "dilation": conv.dilation, "groups": groups}
        return _CONVOLVE[len(conv.kernel)](pad_images(x, conv), weight, **options)

    def adjoint(self, y: Float[Tensor, " b d *m"]) -> Float[Tensor, " b c *n"]:
        """Aᵀ y: the gradient of ⟨A x, y⟩ in x, which holds for any padding."""
        x = y.new_zeros(len(y), self.conv.channels[1], *self.image, requires_grad=True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self.apply(x), x, y)
        return gradient

    def dense(self) -> Float[Tensor, " rows columns"]:
        """The matrix itself."""
        columns = self.shape[1]
        basis = torch.eye(columns, dtype=torch.float64, device=self.conv.weight.device)
        images = basis.view(columns, self.conv.channels[1], *self.image)
        pieces = [self.apply(piece).flatten(1) for piece in images.split(256)]
        return torch.cat(pieces).T

    def gram(self) -> "LinearOperator":
        """AᵀA or AAᵀ, whichever is smaller, for scipy."""
        from scipy.sparse.linalg import LinearOperator

        rows, columns = self.shape
        side = min(rows, columns)
        d, c = self.conv.channels
        device = self.conv.weight.device

        def product(v: object) -> object:
            x = torch.as_tensor(v, dtype=torch.float64, device=device).reshape(1, -1)
            if columns <= rows:
                x = self.adjoint(self.apply(x.view(1, c, *self.image)))
            else:
                x = self.apply(self.adjoint(x.view(1, d, *self.conv.output_size(self.image))))
            return x.flatten().cpu().numpy()

        return LinearOperator((side, side), matvec=product, dtype="float64")


def pad_images(x: Float[Tensor, " b c *n"], conv: Convolution) -> Float[Tensor, " b c *m"]:
    """The images with their padding; torch takes the widths last axis first."""
    widths = [width for pair in reversed(conv.padding) for width in pair]
    if not any(widths):
        return x
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    return functional.pad(x, widths, mode=mode)


def padding_bounds(
    conv: Convolution, image: tuple[int, ...], torus_values: TorusValues
) -> tuple[Float[Tensor, " r"], Float[Tensor, " r"]]:
    """Upper and lower bounds on each singular value of a padded convolution, largest first.

    With C the same kernel on the torus of the padded image, and r the number of rows and columns
    that are cut from C, interlacing gives σ_{j+r}(C) ≤ σ_j(A) ≤ ‖E‖ σ_j(C). Zero padding embeds
    the image as it is, ‖E‖ = 1; a mode that copies pixels has ‖E‖² = the most copies of any pixel.
    """
    strides = conv.stride
    whole = tuple(
        math.ceil((n + sum(pad)) / s) * s
        for n, pad, s in zip(image, conv.padding, strides, strict=True)
    )
    grid = tuple(n // s for n, s in zip(whole, strides, strict=True))
    torus = torus_values(conv, grid)
    d, c = conv.channels
    rows, columns = conv.shape(image)
    cut = d * math.prod(grid) - rows + c * math.prod(whole) - columns
    count = min(rows, columns)
    lower = torch.cat([torus[cut:], torus.new_zeros(count)])[:count]
    upper = torch.cat([torus, torus.new_zeros(count)])[:count]
    return upper * math.sqrt(_most_copies(conv, image)), lower


def _most_copies(conv: Convolution, image: tuple[int, ...]) -> int:
    """How often padding repeats the pixel it repeats most."""
    if conv.padding_mode == "zeros" or not image:
        return 1
    pixels = torch.arange(math.prod(image), dtype=torch.float64, device="cpu").view(1, 1, *image)
    return int(pad_images(pixels, conv).flatten().long().bincount().max())


def padded_singular_values(
    conv: Convolution, image: tuple[int, ...], *, num: int
) -> tuple[Float[Tensor, " r"], bool]:
    """True singular values of a padded convolution, largest first, and whether they are all.

    A group is a map of its own. One whose matrix is small is written down; of a larger one the
    `num` largest come from Lanczos on the Gram operator and the `num` smallest from Lanczos on
    its inverse, applied by conjugate gradients.

    Raises:
        BathyscopeError: conjugate gradients did not converge, as for a map that is nearly singular.
    """
    operators = [
        PaddedOperator(replace(conv, weight=conv.weight[g : g + 1]), image)
        for g in range(len(conv.weight))
    ]
    whole = math.prod(operators[0].shape) <= _DENSE
    if whole:
        values = torch.cat([torch.linalg.svdvals(operator.dense()) for operator in operators])
    else:
        ends = [_extremes(operator, num) for operator in operators]
        values = torch.cat(ends)
    ordered = values.sort(descending=True).values
    if not whole and len(ordered) > 2 * num:
        ordered = torch.cat([ordered[:num], ordered[-num:]])
    return ordered.to(conv.weight.device, working_dtype(conv.weight.dtype)), whole


def _extremes(operator: PaddedOperator, num: int) -> Float[Tensor, " r"]:
    from scipy.sparse.linalg import LinearOperator, cg, eigsh

    gram = operator.gram()
    # A fixed start makes the answer the same each time.
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(gram.shape[0], generator=generator, device="cpu").double().numpy()
    largest = eigsh(gram, k=num, which="LA", v0=start, return_eigenvectors=False)

    def solve(v: object) -> object:
        x, failed = cg(gram, v, rtol=1e-11, maxiter=20 * gram.shape[0])
        if failed:
            raise BathyscopeError(
                "The smallest singular values were not found: the padded convolution is nearly "
                "singular; take method='auto' for bounds."
            )
        return x

    inverse = LinearOperator(gram.shape, matvec=solve, dtype="float64")
    smallest = eigsh(inverse, k=num, which="LA", v0=start, tol=1e-9, return_eigenvectors=False)
    squares = torch.cat([torch.as_tensor(largest.copy()), 1 / torch.as_tensor(smallest.copy())])
    return squares.clamp_min(0).sqrt()
