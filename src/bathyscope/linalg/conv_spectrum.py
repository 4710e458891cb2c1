"""All singular values of the linear map that a convolution is, with the padding they hold for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor, nn

from bathyscope.core.arguments import check_choice, check_count
from bathyscope.core.errors import UsageError
from bathyscope.core.fetch import to_host
from bathyscope.linalg.conditioning import SMALL_SIDE, rounding_tolerance
from bathyscope.linalg.convolution import (
    Convolution,
    PaddingMode,
    Sizes,
    convolution_of,
    per_axis,
    working_dtype,
)
from bathyscope.linalg.norms import spread_about
from bathyscope.linalg.padded_operator import padded_singular_values, padding_bounds
from bathyscope.linalg.taps import (
    Taps,
    frequency_matrices,
    half_plane,
    matrices_of_groups,
    polyphase,
    tap_products,
)

Method = Literal["fourier", "dense", "bound", "matrix-free"]

# Relative error asked of every value, by the precision of the Gram matrix. That squares the condition
# number: an eigenvalue below ε / tolerance of the largest is found again in a better way. Of a kernel in
# single precision the values are given in single: half of its rounding is enough.
_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
_TOLERANCE_OF_SINGLE = {torch.float32: 1e-5, torch.float64: torch.finfo(torch.float32).eps / 2}
# complex numbers held at a time: 4 MB, which a cache holds and no system call is asked for
_CHUNK = 2**18
_SMALL = 2**20  # entries of the matrix of a group whose SVD takes less than a second


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvSpectrum:
    """Singular values of a convolution on images of one size, and what they hold for.

    `values` fall from the largest and repeat with their multiplicity. `method` says what they are:
    "fourier" all of them, exactly; "dense" the same from the matrix written down; "bound" an upper
    bound on each, with `lower` a lower bound; "matrix-free" those of the padded map itself, all if
    `complete`, else some at each end.
    `target` is the value at which every nonzero σ would preserve the norm of isotropic gradients,
    and `tolerance`, relative to the largest, the size at and below which a value counts as zero.
    """

    values: Float[Tensor, " r"]
    padding: PaddingMode
    method: Method
    size: tuple[int, ...]
    shape: tuple[int, int]
    tolerance: float
    target: float
    lower: Float[Tensor, " r"] | None = None
    complete: bool = True

    @property
    def largest(self) -> float:
        """Spectral norm, or an upper bound on it where `method` is "bound"."""
        return self.values[0].item()

    @property
    def smallest(self) -> float:
        """Smallest value, zeros included, or a lower bound on it where `method` is "bound"."""
        return (self.values if self.lower is None else self.lower)[-1].item()

    @cached_property
    def nonzero(self) -> Float[Tensor, " k"]:
        """The values above the tolerance; where `method` is "bound", those that may lie above it."""
        largest = self.values if self.lower is None else self.lower
        return self.values[self.values > self.tolerance * largest[0]]

    @property
    def rank(self) -> int:
        """Number of values above the tolerance, or an upper bound on it where `method` is "bound"."""
        return len(self.nonzero)

    @property
    def condition_number(self) -> float:
        """Largest over smallest; infinite where a value, or its lower bound, counts as zero."""
        cut = self.smallest <= self.tolerance * self.largest
        return math.inf if cut else self.largest / self.smallest

    @property
    def effective_condition_number(self) -> float:
        """Largest over smallest value above the tolerance: that of the map off its null space.

        NaN where the values are only bounded: which of them count as zero is then not known.
        """
        if self.lower is not None:
            return math.nan
        return self.largest / self.nonzero[-1].item() if self.rank else math.inf

    @property
    def spread(self) -> float:
        """How far from norm-preserving: rms of σ/target − 1 over the values above the tolerance.

        NaN where only the ends of the spectrum, or only bounds on the values, are known.
        """
        known = self.complete and self.lower is None
        return spread_about(self.nonzero, self.target) if known else math.nan

    @property
    def gradient_gain(self) -> float:
        """√(E‖Δx‖²/E‖Δy‖²) for isotropic gradients: √(Σσ²/rows); an upper bound from upper bounds.

        NaN where only the ends of the spectrum are known.
        """
        if not self.complete:
            return math.nan
        return math.sqrt(self.values.double().square().sum().item() / self.shape[0])

    def histogram(self, bins: int = 50) -> tuple[Float[Tensor, " bins"], Float[Tensor, " edges"]]:
        """Counts of the values in equal bins from 0 to the largest, and the edges of the bins."""
        counts, edges = torch.histogram(
            self.values.double().cpu(), bins, range=(0.0, self.largest or 1.0)
        )
        return counts, edges

    def __repr__(self) -> str:
        what = (
            f"ConvSpectrum({self.shape[0]}×{self.shape[1]}, {self.padding} padding, {self.method}"
        )
        if self.lower is not None:
            return f"{what}, σ ≤ {self.largest:.4g} and ≥ {self.smallest:.4g})"
        spread = "" if math.isnan(self.spread) else f", spread {self.spread:.3g}"
        return f"{what}, σ {self.largest:.4g} to {self.smallest:.4g}{spread})"


def conv_singular_values(
    layer: nn.Module | Float[Tensor, " d c *kernel"],
    size: Sizes | None = None,
    *,
    padding: PaddingMode | Sizes | Literal["valid"] | None = None,
    stride: Sizes | None = None,
    dilation: Sizes | None = None,
    groups: int | None = None,
    method: Literal["auto", "matrix-free"] = "auto",
    num: int = 6,
) -> ConvSpectrum:
    """Singular values of a convolution as a linear map on images of a given size.

    On a torus (circular padding) they are the union over frequencies of those of
    P(ω) = Σ_t K[t] e^{iω·t} (norm_preservation, theorem 3), with stride as polyphase components
    and one of each pair ω, −ω. A stride that does not divide the size leaves a shorter gap where
    the torus closes, so that no shift of the output is a shift of the input and no such form
    exists, nor does it for any other padding. A small map is then written down; of a larger one
    every value is bounded from both sides, and on request found from products with the map alone.

    Args:
        layer: Conv1d to 3d, ConvTranspose1d to 3d, Linear, or a bare weight.
        size: of the layer's input image, one number or one an axis; not needed for Linear.
        padding: None for the layer's own; "circular" for the torus, the model of most papers;
            for a bare weight also the other modes, "valid" or widths of zero padding.
        stride: of a bare weight.
        dilation: of a bare weight.
        groups: of a bare weight.
        method: "auto" is exact where Fourier analysis is, and elsewhere up to 2²⁰ entries of the
            matrix of a group; else it bounds. "matrix-free" finds the true values of the padded
            map: all of a small map, `num` at each end of a large one.
        num: how many values at each end.

    Returns:
        The values with the padding model and method that made them.

    Raises:
        UsageError: no linear map, a size that does not fit, a kernel wider than its image, or a
            kernel that is non-finite.

    Examples:
        >>> spectrum = conv_singular_values(torch.eye(4)[:, :2, None, None], size=8)
        >>> spectrum.largest, spectrum.smallest, round(spectrum.target, 3)
        (1.0, 1.0, 1.414)
    """
    check_choice("method", method, ("auto", "matrix-free"))
    check_count("num", num, minimum=1)
    conv = convolution_of(layer, stride=stride, dilation=dilation, groups=groups, padding=padding)
    if conv.weight.is_meta:
        raise UsageError("The kernel has no values (it is on the meta device); load weights first.")
    if not conv.weight.isfinite().all():
        raise UsageError("The kernel holds NaN or infinite entries; it has no singular values.")
    axes = len(conv.kernel)
    if axes and size is None:
        raise UsageError("A convolution's spectrum depends on the image's size; give size=(h, w).")
    given = per_axis(size if axes else (), axes, "size")
    image = conv.input_size(given)
    _check_fits(conv, image)
    if method == "matrix-free":
        values, complete = padded_singular_values(conv, image, num=num)
        return _record(conv, given, image, method="matrix-free", values=values, complete=complete)
    if conv.is_pointwise or conv.is_torus(image):
        return _fourier_record(conv, given, torus_singular_values(conv, conv.output_size(image)))
    if math.prod(conv.shape(image)) <= _SMALL * len(conv.weight) ** 2:
        values, _ = padded_singular_values(conv, image, num=num)
        return _record(conv, given, image, method="dense", values=values)
    upper, lower = padding_bounds(conv, image, torus_singular_values)
    return _record(conv, given, image, method="bound", values=upper, lower=lower)


def circular_spectra(
    layers: Sequence[nn.Module], sizes: Sequence[tuple[int, ...]]
) -> list[ConvSpectrum | None]:
    """`conv_singular_values` of many layers with circular padding; those of one shape at once.

    Args:
        layers: convolutions.
        sizes: of the image that each of them reads.

    Returns:
        The spectra; None where the kernel is non-finite or does not fit its image.

    Examples:
        >>> layers = [nn.Conv2d(2, 3, 3), nn.Conv2d(2, 3, 3)]
        >>> [len(spectrum.values) for spectrum in circular_spectra(layers, [(4, 4), (4, 4)])]
        [32, 32]
    """
    result: list[ConvSpectrum | None] = [None] * len(layers)
    asked: dict[int, Convolution] = {}
    for i, (layer, size) in enumerate(zip(layers, sizes, strict=True)):
        conv = convolution_of(layer, padding="circular")
        try:
            image = conv.input_size(per_axis(size, len(conv.kernel), "size"))
            _check_fits(conv, image)
            if conv.is_pointwise or not conv.is_torus(image):
                result[i] = conv_singular_values(layer, size=size, padding="circular")
                continue
        except UsageError:
            continue
        asked[i] = conv
    # small matrices are decomposed on the host
    small = [i for i, conv in asked.items() if min(conv.weight.shape[1:3]) <= SMALL_SIDE]
    for i, weight in zip(small, to_host([asked[i].weight for i in small]), strict=True):
        asked[i] = replace(asked[i], weight=weight)
    alike: dict[object, list[tuple[int, Convolution]]] = {}
    for i, conv in asked.items():
        form = (conv.stride, conv.dilation, conv.padding, conv.transposed, conv.output_padding)
        key = (form, sizes[i], conv.weight.shape, conv.weight.dtype, conv.weight.device)
        alike.setdefault(key, []).append((i, conv))
    for group in alike.values():
        finite = [(i, conv) for i, conv in group if conv.weight.isfinite().all()]
        if finite:
            size, convs = sizes[finite[0][0]], [conv for _, conv in finite]
            grid = convs[0].output_size(convs[0].input_size(size))
            for (i, conv), values in zip(finite, _torus_values(convs, grid), strict=True):
                result[i] = _fourier_record(conv, size, values)
    return result


def _fourier_record(
    conv: Convolution, given: tuple[int, ...], values: Float[Tensor, " r"]
) -> ConvSpectrum:
    """With the zeros of the pixels that a stride skips."""
    image = conv.input_size(given)
    values = torch.cat([values, values.new_zeros(min(conv.shape(image)) - len(values))])
    return _record(conv, given, image, method="fourier", values=values)


def isotropic_target(conv: Convolution) -> float:
    """The σ at which isotropic gradients keep their norm: √(d/min(d, c)) (norm_preservation, eq. 8).

    Here d and c are the rows and columns of P(ω). A stride lets a kernel of several taps see c
    channels in each of several polyphase components, which makes c that many times larger: a 3×3
    kernel 64→128 of stride 2 has target 1, and only a 1×1 kernel keeps √2.

    Examples:
        >>> isotropic_target(convolution_of(nn.Conv2d(64, 128, 1, stride=2)))
        1.4142135623730951
        >>> isotropic_target(convolution_of(nn.Conv2d(64, 128, 3, stride=2)))
        1.0
    """
    d, c = polyphase(conv).weight.shape[1:3]
    outputs = conv.weight.shape[2] * math.prod(conv.stride) if conv.transposed else d
    return math.sqrt(outputs / min(d, c))


def torus_singular_values(conv: Convolution, grid: tuple[int, ...]) -> Float[Tensor, " r"]:
    """Singular values of a convolution on a torus with `grid` output points, largest first, without
    the zeros of the pixels that a stride skips."""
    return _torus_values([conv], grid)[0]


def _torus_values(convs: Sequence[Convolution], grid: tuple[int, ...]) -> list[Float[Tensor, " r"]]:
    """`torus_singular_values` of convolutions that differ in their weights alone: as groups of one."""
    weight = convs[0].weight
    taps = polyphase(replace(convs[0], weight=torch.cat([conv.weight for conv in convs])))
    # Along an axis with one tap every frequency has the same matrix: one stands for all.
    result = tuple(n if span > 1 else 1 for n, span in zip(grid, taps.layout.span, strict=True))
    copies = math.prod(grid) // math.prod(result)
    plane = half_plane(taps.layout.offsets, result, device=weight.device)
    transform = _Transform(taps, result)
    start = _first_precision(weight.dtype, taps.weight.shape[1:3])
    parts = []
    rows = torch.arange(len(plane), device=weight.device)
    chunk = max(1, _CHUNK // taps.weight[..., 0].numel())
    for piece in rows.split(chunk):
        is_real = plane.multiplicity[piece] == 1
        parts.append(_values_at(transform, piece, start, is_real).unflatten(1, (len(convs), -1)))
    by_frequency = torch.cat(parts).to(working_dtype(weight.dtype)).transpose(0, 1)
    each = by_frequency[0].numel() // len(plane)  # values of a layer at one frequency
    values, order = by_frequency.flatten(1).sort(dim=1, descending=True)
    repeats = copies * plane.multiplicity.long()[order // each]
    return list(values.flatten().repeat_interleave(repeats.flatten()).view(len(convs), -1))


class _Transform:
    """P(ω) and its Gram matrices on half of a grid's frequencies."""

    def __init__(self, taps: Taps, grid: tuple[int, ...]) -> None:
        self.taps, self.grid = taps, grid
        # P(ω)ᴴP(ω) is itself the transform of a kernel, that of the products of taps by the distance
        # between them: where frequencies are many, to transform that is less than to multiply at each.
        num_taps = taps.weight.shape[-1]
        is_shorter = math.prod(grid) > num_taps**2
        self.products = tap_products(taps) if is_shorter else None
        is_double = taps.weight.dtype == torch.float64
        self.tolerance = _TOLERANCE if is_double else _TOLERANCE_OF_SINGLE

    def matrices(self, rows: Tensor, groups: Tensor) -> Complex[Tensor, " p d c"]:
        """P(ω) of some groups, each at one frequency, in double precision."""
        return matrices_of_groups(
            self.taps.weight[groups].double(), self._analysis(self.taps, rows)
        )

    def gram(self, rows: Tensor, dtype: torch.dtype) -> Complex[Tensor, " f g m m"]:
        """P(ω)ᴴP(ω), or P(ω)P(ω)ᴴ where that is smaller."""
        if self.products is None:
            return _gram(self._at(self.taps, rows, dtype))
        return self._at(self.products, rows, dtype)

    def _at(self, taps: Taps, rows: Tensor, dtype: torch.dtype) -> Complex[Tensor, " f g d c"]:
        return frequency_matrices(taps.weight.to(dtype), self._analysis(taps, rows).to(dtype))

    def _analysis(self, taps: Taps, rows: Tensor) -> Float[Tensor, " parts t"]:
        plane = half_plane(taps.layout.offsets, self.grid, device=taps.weight.device)
        return plane.analysis[torch.cat([rows, rows + len(plane)])]


