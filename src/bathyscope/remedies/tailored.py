"""Tailored rectifiers: depth without shortcuts and without normalization.

A rectifier brings any two inputs closer together, layer by layer, until a deep plain network maps all of
them to one direction. A slope below zero slows this down; it is chosen such that the *whole* network takes
a pair at right angles to a cosine of 0.9, whatever its depth (Zhang, Botev, Martens 2022, "Deep learning
without shortcuts"; the maps of cosines are theirs).
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.inits import delta_orthogonal_
from bathyscope.remedies.change import Change

TARGET = 0.9
"""The cosine to which the whole network takes a pair of inputs at right angles."""

_RECTIFIERS = (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus)
_OTHERS = (nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.Mish, nn.Hardswish, nn.Softsign)


class TailoredReLU(nn.Module):
    """√(2/(1+α²)) · (x where x > 0, else α x): it keeps the mean square of a Gaussian.

    Examples:
        >>> x = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
        >>> round(TailoredReLU(0.5)(x).square().mean().item(), 1)
        1.0
    """

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every entry."""
        return math.sqrt(2 / (1 + self.slope**2)) * F.leaky_relu(x, self.slope)


ACTIVATIONS = (*_RECTIFIERS, *_OTHERS, TailoredReLU)
"""What can be tailored."""


def cosine_after(cosine: float, slope: float, depth: int) -> float:
    """The cosine of two inputs after this many wide layers with tailored rectifiers.

    One layer maps c to c + (1−α)²/(π(1+α²)) · (√(1−c²) − c·arccos c).

    Examples:
        >>> cosine_after(0.3, slope=1.0, depth=10)
        0.3
        >>> cosine_after(0.0, slope=0.0, depth=1) == 1 / math.pi
        True
    """
    strength = (1 - slope) ** 2 / (math.pi * (1 + slope**2))
    for _ in range(depth):
        cosine += strength * (math.sqrt(max(0.0, 1 - cosine**2)) - cosine * math.acos(cosine))
        cosine = min(1.0, cosine)
    return cosine


def tailored_slope(depth: int, *, target: float = TARGET) -> float:
    """The slope with which this many layers take a cosine of 0 to `target`; 0 where even that is less.

    Args:
        depth: activations that follow one another.
        target: between 0 and 1.

    Raises:
        UsageError: the depth is not positive, or the target not between 0 and 1.

    Examples:
        >>> [round(tailored_slope(depth), 2) for depth in (50, 100)]
        [0.43, 0.57]
    """
    if depth < 1 or not 0 < target < 1:
        raise UsageError(
            f"A slope is tailored to one layer or more and a cosine between 0 and 1, "
            f"but {depth} layers and {target} were given."
        )
    low, high = 0.0, 1.0
    if cosine_after(0.0, low, depth) <= target:
        return low
    for _ in range(60):  # halves the interval below the precision of a float
        middle = (low + high) / 2
        if cosine_after(0.0, middle, depth) > target:
            low = middle
        else:
            high = middle
    return high


def tailor_(
    model: nn.Module,
    *,
    depth: int | None = None,
    target: float = TARGET,
    generator: torch.Generator | None = None,
) -> Change:
    """Give a network tailored rectifiers and an orthogonal start, in place.

    Every activation module becomes a `TailoredReLU` whose slope follows from the depth. Linear layers get
    random orthogonal matrices, convolutions one at their middle tap and zeros elsewhere, biases zero. The
    architecture stays: no shortcut and no norm is added. Rates above 0.003 to 0.01 (SGD with momentum)
    diverge, so that the network needs a rate of its own.

    Args:
        model: changed in place.
        depth: activations that follow one another on the way through the network; their number if left
            out, which is right for a chain.
        target: the cosine to which a pair of inputs at right angles is taken.
        generator: source of the random numbers; torch's global one if left out.

    Returns:
        The change, which can be undone.

    Raises:
        UsageError: the network has no activation module, or weights that are not its own parameters.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
        >>> change = tailor_(model)
        >>> type(model[1]).__name__, round(model[1].slope, 3)
        ('TailoredReLU', 0.0)
        >>> change.undo()
        >>> model[1]
        ReLU()
    """
    locations = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, ACTIVATIONS)
    ]
    if not locations:
        raise UsageError(
            "The network has no activation module that could be tailored (functions such as "
            "F.relu inside forward cannot be replaced); use nn.ReLU modules."
        )
    slope = tailored_slope(depth if depth is not None else len(locations), target=target)
    change = Change(f"tailored rectifiers with slope {slope:.3g}, orthogonal start")
    change.keep(*model.parameters())
    delta_orthogonal_(model, generator=generator)
    for parent, name, child in locations:
        setattr(parent, name, TailoredReLU(slope).train(child.training))
        change.undone_by(partial(setattr, parent, name, child))
    return change
