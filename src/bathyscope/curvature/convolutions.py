"""Convolutions in float64 as matrix products.

On a processor torch computes convolutions in float64, and above all their second derivatives, sample
by sample in slow loops. Written out as matrix products with the patches of the images they are the
same sums, four times as fast, and so are their derivatives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Patches take as many times the room of the images as the kernel has taps: for larger ones torch's own.
_MOST_BYTES = 2**26


class matmul_convolutions(TorchFunctionMode):  # noqa: N801 - a context: with matmul_convolutions()
    """Inside, `conv2d` of float64 on a processor is computed as a matrix product with patches."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """The matrix product for convolutions that it is good for, and everything else as it is."""
        if func is torch.conv2d:
            result = _with_patches(*args, **(kwargs or {}))
            if result is not None:
                return result
        return func(*args, **(kwargs or {}))


def _with_patches(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor | None:
    """The convolution, or None where torch's own is the better one."""
    plain = type(input) is Tensor and input.ndim == 4 and input.device.type == "cpu"
    if not plain or isinstance(padding, str) or groups != 1:
        return None
    if input.dtype != torch.float64 or weight.dtype != torch.float64:
        return None
    steps, pads, gaps = _pair(stride), _pair(padding), _pair(dilation)
    height, width = (
        (side + 2 * pad - gap * (taps - 1) - 1) // step + 1
        for side, pad, gap, taps, step in zip(
            input.shape[2:], pads, gaps, weight.shape[2:], steps, strict=True
        )
    )
    if 8 * len(input) * weight[0].numel() * height * width > _MOST_BYTES:
        return None
    taps = (weight.shape[2], weight.shape[3])
    patches = F.unfold(input, taps, dilation=gaps, padding=pads, stride=steps)
    # sample by sample: a product of two and three dimensions would copy the patches into another order
    kernel = weight.flatten(1).expand(len(input), -1, -1)
    out: Tensor = torch.bmm(kernel, patches).unflatten(2, (height, width))
    return out if bias is None else out + bias[:, None, None]


def _pair(value: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value, value)
    return tuple(value) * (2 if len(value) == 1 else 1)
