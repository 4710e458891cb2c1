"""Weights that are kept where they began: near the Dirac kernel, or orthogonal."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.training import Callback, LoopView, Record


def body_convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    """The convolutions of a network's blocks by their names, the stem left out."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d) and name.startswith("blocks")
    }


def near_dirac(weight: Float[Tensor, " d c k k"], *, fraction: float) -> Float[Tensor, " d c k k"]:
    """The nearest kernel whose distance from the Dirac kernel is at most a fraction of that one's norm.

    Examples:
        >>> kernel = nn.init.dirac_(torch.empty(2, 2, 3, 3))
        >>> torch.equal(near_dirac(kernel, fraction=0.5), kernel)
        True
        >>> far = near_dirac(kernel + 1, fraction=0.5)
        >>> round(float((far - kernel).norm() / kernel.norm()), 4)
        0.5
    """
    dirac = nn.init.dirac_(torch.empty_like(weight))
    change = weight - dirac
    room = fraction * dirac.norm() / change.norm().clamp_min(torch.finfo(weight.dtype).tiny)
    held: Tensor = dirac + change * room.clamp(max=1.0)
    return held


class HeldNearDirac(Callback):
    """Puts every convolution of the body back near the Dirac kernel after each step.

    Args:
        fraction: as in `near_dirac`.
    """

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def on_step(self, loop: LoopView, record: Record) -> None:
        """After the optimizer has moved the weights."""
        with torch.no_grad():
            for layer in body_convolutions(loop.model).values():
                layer.weight.copy_(near_dirac(layer.weight, fraction=self.fraction))
