"""Convolution with the Dirac parametrization: an identity inside the weights."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class DiracConv2d(nn.Conv2d):
    """Convolution with the weights Ŵ = diag(a) I + W   (singularity, equation 39).

    I is the identity kernel: 1 at the middle tap from channel i to channel i. With `normalized`,
    W is replaced by diag(b) W / ‖W‖, each filter divided by its norm. a starts at 1, b at 0.1.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: taps along each side.
        normalized: divide each filter by its norm.
        options: those of `nn.Conv2d`, but groups.

    Examples:
        >>> layer = DiracConv2d(3, 3, 3, normalized=False, padding=1, bias=False)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> x = torch.randn(1, 3, 5, 5)
        >>> torch.equal(layer(x), x)
        True
    """

    delta: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        normalized: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, **options)
        self.a = nn.Parameter(torch.ones(out_channels))
        self.b = nn.Parameter(torch.full((out_channels,), 0.1)) if normalized else None
        delta = nn.init.dirac_(torch.empty_like(self.weight.detach()))
        self.register_buffer("delta", delta, persistent=False)

    def effective_weight(self) -> Float[Tensor, " d c k k"]:
        """Ŵ, the kernel that is applied."""
        weight = self.weight
        if self.b is not None:
            weight = _per_filter(self.b) * F.normalize(weight.flatten(1)).view_as(weight)
        return torch.addcmul(weight, _per_filter(self.a), self.delta)

    def forward(self, input: Float[Tensor, " n c h w"]) -> Float[Tensor, " n d p q"]:
        """Convolve with Ŵ."""
        result: Tensor = self._conv_forward(input, self.effective_weight(), self.bias)
        return result


def _per_filter(values: Float[Tensor, " d"]) -> Float[Tensor, " d 1 1 1"]:
    return values.view(-1, 1, 1, 1)