def _first_precision(dtype: torch.dtype, shape: torch.Size) -> torch.dtype:
    """Single precision, if matrices of this shape are likely to be conditioned well enough for it.

    The tolerance allows a condition number of 6.5. Random matrices of r times as many rows as columns
    have (√r + 1)/(√r − 1), 5.8 for r = 2; square ones far more, and would all be computed twice.
    """
    short, long = sorted(shape)
    return torch.float32 if 2 * short <= long and dtype != torch.float64 else torch.float64


def _values_at(
    transform: _Transform, rows: Tensor, dtype: torch.dtype, is_real: Bool[Tensor, " f"]
) -> Float[Tensor, " f g r"]:
    """Singular values at some frequencies: Gram first, then double precision, then the SVD."""
    squares = _eigenvalues(transform.gram(rows, dtype), is_real)
    values: Tensor = squares.clamp_min(0).sqrt().double()
    at, groups = _lost(squares, transform.tolerance[dtype]).nonzero(as_tuple=True)
    if not len(at):
        return values
    # of the groups at a frequency most are found well: only the others are looked at again
    matrices = transform.matrices(rows[at], groups)
    if dtype != torch.float64:
        squares = torch.linalg.eigvalsh(_gram(matrices))
        values[at, groups] = squares.clamp_min(0).sqrt()
        again = _lost(squares, transform.tolerance[torch.float64]).nonzero().flatten()
        at, groups, matrices = at[again], groups[again], matrices[again]
    if len(at):
        values[at, groups] = torch.linalg.svdvals(matrices).flip(-1)
    return values


