"""Assumption 4 and the bottleneck condition: can the features be read back from the sum of them?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.nets.nest import ResNEst


@dataclass(frozen=True)
class Width:
    """How [W_0 … W_{L−1}] stands to the features it mixes.

    `width` is M and `needed` is K_0 + … + K_{L−1}; on images both count the values of whole maps.
    `rank` is None where only the counts decide: too little room needs no rank to be refused.
    """

    width: int
    needed: int
    rank: int | None
    smallest_singular_value: float | None
    tolerance: float | None

    @property
    def bottleneck_condition(self) -> bool:
        """M ≥ Σ_{i<L} K_i   (nests, section 3.2)."""
        return self.width >= self.needed

    @property
    def features_recoverable(self) -> bool:
        """Assumption 4: full column rank, so that x_{L−1} = Σ W_i v_i has one solution."""
        return self.rank is not None and self.rank == self.needed


@torch.no_grad()
def mixing_matrix(network: ResNEst) -> Float[Tensor, " m k"] | None:
    """[W_0 … W_{L−1}] in float64; W_0 with its bias as last column. None if one is not a matrix.

    Examples:
        >>> from bathyscope.nets.nest_vectors import resnest
        >>> mixing_matrix(resnest(6, 2, width=30, feature_sizes=[4] * 4, intercept=False)).shape
        torch.Size([30, 18])
    """
    layers = [network.expansion, *(block.mix for block in network.blocks[:-1])]
    if not all(isinstance(layer, nn.Linear) for layer in layers):
        return None
    if not all(isinstance(block.shortcut, nn.Identity) for block in network.blocks):
        return None
    parts = []
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        parts.append(layer.weight.double())
        if layer.bias is not None:
            parts.append(layer.bias.double()[:, None])
    return torch.cat(parts, dim=1)


def width_of(network: ResNEst, *, sizes: tuple[int, ...], room: int) -> Width:
    """The numbers behind assumption 4.

    Args:
        network: a ResNEst.
        sizes: values per sample of v_0, …, v_L before pooling.
        room: values per sample of x_{L−1}.
    """
    W = mixing_matrix(network)
    if W is None:
        return Width(room, sum(sizes[: max(len(sizes) - 1, 1)]), None, None, None)
    singular_values = torch.linalg.svdvals(W)
    tolerance = torch.finfo(torch.float64).eps * max(W.shape) * float(singular_values[0])
    rank = int((singular_values > tolerance).sum())
    smallest = float(singular_values[-1]) if W.shape[0] >= W.shape[1] else 0.0
    return Width(W.shape[0], W.shape[1], rank, smallest, tolerance)
