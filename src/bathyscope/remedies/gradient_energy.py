"""Which part of a layer's gradient its kernel can carry back: equation 7 of norm_preservation."""

import math

import torch
import torch.distributed
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from bathyscope.linalg.convolution import convolution_of
from bathyscope.linalg.padded_operator import PaddedOperator

_SAMPLES = (
    16  # of a batch: the share is a ratio of sums over pixels and channels, and settles early
)
_MEMORY = 0.9  # of the running mean of the share, over projections


class GradientEnergy:
    """Share of E‖Δy‖² that lies outside the null space of a layer's backward map, as it trains.

    The gradient of some samples is kept on its way through the layer; `update` then sends it
    through the kernel. With all nonzero singular values near their rms s,
    share = ‖WΔy‖²/(s²‖Δy‖²), and σ² = 1/share preserves the norm (equation 7).
    """

    def __init__(self, layer: nn.Module, *, rank_share: float, rank: int) -> None:
        self.layer = layer
        self.rank_share = rank_share  # the share if gradients were isotropic
        self.rank = rank
        self.share: float | None = None
        self._gradient: Tensor | None = None
        self._image: tuple[int, ...] = ()
        self._hook: RemovableHandle = layer.register_forward_hook(self._watch)

    @property
    def target(self) -> float | None:
        """σ of equation 7, or None before any gradient was seen.

        Held between 1, where nothing is lost, and four times the isotropic value.
        """
        if self.share is None:
            return None
        return 1 / math.sqrt(min(1.0, max(self.share, self.rank_share / 16)))

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
            share = seen / whole
            self.share = (
                share if self.share is None else _MEMORY * self.share + (1 - _MEMORY) * share
            )

    def remove(self) -> None:
        """Stop watching the layer."""
        self._hook.remove()
        self._gradient = None

    def _watch(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if torch.is_grad_enabled() and output.requires_grad:
            self._image = () if isinstance(layer, nn.Linear) else tuple(inputs[0].shape[2:])
            output.register_hook(self._keep)

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