def _eigenvalues(
    gram: Complex[Tensor, " f g m m"], is_real: Bool[Tensor, " f"]
) -> Float[Tensor, " f g m"]:
    """Of frequencies that are their own negative the matrices are real, and decomposed in half the time."""
    result: Tensor
    if gram.device.type != "cpu" or not is_real.any():
        result = torch.linalg.eigvalsh(gram)
        return result
    result = gram.new_empty(gram.shape[:-1], dtype=gram.real.dtype)
    result[is_real] = torch.linalg.eigvalsh(gram[is_real].real)
    if not is_real.all():
        result[~is_real] = torch.linalg.eigvalsh(gram[~is_real])
    return result


def _lost(squares: Float[Tensor, " *b r"], tolerance: float) -> Bool[Tensor, " *b"]:
    """Whether the smallest of some squared values is not found to the tolerance."""
    low, high = squares[..., 0], squares[..., -1]
    limit = 2 * torch.finfo(squares.dtype).eps / tolerance
    result: Tensor = (low < limit * high) | (high == 0)
    return result


def _gram(matrices: Complex[Tensor, " *b d c"]) -> Complex[Tensor, " *b m m"]:
    tall = matrices.shape[-2] >= matrices.shape[-1]
    return matrices.mH @ matrices if tall else matrices @ matrices.mH


def _check_fits(conv: Convolution, image: tuple[int, ...]) -> None:
    for n, extent, pad in zip(image, conv.extent, conv.padding, strict=True):
        room = n if conv.is_periodic else n + sum(pad)
        if n < 1 or extent > room:
            raise UsageError(
                f"The kernel covers {'×'.join(map(str, conv.extent))} pixels, the image with its "
                f"padding only {room} along an axis; give a larger size."
            )


def _record(
    conv: Convolution,
    given: tuple[int, ...],
    image: tuple[int, ...],
    *,
    method: Method,
    values: Float[Tensor, " r"],
    lower: Float[Tensor, " r"] | None = None,
    complete: bool = True,
) -> ConvSpectrum:
    d, c = conv.channels
    rows, columns = conv.shape(image)
    return ConvSpectrum(
        values=values,
        lower=lower,
        padding=conv.padding_mode,
        method=method,
        size=given,
        shape=(columns, rows) if conv.transposed else (rows, columns),
        tolerance=rounding_tolerance(d, c, working_dtype(conv.weight.dtype)),
        target=isotropic_target(conv),
        complete=complete,
    )
