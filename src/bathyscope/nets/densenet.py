"""Densely connected networks: each layer's features are set beside all before them."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.branch import pre_activation
from bathyscope.nets.network import Network
from bathyscope.nets.samples import Images
from bathyscope.nets.stem import activated_head, bare_stem

_BOTTLENECK = 4  # a layer first reduces its input to four times the growth


def densenet(
    num_layers: int, *, samples: Images, growth: int = 12, compression: float = 0.5
) -> Network:
    """DenseNet-BC of 6n + 4 layers: x_{l+1} = [x_l, F(x_l)]   (singularity, section II).

    Each dense layer is a block, and so is each of the two transitions between the stages.

    Args:
        num_layers: n, dense layers in each of the three stages.
        samples: channels of the image, and classes.
        growth: channels that each layer adds; the stem has twice as many.
        compression: fraction of the channels that a transition keeps.
    """
    channels = 2 * growth
    blocks = []
    for stage in range(3):
        if stage > 0:
            kept = max(1, int(channels * compression))
            blocks.append(_transition(channels, kept))
            channels = kept
        for _ in range(num_layers):
            blocks.append(_dense_layer(channels, growth))
            channels += growth
    return Network(
        blocks,
        stem=bare_stem(samples.in_channels, 2 * growth),
        head=activated_head(channels, samples.num_classes),
    )


class Concatenate(nn.Module):
    """[shortcut, branch]: the new channels after the old ones."""

    def __init__(self, branch_channels: int) -> None:
        super().__init__()
        self.branch_channels = branch_channels

    def forward(
        self,
        h: Float[Tensor, " n c h w"],
        branch: Float[Tensor, " n k h w"],
        shortcut: Float[Tensor, " n c h w"],
    ) -> Float[Tensor, " n ck h w"]:
        """Both, side by side."""
        return torch.cat((shortcut, branch), dim=1)

    def without_branch(
        self, h: Float[Tensor, " n c h w"], shortcut: Float[Tensor, " n c h w"]
    ) -> Float[Tensor, " n ck h w"]:
        """The old channels, and zeros for the new ones."""
        return F.pad(shortcut, (0, 0, 0, 0, 0, self.branch_channels))


def _dense_layer(channels: int, growth: int) -> ResidualBlock:
    inner = _BOTTLENECK * growth
    convs = [nn.Conv2d(channels, inner, 1, bias=False), bare_stem(inner, growth)]
    return ResidualBlock(
        pre_activation(convs),
        shortcut=nn.Identity(),
        join=Concatenate(growth),
        changes_dimension=True,
    )


def _transition(channels: int, kept: int) -> ResidualBlock:
    convs = [nn.Conv2d(channels, kept, 1, bias=False)]
    return ResidualBlock(
        nn.Sequential(*pre_activation(convs), nn.AvgPool2d(2)), changes_dimension=True
    )
