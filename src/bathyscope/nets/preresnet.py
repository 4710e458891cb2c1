"""Pre-activation networks: batch normalization and ReLU come before each convolution.

Every builder takes n, blocks in each of the three stages; `samples`, channels of the image and classes;
`width`, channels of the first stage's 3×3 convolutions (before widening), which double twice; and `erased`,
which leaves out the last ReLU of each branch (EraseReLU). `shortcut` says what is done where the dimension
changes, "A" subsamples and pads with zeros, "B" projects; `shortcut_norm` puts batch normalization and ReLU
before a projection.
"""

from collections.abc import Callable

from torch import nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import basic, bottleneck, pre_activation
from bathyscope.nets.network import Network
from bathyscope.nets.samples import Images, network_on_images
from bathyscope.nets.shortcut import (
    Place,
    ShortcutKind,
    Subsample,
    norm_then_projection,
    projection,
    stages,
)
from bathyscope.nets.stem import activated_head, bare_stem

_EXPANSION = 4  # a bottleneck's output has four times the channels of its 3×3 convolution


def prebasic(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    shortcut: ShortcutKind = "B",
    shortcut_norm: bool = False,
    erased: bool = False,
) -> Network:
    """Pre-activation residual network of 6n + 2 layers, two to a block   (nests)."""
    return shortcut_length(
        num_blocks,
        2,
        samples=samples,
        width=width,
        shortcut=shortcut,
        shortcut_norm=shortcut_norm,
        erased=erased,
    )


def shortcut_length(
    num_units: int,
    length: int,
    *,
    samples: Images,
    width: int = 16,
    shortcut: ShortcutKind = "A",
    shortcut_norm: bool = False,
    erased: bool = False,
) -> Network:
    """Pre-activation network with shortcuts around `length` convolutions each   (figure 9).

    Networks of equal depth have equal parameters, whatever the length of their shortcuts:
    a projection, where there is one, stands once in each stage.

    Args:
        num_units: units in each of the three stages.
        length: n, convolutions under one shortcut.
    """

    def block(location: Place) -> ResidualBlock:
        return ResidualBlock(
            pre_activation(basic(location, num_layers=length), erased=erased),
            shortcut=_around(location, shortcut, shortcut_norm),
            changes_dimension=location.changes_dimension,
        )

    locations = stages(num_units, (width, 2 * width, 4 * width), width)
    return network_on_images(samples, locations, block, stem=bare_stem, head=activated_head)


def preresnet(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    shortcut_norm: bool = True,
    erased: bool = False,
) -> Network:
    """Pre-activation bottleneck network of 9n + 2 layers   (norm_preservation, section 4)."""

    def around(location: Place) -> nn.Module:
        return _around(location, "B", shortcut_norm)

    return _bottlenecks(num_blocks, samples, width, around, erased)


def preplain(num_blocks: int, *, samples: Images, width: int = 16, erased: bool = False) -> Network:
    """The pre-activation bottleneck network without its skips   (norm_preservation, section 4)."""
    return _bottlenecks(num_blocks, samples, width, lambda _: None, erased)


def procresnet(
    num_blocks: int, *, samples: Images, width: int = 16, erased: bool = False
) -> Network:
    """Procrustes residual network of 9n + 4 layers   (norm_preservation, section 3, figure 1d).

    A convolution of its own changes the dimension at the start of each stage, so that every
    shortcut is an identity; `transition_layers()` names the three. The first is the stem: it
    belongs to the first block, which therefore takes the image.
    """
    widths = (_EXPANSION * width, 2 * _EXPANSION * width, 4 * _EXPANSION * width)
    blocks = []
    for index, location in enumerate(stages(num_blocks, widths, samples.in_channels)):
        entry = None
        if index % num_blocks == 0:
            entry = (
                bare_stem(samples.in_channels, widths[0]) if index == 0 else projection(location)
            )
        inside = Place(location.out_channels, location.out_channels)
        convs = bottleneck(inside, location.out_channels // _EXPANSION)
        block = ResidualBlock(
            pre_activation(convs, erased=erased),
            shortcut=nn.Identity(),
            entry=entry,
            changes_dimension=location.changes_dimension,
        )
        blocks.append(block)
    return Network(blocks, head=activated_head(widths[-1], samples.num_classes))


def wrn(
    num_blocks: int,
    widen: int,
    *,
    samples: Images,
    width: int = 16,
    wide_stem: bool = False,
    erased: bool = False,
) -> Network:
    """Wide residual network of depth 6n + 4, widened k times.

    Where the dimension changes, batch normalization and ReLU come before both paths.

    Args:
        widen: k, factor on the channels of every stage.
        wide_stem: the stem has the width of the first stage, which then needs no projection.
    """
    stem_width = width * widen if wide_stem else width

    def block(location: Place) -> ResidualBlock:
        changes = location.changes_dimension
        before = nn.Sequential(nn.BatchNorm2d(location.in_channels), nn.ReLU()) if changes else None
        return ResidualBlock(
            pre_activation(basic(location), erased=erased, activated=changes),
            shortcut=_around(location, "B", False),
            entry=before,
            changes_dimension=changes,
        )

    widths = (width * widen, 2 * width * widen, 4 * width * widen)
    locations = stages(num_blocks, widths, stem_width)
    return network_on_images(samples, locations, block, stem=bare_stem, head=activated_head)


def nests_wrn(
    num_blocks: int, widen: int, *, samples: Images, width: int = 16, erased: bool = False
) -> Network:
    """The wide residual network with a stem as wide as its first stage   (nests).

    Args:
        widen: k, factor on the channels of every stage and of the stem.
    """
    return wrn(num_blocks, widen, samples=samples, width=width, wide_stem=True, erased=erased)


def _around(location: Place, kind: ShortcutKind, norm: bool) -> nn.Module:
    if not location.changes_dimension:
        return nn.Identity()
    if kind == "A":
        return Subsample(location)
    return norm_then_projection(location) if norm else projection(location)


def _bottlenecks(
    num_blocks: int,
    samples: Images,
    width: int,
    around: Callable[[Place], nn.Module | None],
    erased: bool,
) -> Network:
    def block(location: Place) -> ResidualBlock:
        return ResidualBlock(
            pre_activation(
                bottleneck(location, location.out_channels // _EXPANSION), erased=erased
            ),
            shortcut=around(location),
            changes_dimension=location.changes_dimension,
        )

    widths = (_EXPANSION * width, 2 * _EXPANSION * width, 4 * _EXPANSION * width)
    locations = stages(num_blocks, widths, width)
    return network_on_images(samples, locations, block, head=activated_head)
