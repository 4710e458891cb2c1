"""The linear networks of the singularity paper: plain, residual, and with aggregated paths.

Every builder takes the number of blocks, each a pair of layers; `width`, inputs and outputs of every layer;
and `samples`, the layers put before and after.
"""

from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.network import Network
from bathyscope.nets.nshortcut import nshortcut
from bathyscope.nets.samples import Vectors, network_on_vectors

_LAYERS = 2  # a block lumps two weight matrices into one (equations 2, 5 and 8)


def linear_plain(num_blocks: int, *, width: int = 16, samples: Vectors) -> Network:
    """Plain linear network: h^l = W^l W^{l-1} h^{l-2}   (singularity, equations 1 and 2)."""
    return nshortcut(num_blocks, _LAYERS, samples=samples, width=width, shortcut="none")


def linear_residual(num_blocks: int, *, width: int = 16, samples: Vectors) -> Network:
    """Residual linear network: h^l = (W^l W^{l-1} + I) h^{l-2}   (singularity, equations 3 to 5)."""
    return nshortcut(num_blocks, _LAYERS, samples=samples, width=width)


def linear_aggregated(
    num_blocks: int, *, paths: int = 4, width: int = 16, samples: Vectors
) -> Network:
    """h^l = (Σ_k W^{l,k} W^{l-1,k} + I) h^{l-2}   (singularity, equations 6 to 8).

    Args:
        paths: s, matrices summed in each block.
    """
    blocks = [
        ResidualBlock(Aggregated([_path(width) for _ in range(paths)]), shortcut=nn.Identity())
        for _ in range(num_blocks)
    ]
    return network_on_vectors(samples, blocks, width)


class Aggregated(nn.Module):
    """The sum of several branches.

    Examples:
        >>> import torch
        >>> x = torch.ones(1, 2)
        >>> torch.equal(Aggregated([nn.Identity(), nn.Identity()])(x), 2 * x)
        True
    """

    def __init__(self, paths: list[nn.Module]) -> None:
        super().__init__()
        self.paths = nn.ModuleList(paths)

    def forward(self, x: Float[Tensor, " n d"]) -> Float[Tensor, " n d"]:
        """Σ_k path_k(x)."""
        first, *others = self.paths
        total = first(x)
        for path in others:
            total = total + path(x)
        result: Tensor = total
        return result


def _path(width: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(_LAYERS)))
