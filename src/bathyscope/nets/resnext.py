"""Residual networks with aggregated features: bottlenecks whose 3×3 convolution is in groups."""

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import bottleneck
from bathyscope.nets.network import Network
from bathyscope.nets.post import post_block, skip
from bathyscope.nets.samples import Images, network_on_images
from bathyscope.nets.shortcut import Place, ShortcutKind, stages


def resnext(
    num_blocks: int,
    *,
    samples: Images,
    width: int = 16,
    cardinality: int = 4,
    group_width: int = 8,
    shortcut: ShortcutKind = "B",
    erased: bool = False,
) -> Network:
    """ResNeXt of 9n + 2 layers   (singularity, section III-B-3 and VI).

    A convolution in s groups between two 1×1 convolutions computes the sum over s paths of
    equation 6.

    Args:
        num_blocks: n, blocks in each of the three stages.
        samples: channels of the image, and classes.
        width: channels of the stem; the stages have 4, 8 and 16 times as many.
        cardinality: s, the number of paths.
        group_width: channels of a path's 3×3 convolution in the first stage.
        shortcut: where the dimension changes, "A" subsamples and pads with zeros, "B" projects.
        erased: leave out the ReLU after the addition (EraseReLU).
    """
    widths = (4 * width, 8 * width, 16 * width)

    def block(location: Place) -> ResidualBlock:
        inner = cardinality * group_width * (location.out_channels // widths[0])
        convs = bottleneck(location, inner, groups=cardinality)
        return post_block(convs, location, around=skip(shortcut), erased=erased)

    return network_on_images(samples, stages(num_blocks, widths, width), block)
