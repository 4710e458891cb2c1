"""What the axes of a hidden representation are: samples, units, positions."""

from dataclasses import dataclass

from torch import nn

from bathyscope.core.members import Members, members_of
from bathyscope.core.records import Block

_SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_CONVOLUTIONAL = (nn.modules.conv._ConvNd, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True, slots=True)
class Axes:
    """The names of a tensor's axes, and which are the samples' and the units'."""

    names: tuple[str, ...]
    samples: int
    units: int


def axes_of(model: nn.Module | Members, block: Block, *, ndim: int) -> Axes:
    """Name the axes of what a block passes on.

    Convolutions put units second (samples, channels, height, width); everything else puts them
    last (samples, tokens, features), and samples second where a layer says `batch_first=False`.

    Examples:
        >>> conv = nn.Sequential(nn.Conv2d(3, 8, 3))
        >>> axes_of(conv, Block(index=0, name="0", end="0", kind="Conv2d"), ndim=4).names
        ('samples', 'channels', 'height', 'width')
    """
    if ndim <= 2:
        return Axes(("samples", "features")[:ndim], 0, ndim - 1)
    modules = members_of(model).of(block).values()
    if any(isinstance(module, _CONVOLUTIONAL) for module in modules):
        spatial = _SPATIAL.get(ndim - 2) or tuple(f"axis {i}" for i in range(2, ndim))
        return Axes(("samples", "channels", *spatial), 0, 1)
    if ndim == 3:
        if any(getattr(module, "batch_first", True) is False for module in modules):
            return Axes(("tokens", "samples", "features"), 1, 2)
        return Axes(("samples", "tokens", "features"), 0, 2)
    spatial = _SPATIAL.get(ndim - 2) or tuple(f"axis {i}" for i in range(1, ndim - 1))
    return Axes(("samples", *spatial, "channels"), 0, ndim - 1)
