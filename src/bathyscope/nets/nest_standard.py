"""From a standard pre-activation ResNet to its ResNEst."""

from copy import deepcopy
from typing import Literal

from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.nest import ResNEst
from bathyscope.nets.nest_blocks import NEstBlock
from bathyscope.nets.network import Network
from bathyscope.nets.shortcut import Subsample

_LINEAR = (nn.Conv2d, nn.Linear)


def standard_to_resnest(
    network: Network, *, final_norm: Literal["drop", "keep"] = "drop"
) -> ResNEst:
    """Drop what is nonlinear between the last representation and the output   (nests, section 2.1).

    Weights are copied. Where a wide ResNet normalizes and activates before both paths of a block,
    the shortcut takes the representation itself: a ResNEst is a sum of linear images of features.

    Args:
        network: pre-activation, as `prebasic-20` or `nests-wrn-16-8`: its branches end in a convolution,
            its stem and shortcuts are linear, its head is normalization, ReLU, pooling, linear.
        final_norm: drop the last batch normalization (ResNEst) or keep it without its ReLU
            (BN-ResNEst).

    Raises:
        UsageError: the network is not of that kind; the sentence says where.

    Examples:
        >>> from bathyscope import nets
        >>> len(standard_to_resnest(nets.build("prebasic-8")).blocks)
        3
    """
    network = deepcopy(network)
    if not isinstance(network.stem, _LINEAR):
        raise UsageError(
            f"The stem is a {type(network.stem).__name__}, but x_0 must be linear in the input; "
            "a ResNEst can be made of prebasic-N and wrn-D-K."
        )
    head = list(network.head.children())
    kinds = (nn.BatchNorm2d, nn.ReLU, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear)
    if len(head) != len(kinds) or not all(map(isinstance, head, kinds)):
        raise UsageError(
            "The head of a standard pre-activation network is batch normalization, ReLU, average "
            f"pooling and a linear layer, but here it is {[type(m).__name__ for m in head]}."
        )
    norm, _, pool, flatten, output = head
    assert isinstance(output, nn.Linear)
    result = ResNEst(
        network.stem,
        [_block(block, name) for name, block in network.blocks.named_children()],
        output,
        pool=nn.Sequential(pool, flatten),
        norm=norm if final_norm == "keep" else None,
    )
    return result.train(network.training)


def _block(block: nn.Module, name: str) -> NEstBlock:
    """The same block with its last convolution taken out as W_i."""
    layers = list(block.branch.children()) if isinstance(block, ResidualBlock) else []
    if not isinstance(block, ResidualBlock) or block.join or block.post or not layers:
        raise UsageError(f"Block {name} is not a pre-activation residual block.")
    if not isinstance(layers[-1], _LINEAR):
        raise UsageError(
            f"The branch of block {name} ends in a {type(layers[-1]).__name__}; "
            "a pre-activation branch ends in a convolution."
        )
    if not isinstance(block.shortcut, (nn.Identity, Subsample, *_LINEAR)):
        raise UsageError(
            f"The shortcut of block {name} is not linear, so x_L is not a sum of linear images of "
            "features; build the network with linear shortcuts (shortcut_norm=False)."
        )
    before = [] if block.entry is None else [block.entry]
    return NEstBlock(
        nn.Sequential(*before, *layers[:-1]),
        layers[-1],
        shortcut=block.shortcut,
        changes_dimension=block.changes_dimension,
    )
