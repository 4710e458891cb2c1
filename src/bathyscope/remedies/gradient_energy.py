"""Which part of a layer's gradient its kernel can carry back: equation 7 of norm_preservation."""

import math

import torch
import torch.distributed
from torch import Tensor, nn

from bathyscope.core.hooks import Hooks, on_gradient
from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.padded_operator import PaddedOperator

_SAMPLES = (
    16  # of a batch: the fraction is a ratio of sums over pixels and channels, and settles early
)
_MEMORY = 0.9  # of the running mean of the fraction, over projections


class GradientEnergy:
    """Fraction of E‖Δy‖² that lies outside the null space of a layer's backward map, as it trains.

    The gradient of some samples is kept on its way through the layer; `update` then sends it
    through the kernel. With all nonzero singular values near their rms s,
    share = ‖WΔy‖²/(s²‖Δy‖²), and σ² = 1/share preserves the norm (equation 7).
    """

    def __init__(self, layer: nn.Module, *, rank_fraction: float, rank: int) -> None:
        self.layer = layer
        self.rank_fraction = rank_fraction  # the fraction if gradients were isotropic
        self.rank = rank
        self.fraction: float | None = None
        self._gradient: Tensor | None = None
        self._image: tuple[int, ...] = ()
        self._hooks = Hooks()
        self._hooks.after_forward(layer, self._watch)

    @property
    def target(self) -> float | None:
        """σ of equation 7, or None before any gradient was seen.

        Held between 1, where nothing is lost, and four times the isotropic value.
        """
        if self.fraction is None:
            return None
        return 1 / math.sqrt(min(1.0, max(self.fraction, self.rank_fraction / 16)))

    def update(self) -> None:
        """Take the last gradient into the running mean; the same on every process of a group."""
        whole, seen = (0.0, 0.0) if self._gradient is None else self._energies(self._gradient)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            both = torch.tensor([whole, seen], device=self.layer.weight.device)  # type: ignore[arg-type]
            torch.distributed.all_reduce(both)
            whole, seen = both.tolist()
        self._gradient = None
        # No gradient, a zero one, or one that overflowed says nothing.
        if math.isfinite(whole) and math.isfinite(seen) and whole > 0 and seen > 0:
            fraction = seen / whole
            self.fraction = (
                fraction
                if self.fraction is None
                else _MEMORY * self.fraction + (1 - _MEMORY) * fraction
            )

    def remove(self) -> None:
        """Stop watching the layer."""
        self._hooks.remove()
        self._gradient = None

    def _watch(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if torch.is_grad_enabled() and output.requires_grad:
            self._image = () if isinstance(layer, nn.Linear) else tuple(inputs[0].shape[2:])
            on_gradient(output, self._keep)

    def _keep(self, gradient: Tensor) -> None:
        self._gradient = gradient[:_SAMPLES].detach().clone()

    def _energies(self, gradient: Tensor) -> tuple[float, float]:
        conv = convolution_of(self.layer)
        gradient = gradient.float() if conv.weight.dtype != torch.float64 else gradient.double()
        # A loss scale may leave float16 gradients large enough for their squares to overflow.
        gradient = gradient / gradient.abs().max().clamp_min(torch.finfo(gradient.dtype).tiny)
        if not conv.kernel:
            gradient = gradient.reshape(-1, gradient.shape[-1])
        operator = PaddedOperator(conv, conv.input_size(self._image))
        back = operator.apply(gradient) if conv.transposed else operator.adjoint(gradient)
        mean_square = conv.weight.to(gradient.dtype).square().sum() / self.rank
        return gradient.square().sum().item(), (back.square().sum() / mean_square).item()
