"""Branches of convolutional blocks: which layers, and in what order."""

from collections.abc import Callable, Sequence

from torch import nn

from bathyscope.nets.shortcut import Place

Convolution = Callable[..., nn.Conv2d]


def basic(
    location: Place, *, num_layers: int = 2, conv: Convolution = nn.Conv2d
) -> list[nn.Conv2d]:
    """3×3 convolutions, the first of which changes the dimension."""
    first = conv(
        location.in_channels,
        location.out_channels,
        3,
        stride=location.stride,
        padding=1,
        bias=False,
    )
    width = location.out_channels
    others = [conv(width, width, 3, padding=1, bias=False) for _ in range(num_layers - 1)]
    return [first, *others]


def bottleneck(location: Place, inner: int, *, groups: int = 1) -> list[nn.Conv2d]:
    """1×1 to `inner` channels, 3×3 in groups (with the stride), 1×1 to the output channels."""
    return [
        nn.Conv2d(location.in_channels, inner, 1, bias=False),
        nn.Conv2d(inner, inner, 3, stride=location.stride, padding=1, groups=groups, bias=False),
        nn.Conv2d(inner, location.out_channels, 1, bias=False),
    ]


def post_activation(convs: Sequence[nn.Conv2d]) -> nn.Sequential:
    """Convolution, batch normalization, ReLU; no ReLU after the last, the block adds it."""
    layers: list[nn.Module] = []
    for conv in convs:
        layers += [conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def pre_activation(
    convs: Sequence[nn.Conv2d], *, erased: bool = False, activated: bool = False
) -> nn.Sequential:
    """Batch normalization, ReLU, convolution.

    Args:
        convs: the convolutions in order.
        erased: leave out the last ReLU of the branch (EraseReLU).
        activated: the input is normalized and activated already.
    """
    layers: list[nn.Module] = []
    for index, conv in enumerate(convs):
        if index > 0 or not activated:
            layers.append(nn.BatchNorm2d(conv.in_channels))
            if not (erased and index == len(convs) - 1):
                layers.append(nn.ReLU())
        layers.append(conv)
    return nn.Sequential(*layers)
