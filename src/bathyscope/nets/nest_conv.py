"""Convolutional forms of the pre-activation ResNets and wide ResNets   (nests).

A block's feature v_i is what its second convolution W_i reads; heads and certificates see it
averaged over the image. Every builder takes n, blocks in each of three stages, and k, the factor
on all widths: ResNet-20 and -110 are n = 3 and 18 with k = 1, WRN-16-8 is n = 2 with k = 8; `samples`,
channels of the image and classes; and `width`, channels of the first stage before widening, which double
twice.
"""

import torch
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.nets.branch import basic
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, ResNEst
from bathyscope.nets.nest_blocks import DenseNEstBlock, NEstBlock
from bathyscope.nets.samples import Images
from bathyscope.nets.shortcut import Place, projection, stages
from bathyscope.nets.stem import bare_stem


def resnest(num_blocks: int, widen: int = 1, *, samples: Images, width: int = 16) -> ResNEst:
    """The standard network without the batch normalization and ReLU before its head."""
    locations = _locations(num_blocks, width * widen)
    return ResNEst(
        bare_stem(samples.in_channels, width * widen),
        [_block(location) for location in locations],
        nn.Linear(locations[-1].out_channels, samples.num_classes),
        pool=_pool(),
    )


def bnresnest(num_blocks: int, widen: int = 1, *, samples: Images, width: int = 16) -> ResNEst:
    """The ResNEst with the batch normalization before its head, but not the ReLU: still affine."""
    network = resnest(num_blocks, widen, samples=samples, width=width)
    network.norm = nn.BatchNorm2d(network.output.in_features)
    return network


def aresnest(
    num_blocks: int, widen: int = 1, *, samples: Images, width: int = 16
) -> AugmentedResNEst:
    """The augmented ResNEst: a linear head on the pooled image and on every pooled feature."""
    locations = _locations(num_blocks, width * widen)
    sizes = [samples.in_channels, *(location.out_channels for location in locations)]
    return AugmentedResNEst(
        bare_stem(samples.in_channels, width * widen),
        [_block(location) for location in locations[:-1]],
        _function(locations[-1]),
        [nn.Linear(size, samples.num_classes) for size in sizes],
        pool=_pool(),
    )


def densenest(
    num_blocks: int, widen: int = 1, *, samples: Images, width: int = 16, growth: int | None = None
) -> DenseNEst:
    """A DenseNEst of as many blocks and stages: each adds channels, average pooling halves the rest.

    The paper gives no convolutional DenseNEst; this one is ours. Its first representation is the
    image itself, and every block adds the same number of channels.

    Args:
        growth: channels that a block adds; the most with which there are no more parameters than in
            the standard network, if None.

    Raises:
        UsageError: one channel per block already makes more parameters than the standard network has.
    """
    locations = _locations(num_blocks, width * widen)
    if growth is None:
        growth = _equal_growth(num_blocks, widen, samples=samples, width=width)
    channels, blocks = samples.in_channels, []
    for location in locations:
        here = Place(channels, growth, location.stride)
        halve = nn.AvgPool2d(2, ceil_mode=True) if location.stride == 2 else None
        blocks.append(DenseNEstBlock(_function(here), shortcut=halve))
        channels += growth
    return DenseNEst(
        blocks,
        nn.Linear(channels, samples.num_classes),
        feature_sizes=[samples.in_channels, *[growth] * len(locations)],
        pool=_pool(),
    )


def _locations(num_blocks: int, width: int) -> list[Place]:
    return stages(num_blocks, (width, 2 * width, 4 * width), width)


def _function(location: Place) -> nn.Sequential:
    """G_i: normalization, ReLU, 3×3 convolution, normalization, ReLU."""
    return nn.Sequential(
        nn.BatchNorm2d(location.in_channels),
        nn.ReLU(),
        *basic(location, num_layers=1),
        nn.BatchNorm2d(location.out_channels),
        nn.ReLU(),
    )


def _block(location: Place) -> NEstBlock:
    (mix,) = basic(Place(location.out_channels, location.out_channels), num_layers=1)
    return NEstBlock(
        _function(location),
        mix,
        shortcut=projection(location) if location.changes_dimension else None,
        changes_dimension=location.changes_dimension,
    )


def _pool() -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _equal_growth(num_blocks: int, widen: int, *, samples: Images, width: int) -> int:
    """The largest growth with no more parameters than the standard network, by counting."""
    with torch.device("meta"):  # the BN-ResNEst has the parameters of the standard network
        standard = bnresnest(num_blocks, widen, samples=samples, width=width)
    room = sum(p.numel() for p in standard.parameters())
    growth = 0
    while _num_dense(growth + 1, 3 * num_blocks, samples) <= room:
        growth += 1
    if growth == 0:
        raise UsageError(
            f"A DenseNEst of {3 * num_blocks} blocks has more parameters than the standard network "
            f"of width {width * widen}, whatever its growth; give a growth or a larger width."
        )
    return growth


def _num_dense(growth: int, count: int, samples: Images) -> int:
    """Parameters of the DenseNEst: two normalizations and a convolution a block, and the output."""
    before = [samples.in_channels + i * growth for i in range(count + 1)]
    blocks = sum(2 * c + 9 * c * growth + 2 * growth for c in before[:-1])
    return blocks + (before[-1] + 1) * samples.num_classes
