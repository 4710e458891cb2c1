"""A convolution as the linear map it is: kernel, stride, dilation, groups and padding together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Literal, TypeGuard, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.arguments import check_count
from bathyscope.core.devices import with_double
from bathyscope.core.errors import UsageError, shorten

PaddingMode = Literal["circular", "zeros", "reflect", "replicate"]
Sizes = int | Sequence[int]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LINEAR_MAPS = (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED)


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution:
    """The linear map y[o] = Σ_t K[t] x[s·o + δ·t − p], or its adjoint where `transposed`.

    A transposed convolution is held as the convolution whose adjoint it is: the singular values
    are the same, and `d`, `c` are then its input and output channels. A linear layer is a
    convolution without axes.
    """

    weight: Float[Tensor, " g d c *kernel"]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # before and after, for each axis
    padding_mode: PaddingMode
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    @property
    def kernel(self) -> tuple[int, ...]:
        """Number of taps along each axis."""
        return tuple(self.weight.shape[3:])

    @property
    def extent(self) -> tuple[int, ...]:
        """Pixels that the dilated kernel covers along each axis."""
        return tuple(dil * (k - 1) + 1 for k, dil in zip(self.kernel, self.dilation, strict=True))

    @property
    def channels(self) -> tuple[int, int]:
        """Channels out and in, of the convolution (not of its adjoint)."""
        groups, d, c = self.weight.shape[:3]
        return groups * d, groups * c

    def same(self, mode: PaddingMode) -> "Convolution":
        """This map padded so that at stride 1 the output is as large as the input."""
        return replace(self, padding=_same(self.extent), padding_mode=mode)

    def input_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Size of the image on the convolution's input side, for a layer fed images of `size`."""
        if not self.transposed:
            return size
        if self.is_periodic:
            return tuple(n * s for n, s in zip(size, self.stride, strict=True))
        return tuple(
            (n - 1) * s - before - after + extent + extra
            for n, s, (before, after), extent, extra in zip(
                size, self.stride, self.padding, self.extent, self.output_padding, strict=True
            )
        )

    def output_size(self, input_size: tuple[int, ...]) -> tuple[int, ...]:
        """Size of the image on the convolution's output side."""
        return tuple(
            (n + before + after - extent) // s + 1
            for n, s, (before, after), extent in zip(
                input_size, self.stride, self.padding, self.extent, strict=True
            )
        )

    def shape(self, input_size: tuple[int, ...]) -> tuple[int, int]:
        """Numbers of outputs and of inputs, as a matrix has rows and columns."""
        d, c = self.channels
        return d * math.prod(self.output_size(input_size)), c * math.prod(input_size)

    @property
    def is_periodic(self) -> bool:
        """Whether padding makes the image a torus: circular, and as wide as the kernel needs."""
        wide = all(
            before + after == extent - 1
            for (before, after), extent in zip(self.padding, self.extent, strict=True)
        )
        return wide and self.padding_mode == "circular"

    def is_torus(self, input_size: tuple[int, ...]) -> bool:
        """Whether on images of this size the map is the convolution of a torus, sampled evenly.

        y[o] = Σ_t K[t] x[(s·o + δ·t − p) mod n] for o = 0, …, n/s − 1: the stride divides the size,
        there are n/s outputs, and what a window reads beyond an edge is the other side. How wide
        the padding is then does not matter: it shifts the image.
        """
        return all(
            n % s == 0 and m == n // s and (self.padding_mode == "circular" or pad == (0, 0))
            for n, m, s, pad in zip(
                input_size, self.output_size(input_size), self.stride, self.padding, strict=True
            )
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether there is one tap and no padding: pixels do not mix, whatever the image's edge."""
        return math.prod(self.kernel) == 1 and all(pad == (0, 0) for pad in self.padding)


def convolution_of(
    layer: nn.Module | Float[Tensor, " d c *kernel"],
    *,
    stride: Sizes | None = None,
    dilation: Sizes | None = None,
    groups: int | None = None,
    padding: PaddingMode | Sizes | Literal["valid"] | None = None,
) -> Convolution:
    """The linear map of a layer, or of a bare weight with the options given.

    Args:
        layer: Conv1d to Conv3d, ConvTranspose1d to ConvTranspose3d, Linear, or a weight shaped
            (out channels, in channels / groups, *kernel).
        stride: for a bare weight only; 1 unless given.
        dilation: as `stride`.
        groups: as `stride`.
        padding: None for the layer's own (a bare weight: "circular"). "circular" is the torus: the
            image repeats, whatever padding the layer declares. For a bare weight, another mode
            keeps the image's size, "valid" pads nothing, and numbers are widths of zero padding.

    Raises:
        UsageError: the layer is not a linear map, or an option does not fit it.

    Examples:
        >>> convolution_of(nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)).weight.shape
        torch.Size([2, 4, 2, 3, 3])
    """
    if isinstance(layer, Tensor):
        return _of_weight(layer, stride=stride, dilation=dilation, groups=groups, padding=padding)
    if not isinstance(layer, LINEAR_MAPS):
        raise UsageError(
            f"A convolution or linear layer is needed, not {type(layer).__name__}; "
            "give the layer itself or its weight."
        )
    if (stride, dilation, groups) != (None, None, None):
        raise UsageError(
            f"{type(layer).__name__} has its own stride, dilation and groups; "
            "give these only with a bare weight."
        )
    conv = _of_layer(layer)
    if padding is None:
        return conv
    if padding == "circular":
        return conv.same("circular")
    if padding == "zeros":
        return replace(conv, padding_mode="zeros")
    raise UsageError(
        f"padding={shorten(padding)} does not apply to a layer; give 'circular', 'zeros' or leave it out."
    )


def _of_layer(layer: nn.Module) -> Convolution:
    if isinstance(layer, nn.Linear):
        return Convolution(
            weight=with_double(layer.weight.detach())[None],
            stride=(),
            dilation=(),
            padding=(),
            padding_mode="zeros",
        )
    assert isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED))
    weight = with_double(layer.weight.detach())
    mode: PaddingMode = layer.padding_mode
    conv = Convolution(
        weight=weight.reshape(layer.groups, weight.shape[0] // layer.groups, *weight.shape[1:]),
        stride=layer.stride,
        dilation=layer.dilation,
        padding=((0, 0),) * len(layer.stride),
        padding_mode=mode,
        transposed=isinstance(layer, _TRANSPOSED),
        output_padding=layer.output_padding,
    )
    if layer.padding == "same":
        return conv.same(mode)
    if isinstance(layer.padding, str):
        return conv
    return replace(conv, padding=tuple((p, p) for p in layer.padding))


def _of_weight(
    weight: Tensor,
    *,
    stride: Sizes | None,
    dilation: Sizes | None,
    groups: int | None,
    padding: PaddingMode | Sizes | Literal["valid"] | None,
) -> Convolution:
    groups = 1 if groups is None else check_count("groups", groups, minimum=1)
    is_kernel = weight.is_floating_point() and weight.ndim >= 2 and weight.numel()
    if not is_kernel or weight.shape[0] % groups:
        raise UsageError(
            f"A weight of shape {tuple(weight.shape)} is not a kernel of {groups} group(s); "
            "give (out channels, in channels / groups, *kernel)."
        )
    axes = weight.ndim - 2
    conv = Convolution(
        weight=with_double(weight.detach()).reshape(
            groups, weight.shape[0] // groups, *weight.shape[1:]
        ),
        stride=per_axis(1 if stride is None else stride, axes, "stride"),
        dilation=per_axis(1 if dilation is None else dilation, axes, "dilation"),
        padding=((0, 0),) * axes,
        padding_mode="zeros",
    )
    if padding is None:
        return conv.same("circular")
    if isinstance(padding, str) and padding in get_args(PaddingMode):
        return conv.same(cast(PaddingMode, padding))
    if isinstance(padding, str) and padding == "valid":
        return conv
    if isinstance(padding, str):
        raise UsageError(
            f"There is no padding {shorten(padding)}; give 'circular', 'zeros', 'reflect', 'replicate', "
            "'valid' or widths."
        )
    return replace(conv, padding=tuple((p, p) for p in per_axis(padding, axes, "padding", 0)))


def per_axis(given: Sizes | None, axes: int, what: str, minimum: int = 1) -> tuple[int, ...]:
    """One number an axis, from one number for all or from a sequence.

    Examples:
        >>> per_axis(2, 3, "stride")
        (2, 2, 2)
    """
    listed = given if isinstance(given, (tuple, list)) else () if given is None else (given,) * axes
    sizes = tuple(int(n) if _is_whole(n) else -1 for n in listed)
    if len(sizes) != axes or any(n < minimum for n in sizes):
        raise UsageError(
            f"{what}={shorten(given)} does not fit a convolution with {axes} axes; "
            f"give one whole number, at least {minimum}, for each."
        )
    return sizes


def _is_whole(number: object) -> TypeGuard[int]:
    return isinstance(number, Integral) and not isinstance(number, bool)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision to compute in: half precisions have no linear algebra and become float32."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def _same(extent: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(((e - 1) // 2, e - 1 - (e - 1) // 2) for e in extent)
