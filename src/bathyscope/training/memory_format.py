"""Where channels-last convolutions are safe: a bug of oneDNN writes over the heap for some shapes."""

from torch import nn

# oneDNN computes the weight gradient of a strided 1 × 1 convolution on a compacted copy of its input. For
# channels-last tensors it reserves one row of `in_channels` entries per pixel for that copy, but steps
# through it by whole vectors of channels: 8 with AVX2, 16 with AVX-512. With fewer channels it writes past
# the end (oneDNN issue 6035; with AVX2 from images of 8 × 8 on, with AVX-512 from 56 × 56 on).
_CHANNELS_OF_A_VECTOR = 16


def is_channels_last_safe(model: nn.Module) -> bool:
    """Whether no layer of the model falls under oneDNN's bug with channels-last tensors.

    Examples:
        >>> is_channels_last_safe(nn.Conv2d(4, 8, 1, stride=2))
        False
        >>> is_channels_last_safe(nn.Conv2d(16, 32, 1, stride=2))
        True
    """
    return not any(_is_written_past(m) for m in model.modules() if isinstance(m, nn.Conv2d))


def _is_written_past(layer: nn.Conv2d) -> bool:
    is_strided = any(step > 1 for step in layer.stride)
    is_pointwise = all(size == 1 for size in layer.kernel_size)
    return is_pointwise and is_strided and layer.in_channels // layer.groups < _CHANNELS_OF_A_VECTOR
