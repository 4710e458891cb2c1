"""The Procrustes remedy as a parametrization: a layer whose weight is norm-preserving at all times."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from bathyscope.core.errors import UsageError
from bathyscope.linalg.conv_spectrum import isotropic_target
from bathyscope.linalg.convolution import convolution_of, working_dtype
from bathyscope.linalg.kernel_projection import alternating_projection
from bathyscope.linalg.kernel_step import newton_schulz_step
from bathyscope.linalg.taps import compress, polyphase


class NormPreserving(nn.Module):
    """A kernel scaled to its target and brought nearer by Newton–Schulz steps, differentiably."""

    def __init__(self, layer: nn.Module, *, target: float, steps: int) -> None:
        super().__init__()
        self.taps = compress(polyphase(convolution_of(layer)))
        self.target = target
        self.steps = steps

    def forward(self, weight: Float[Tensor, " d c *kernel"]) -> Float[Tensor, " d c *kernel"]:
        """The weight that the layer uses, from the one that the optimizer trains."""
        with torch.autocast(weight.device.type, enabled=False):
            kernel = weight.to(working_dtype(weight.dtype))
            groups, d, c = self.taps.weight.shape[:3]
            # The mean of σ² over frequencies is ‖K‖²/rank: this takes the kernel's size out.
            mean_square = kernel.square().sum() / (groups * min(d, c))
            taps = self.taps.with_kernel(kernel * (self.target * mean_square.rsqrt()))
            for _ in range(self.steps):
                taps, _ = newton_schulz_step(taps, self.target)
        return taps.to_kernel(weight.shape).to(weight.dtype)

    def right_inverse(self, weight: Float[Tensor, " d c *kernel"]) -> Float[Tensor, " d c *kernel"]:
        """Where training starts: the weight projected, so that few steps are enough after it."""
        kernel = weight.detach().to(working_dtype(weight.dtype))
        if not kernel.isfinite().all() or not kernel.any():
            raise UsageError(
                "The weight is zero or non-finite; initialize the layer before it is parametrized."
            )
        taps, _ = alternating_projection(self.taps.with_kernel(kernel), self.target)
        return taps.to_kernel(weight.shape).to(weight.dtype)


def norm_preserving(
    layer: nn.Module, *, gain: Literal["isotropic", "relu"] | float = "isotropic", steps: int = 3
) -> nn.Module:
    """Make a layer norm-preserving in every forward pass, with gradients through the projection.

    The layer trains a free weight; what it uses has singular values near the target
    (norm_preservation, equation 8). `torch.nn.utils.parametrize.remove_parametrizations(layer,
    "weight")` ends it and leaves the last weight used.

    Args:
        layer: a convolution or linear layer.
        gain: as for `procrustes_`.
        steps: Newton–Schulz steps in each forward pass.

    Returns:
        The same layer.

    Examples:
        >>> layer = norm_preserving(nn.Conv2d(4, 8, 1, bias=False))
        >>> matrix = layer.weight[:, :, 0, 0]
        >>> torch.allclose(matrix.T @ matrix, 2 * torch.eye(4), atol=1e-5)
        True
    """
    target = isotropic_target(convolution_of(layer))
    if gain == "relu":
        target *= math.sqrt(2)
    elif not isinstance(gain, str):
        if not gain > 0:
            raise UsageError(f"gain={gain} is not a singular value; give a positive number.")
        target = float(gain)
    if steps < 1:
        raise UsageError(f"steps={steps} would not project; give 1 or more.")
    with torch.no_grad():
        parametrize.register_parametrization(
            layer, "weight", NormPreserving(layer, target=target, steps=steps)
        )
    return layer
