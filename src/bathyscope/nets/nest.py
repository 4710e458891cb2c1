"""ResNEst, augmented ResNEst and DenseNEst: outputs that are linear in nonlinear features."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bathyscope.nets.nest_blocks import DenseNEstBlock, NEstBlock


class ResNEst(nn.Module):
    """ŷ = W_{L+1} x_L, x_i = x_{i−1} + W_i G_i(x_{i−1}), x_0 = W_0 x   (nests, section 2.1).

    Nothing nonlinear stands between x_L and the output. A bias of the expansion or of the output
    is a constant in the input, as in the paper's footnote: it makes the linear feature [x; 1].

    Args:
        expansion: W_0, from the input to the residual space.
        blocks: the residual blocks, first to last.
        output: W_{L+1}.
        pool: from a representation to a vector a sample; the identity for vectors.
        norm: an affine map of x_L, such as batch normalization; the identity unless given.
    """

    blocks: Sequence[NEstBlock]  # a ModuleList cannot say what it holds

    def __init__(
        self,
        expansion: nn.Module,
        blocks: Sequence[NEstBlock],
        output: nn.Linear,
        *,
        pool: nn.Module | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.expansion = expansion
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm = nn.Identity() if norm is None else norm
        self.pool = nn.Identity() if pool is None else pool
        self.output = output

    @property
    def has_intercept(self) -> bool:
        """Whether a constant is among the inputs, by a bias of the expansion or of the output."""
        return has_bias(self.expansion) or has_bias(self.output)

    def block_names(self) -> list[str]:
        """The residual blocks, first to last."""
        return [f"blocks.{i}" for i in range(len(self.blocks))]

    def representations(self, x: Tensor) -> tuple[Tensor, ...]:
        """x_0, …, x_L."""
        result = [self.expansion(x)]
        for block in self.blocks:
            result.append(block(result[-1]))
        return tuple(result)

    def features(self, x: Tensor) -> tuple[Tensor, ...]:
        """v_0, …, v_L, pooled; v_0 is the input with a 1 where there is an intercept (equation 2)."""
        maps = [x]
        x = self.expansion(x)
        for block in self.blocks:
            x = block(x, maps)
        return pool_positions(maps, self.pool, intercept=self.has_intercept)

    def forward(self, x: Tensor) -> Tensor:
        """The prediction for each sample."""
        x = self.expansion(x)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.output(self.pool(self.norm(x)))
        return result


class AugmentedResNEst(nn.Module):
    """ŷ = Σ_i H_i v_i with the features v_i of a ResNEst   (nests, equation 4).

    The last block has no W_L and there is no W_{L+1}: neither shapes a feature.

    Args:
        expansion: W_0.
        blocks: the first L − 1 residual blocks.
        last: G_L, the function of the last block.
        heads: H_0, …, H_L.
        pool: from a feature to a vector a sample; the identity for vectors.
    """

    blocks: Sequence[NEstBlock]
    heads: Sequence[nn.Linear]

    def __init__(
        self,
        expansion: nn.Module,
        blocks: Sequence[NEstBlock],
        last: nn.Module,
        heads: Sequence[nn.Linear],
        *,
        pool: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.expansion = expansion
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.last = last
        self.pool = nn.Identity() if pool is None else pool
        self.heads = nn.ModuleList(heads)  # type: ignore[assignment]

    @property
    def has_intercept(self) -> bool:
        """Whether some head has a bias."""
        return any(has_bias(head) for head in self.heads)

    def block_names(self) -> list[str]:
        """The residual blocks and the function that stands in the place of the last one."""
        return [*(f"blocks.{i}" for i in range(len(self.blocks))), "last"]

    def feature_maps(self, x: Tensor) -> list[Tensor]:
        """x and v_1, …, v_L before pooling."""
        maps = [x]
        x = self.expansion(x)
        for block in self.blocks:
            x = block(x, maps)
        return [*maps, self.last(x)]

    def features(self, x: Tensor) -> tuple[Tensor, ...]:
        """v_0, …, v_L, pooled; v_0 is the input with a 1 where there is an intercept."""
        return pool_positions(self.feature_maps(x), self.pool, intercept=self.has_intercept)

    def forward(self, x: Tensor) -> Tensor:
        """The prediction for each sample."""
        maps = self.feature_maps(x)
        parts = [head(self.pool(v)) for head, v in zip(self.heads, maps, strict=True)]
        return torch.stack(parts).sum(dim=0)


class DenseNEst(nn.Module):
    """ŷ = W_{L+1} x_L, x_i = x_{i−1} © Q_i(x_{i−1}), x_0 = x   (nests, equations 8 and 9).

    Args:
        blocks: the dense blocks, first to last.
        output: W_{L+1}; its bias is the intercept.
        feature_sizes: D_0 = N_in (the channels of the input), D_1, …, D_L.
        pool: from x_L to a vector a sample; the identity for vectors.
    """

    blocks: Sequence[DenseNEstBlock]

    def __init__(
        self,
        blocks: Sequence[DenseNEstBlock],
        output: nn.Linear,
        *,
        feature_sizes: Sequence[int],
        pool: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.pool = nn.Identity() if pool is None else pool
        self.output = output
        self.feature_sizes = tuple(feature_sizes)

    @property
    def has_intercept(self) -> bool:
        """Whether the output has a bias."""
        return has_bias(self.output)

    def block_names(self) -> list[str]:
        """The dense blocks, first to last."""
        return [f"blocks.{i}" for i in range(len(self.blocks))]

    def features(self, x: Tensor) -> tuple[Tensor, ...]:
        """v_0, …, v_L: the pooled last representation, cut where the blocks joined it."""
        for block in self.blocks:
            x = block(x)
        first, *rest = self.pool(x).split(self.feature_sizes, dim=1)
        return (append_one(first) if self.has_intercept else first, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """The prediction for each sample."""
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.output(self.pool(x))
        return result


NEst = ResNEst | AugmentedResNEst | DenseNEst


def has_bias(module: nn.Module) -> bool:
    """Whether a linear module adds a constant."""
    return getattr(module, "bias", None) is not None


def append_one(vectors: Tensor) -> Tensor:
    """[x; 1] for each sample."""
    return nn.functional.pad(vectors, (0, 1), value=1.0)


def pool_positions(
    maps: Sequence[Tensor], pool: nn.Module, *, intercept: bool
) -> tuple[Tensor, ...]:
    """The features as vectors, the first with a 1 where there is an intercept."""
    first, *rest = (pool(v) for v in maps)
    return (append_one(first) if intercept else first, *rest)


def prediction_of(features: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """Σ_i H_i v_i for H_i of shape (N_o, K_i)   (nests, equation 4)."""
    parts = [linear(v, H) for v, H in zip(features, weights, strict=True)]
    return torch.stack(parts).sum(dim=0)
