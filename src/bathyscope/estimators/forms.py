"""The three forms of network behind the estimators: how each is built, begun and given its weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.certificates.width import mixing_matrix
from bathyscope.estimators.solving import Readout
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, NEst, ResNEst
from bathyscope.nets.nest_vectors import aresnest, densenest, resnest


@dataclass(frozen=True)
class Sizes:
    """What decides a network: inputs, outputs, features of each block, width of the residual space."""

    num_inputs: int
    num_outputs: int
    feature_sizes: tuple[int, ...]
    width: int | None = None

    @property
    def mixed(self) -> int:
        """K_0 + … + K_{L−1}, the intercept counted in K_0."""
        return self.num_inputs + 1 + sum(self.feature_sizes[:-1])

    @property
    def needed_width(self) -> int:
        """K_0 + … + K_{L−1} + N_o: room for every feature and for the output (theorem 1)."""
        return self.mixed + self.num_outputs


@runtime_checkable
class Form(Protocol):
    """One form of network."""

    def build(self, sizes: Sizes) -> NEst:
        """A network that predicts zero, with features at random."""
        ...

    def begin_at_(self, network: NEst, linear: Readout) -> None:
        """Make the network the given linear predictor, before its features are learned."""
        ...

    def stages(self, network: NEst) -> list[list[nn.Parameter]]:
        """The parameters that shape each feature and no earlier one, block by block."""
        ...

    def write_(self, network: NEst, readout: Readout) -> None:
        """Give the network the prediction weights."""
        ...


class Dense:
    """DenseNEst."""

    def build(self, sizes: Sizes) -> DenseNEst:
        """A DenseNEst whose output is zero."""
        network = densenest(sizes.num_inputs, sizes.num_outputs, feature_sizes=sizes.feature_sizes)
        _zero_(network.output)
        return network

    @torch.no_grad()
    def begin_at_(self, network: NEst, linear: Readout) -> None:
        """The linear part of the output."""
        output = cast(DenseNEst, network).output
        output.weight[:, : len(linear.linear)] = linear.linear.T.to(output.weight)
        output.bias.copy_(linear.constant)

    def stages(self, network: NEst) -> list[list[nn.Parameter]]:
        """The functions Q_i."""
        return [list(block.function.parameters()) for block in cast(DenseNEst, network).blocks]

    @torch.no_grad()
    def write_(self, network: NEst, readout: Readout) -> None:
        """W_{L+1} = [A B]ᵀ and its bias."""
        output = cast(DenseNEst, network).output
        output.weight.copy_(torch.cat([readout.linear, readout.nonlinear]).T)
        output.bias.copy_(readout.constant)


class Augmented:
    """Augmented ResNEst."""

    def build(self, sizes: Sizes) -> AugmentedResNEst:
        """An augmented ResNEst whose heads are zero and whose [W_0 … W_{L−1}] is orthonormal."""
        network = aresnest(
            sizes.num_inputs,
            sizes.num_outputs,
            width=sizes.width or sizes.mixed,
            feature_sizes=sizes.feature_sizes,
        )
        _orthonormalize_([network.expansion, *(block.mix for block in network.blocks)])
        for head in network.heads:
            _zero_(head)
        return network

    @torch.no_grad()
    def begin_at_(self, network: NEst, linear: Readout) -> None:
        """H_0."""
        first = cast(AugmentedResNEst, network).heads[0]
        first.weight.copy_(linear.linear.T)
        first.bias.copy_(linear.constant)

    def stages(self, network: NEst) -> list[list[nn.Parameter]]:
        """W_{i−1} and G_i."""
        network = cast(AugmentedResNEst, network)
        return _residual_stages(
            network.expansion,
            [block.mix for block in network.blocks],
            [*(block.function for block in network.blocks), network.last],
        )

    @torch.no_grad()
    def write_(self, network: NEst, readout: Readout) -> None:
        """H_0 = Aᵀ with its bias, H_i the rows of B that belong to feature i."""
        first, *rest = cast(AugmentedResNEst, network).heads
        first.weight.copy_(readout.linear.T)
        first.bias.copy_(readout.constant)
        sizes = [head.in_features for head in rest]
        for head, H in zip(rest, readout.nonlinear.split(sizes), strict=True):
            head.weight.copy_(H.T)


class Residual:
    """ResNEst, wide enough unless set otherwise."""

    def build(self, sizes: Sizes) -> ResNEst:
        """A ResNEst with output zero and orthonormal [W_0 … W_{L−1}], where the width allows it."""
        network = resnest(
            sizes.num_inputs,
            sizes.num_outputs,
            width=sizes.width or sizes.needed_width,
            feature_sizes=sizes.feature_sizes,
        )
        _orthonormalize_([network.expansion, *(block.mix for block in network.blocks[:-1])])
        _zero_(network.output)
        return network

    @torch.no_grad()
    def begin_at_(self, network: NEst, linear: Readout) -> None:
        """W_{L+1} = H_0 W_0⁺; other features do not reach the output while W is orthonormal."""
        network = cast(ResNEst, network)
        expansion = cast(nn.Linear, network.expansion)
        first = torch.cat([expansion.weight, expansion.bias[:, None]], dim=1)
        H = torch.cat([linear.linear, linear.constant[None]]).T.to(first)
        network.output.weight.copy_(H @ torch.linalg.pinv(first))
        _zero_(cast(nn.Linear, network.blocks[-1].mix))

    def stages(self, network: NEst) -> list[list[nn.Parameter]]:
        """W_{i−1} and G_i."""
        network = cast(ResNEst, network)
        return _residual_stages(
            network.expansion,
            [block.mix for block in network.blocks[:-1]],
            [block.function for block in network.blocks],
        )

    @torch.no_grad()
    def write_(self, network: NEst, readout: Readout) -> None:
        """W_{L+1} and W_L such that W_{L+1} W_i = H_i for every i.

        With W = [W_0 … W_{L−1}] of full column rank and N orthonormal columns orthogonal to it,
        W_{L+1} = [H_0 … H_{L−1}] W⁺ + Nᵀ and W_L = N H_L, because W⁺ N = 0 and Nᵀ W = 0.
        """
        network = cast(ResNEst, network)
        W = mixing_matrix(network)
        assert W is not None
        c, last = readout.constant.shape[0], cast(nn.Linear, network.blocks[-1].mix)
        own = last.in_features
        H = torch.cat([readout.linear, readout.constant[None], readout.nonlinear])
        mixed, free = H[: len(H) - own].T, H[len(H) - own :].T
        N = torch.linalg.qr(W, mode="complete").Q[:, W.shape[1] : W.shape[1] + c]
        network.output.weight.copy_(mixed @ torch.linalg.pinv(W) + N.T)
        last.weight.copy_(N @ free)


@torch.no_grad()
def nonlinear_features(network: NEst, x: Float[Tensor, " n d"]) -> Float[Tensor, " n k"]:
    """v_1, …, v_L side by side."""
    return torch.cat(network.features(x)[1:], dim=1)


class Truncated(nn.Module):
    """The first blocks of a network under a linear head of their own, for training blockwise."""

    def __init__(self, network: NEst, num_blocks: int, *, linear: Readout) -> None:
        super().__init__()
        self.network = network
        self.num_blocks = num_blocks
        with torch.no_grad():
            size = sum(v.shape[1] for v in self._features(torch.zeros(1, len(linear.linear))))
            self.head = nn.Linear(size, linear.linear.shape[1])
            _zero_(self.head)
            self.head.weight[:, : len(linear.linear)] = linear.linear.T
            self.head.bias.copy_(linear.constant)

    def forward(self, x: Float[Tensor, " n d"]) -> Float[Tensor, " n c"]:
        """The head on the linear feature and those of the first blocks."""
        result: Tensor = self.head(torch.cat(self._features(x), dim=1))
        return result

    def _features(self, x: Tensor) -> list[Tensor]:
        if isinstance(self.network, DenseNEst):
            for block in self.network.blocks[: self.num_blocks]:
                x = block(x)
            return [x]
        maps, state = [x], self.network.expansion(x)
        functions = [block.function for block in self.network.blocks]
        if isinstance(self.network, AugmentedResNEst):
            functions.append(self.network.last)
        for i in range(self.num_blocks):
            if i > 0:
                state = state + self.network.blocks[i - 1].mix(maps[-1])
            maps.append(functions[i](state))
        return maps


def _residual_stages(
    expansion: nn.Module, mixes: Sequence[nn.Module], functions: Sequence[nn.Module]
) -> list[list[nn.Parameter]]:
    before = [expansion, *mixes]
    return [
        [*mix.parameters(), *function.parameters()]
        for mix, function in zip(before, functions, strict=True)
    ]


@torch.no_grad()
def _zero_(layer: nn.Linear) -> None:
    layer.weight.zero_()
    if layer.bias is not None:
        layer.bias.zero_()


@torch.no_grad()
def _orthonormalize_(layers: Sequence[nn.Module]) -> None:
    """Random columns for [W_0 … W_{L−1}], orthonormal if there are at most as many as rows."""
    linears = cast(Sequence[nn.Linear], layers)
    sizes = [layer.in_features + (layer.bias is not None) for layer in linears]
    W = torch.randn(linears[0].out_features, sum(sizes))
    W = torch.linalg.qr(W).Q if W.shape[0] >= W.shape[1] else W / W.norm(dim=0)
    for layer, part in zip(linears, W.split(sizes, dim=1), strict=True):
        layer.weight.copy_(part[:, : layer.in_features])
        if layer.bias is not None:
            layer.bias.copy_(part[:, -1])
