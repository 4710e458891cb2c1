"""The ImageNet forms: four stages after a stem that shrinks the image to a quarter.

Every builder takes the depth, one of `BLOCKS` (bottlenecks, which ResNeXt needs, begin at 50); `samples`,
channels of the image and classes; `width`, channels of the stem; and `erased`, which leaves out the last
ReLU of each block (EraseReLU).
"""

from torch import nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import basic, bottleneck
from bathyscope.nets.network import Network
from bathyscope.nets.post import Around, no_skip, post_block, skip
from bathyscope.nets.samples import Images, network_on_images
from bathyscope.nets.shortcut import Place, stages
from bathyscope.nets.stem import imagenet_stem

BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
BOTTLENECK_DEPTHS = tuple(depth for depth in BLOCKS if depth >= 50)
_EXPANSION = 4


def imagenet_resnet(
    depth: int, *, samples: Images, width: int = 64, erased: bool = False
) -> Network:
    """Residual network for large images, basic blocks up to depth 34, bottlenecks from 50.

    The stride of a bottleneck is at its 3×3 convolution   (singularity, section VI, table IV).
    """
    return _network(depth, samples, width, around=skip("B"), erased=erased)


def imagenet_plain(
    depth: int, *, samples: Images, width: int = 64, erased: bool = False
) -> Network:
    """The residual network for large images without its skips   (singularity, table IV)."""
    return _network(depth, samples, width, around=no_skip, erased=erased)


def imagenet_resnext(
    depth: int,
    *,
    samples: Images,
    width: int = 64,
    cardinality: int = 32,
    group_width: int = 4,
    erased: bool = False,
) -> Network:
    """ResNeXt for large images, 32 × 4d unless said   (singularity, table IV).

    Args:
        cardinality: number of paths.
        group_width: channels of a path's 3×3 convolution in the first stage.
    """
    return _network(
        depth, samples, width, around=skip("B"), erased=erased, paths=(cardinality, group_width)
    )


def _network(
    depth: int,
    samples: Images,
    width: int,
    *,
    around: Around,
    erased: bool,
    paths: tuple[int, int] | None = None,
) -> Network:
    expansion = _EXPANSION if depth in BOTTLENECK_DEPTHS else 1
    groups, group_width = paths or (1, width)

    def convolutions(location: Place) -> list[nn.Conv2d]:
        if expansion == 1:
            return basic(location)
        doublings = location.out_channels // (expansion * width)
        return bottleneck(location, groups * group_width * doublings, groups=groups)

    def block(location: Place) -> ResidualBlock:
        return post_block(convolutions(location), location, around=around, erased=erased)

    widths = tuple(expansion * width * 2**stage for stage in range(4))
    return network_on_images(
        samples, stages(BLOCKS[depth], widths, width), block, stem=imagenet_stem
    )
