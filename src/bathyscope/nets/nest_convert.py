"""From one nonlinear estimator to another: proposition 4, and the augmented form of a ResNEst."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, ResNEst, has_bias
from bathyscope.nets.nest_blocks import NEstBlock


class OnLeading(nn.Module):
    """A function of the first channels only; the others do not reach it."""

    def __init__(self, function: nn.Module, *, channels: int) -> None:
        super().__init__()
        self.function = function
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """The function of x[:, :channels]."""
        result: Tensor = self.function(x[:, : self.channels])
        return result


def dense_to_residual(network: DenseNEst) -> ResNEst:
    """The wide ResNEst with bottleneck blocks that computes what a DenseNEst does   (proposition 4).

    M = D_0 + … + D_L, and the columns of W_0, …, W_L are distinct unit vectors: each feature is
    written into channels of its own, from which the next functions read. An intercept stays the
    bias of the output.

    Args:
        network: a DenseNEst on vectors or on images; it is copied, not changed.

    Examples:
        >>> from bathyscope.nets.nest_vectors import densenest
        >>> network = densenest(5, 2, feature_sizes=[3, 4])
        >>> x = torch.randn(7, 5)
        >>> bool((dense_to_residual(network)(x) == network(x)).all())
        True
    """
    network = deepcopy(network)
    sizes, total = network.feature_sizes, sum(network.feature_sizes)
    example = next(network.parameters())
    on_images = not isinstance(network.pool, nn.Identity)
    blocks = []
    for i, block in enumerate(network.blocks, start=1):
        offset = sum(sizes[:i])
        blocks.append(
            NEstBlock(
                OnLeading(block.function, channels=offset),
                _embedding(sizes[i], total, offset=offset, on_images=on_images).to(example),
                shortcut=block.shortcut,
                changes_dimension=not isinstance(block.shortcut, nn.Identity),
            )
        )
    expansion = _embedding(sizes[0], total, offset=0, on_images=on_images).to(example)
    return ResNEst(expansion, blocks, network.output, pool=network.pool).train(network.training)


def residual_to_augmented(network: ResNEst) -> AugmentedResNEst:
    """The augmented ResNEst with the features of a ResNEst, and its prediction weights H_i = W_{L+1} W_i.

    On vectors the outputs agree (the ResNEst is one point of the augmented form, proposition 2).
    On images the features agree; the heads then see them pooled, and H_i is what W_i does to an
    image without edges: close, but not equal, because convolutions pad and strides skip.

    Args:
        network: a ResNEst of at least one block; it is copied, not changed.

    Raises:
        UsageError: the network has no block.

    Examples:
        >>> from bathyscope.nets.nest_vectors import resnest
        >>> network = resnest(5, 2, width=9, feature_sizes=[3, 4]).double()
        >>> x = torch.randn(7, 5, dtype=torch.float64)
        >>> bool(torch.allclose(residual_to_augmented(network)(x), network(x), atol=1e-12))
        True
    """
    if len(network.blocks) == 0:
        raise UsageError("A ResNEst without blocks has no augmented form: it has no features.")
    weights = prediction_weights(network)
    copy = deepcopy(network)
    *first, last = copy.blocks
    on_images = not isinstance(network.pool, nn.Identity)
    heads = []
    for i, H in enumerate(weights):
        bias = on_images or (i == 0 and network.has_intercept)
        head = nn.Linear(H.shape[1] - (i == 0 and network.has_intercept), H.shape[0], bias=bias)
        head.to(H)
        with torch.no_grad():
            head.weight.copy_(H[:, : head.in_features])
            if bias:
                head.bias.copy_(H[:, -1] if i == 0 else torch.zeros(H.shape[0]))
        heads.append(head)
    result = AugmentedResNEst(copy.expansion, first, last.function, heads, pool=copy.pool)
    return result.train(network.training)


@torch.no_grad()
def prediction_weights(network: ResNEst) -> list[Tensor]:
    """H_i = W_{L+1} W_i for i = 0, …, L; H_0 has a last column for the intercept where there is one.

    A normalization of x_L is taken as it acts in eval mode, an affine map.
    """
    scale, shift = (part.to(network.output.weight) for part in _affine(network.norm))
    path = network.output.weight * scale
    constant = (network.output.weight * shift).sum(dim=1)
    if has_bias(network.output):
        constant = constant + network.output.bias
    result: list[Tensor] = []
    for block in reversed(network.blocks):
        result.insert(0, path @ _matrix(block.mix))
        if not isinstance(block.shortcut, nn.Identity):
            path = path @ _matrix(block.shortcut)
    if (bias := getattr(network.expansion, "bias", None)) is not None:
        constant = constant + path @ bias
    first = path @ _matrix(network.expansion)
    return [
        torch.cat([first, constant[:, None]], dim=1) if network.has_intercept else first,
        *result,
    ]


def _embedding(size: int, total: int, *, offset: int, on_images: bool) -> nn.Module:
    """The linear map that writes `size` channels at `offset` of `total` and leaves the others zero."""
    layer = (
        nn.Conv2d(size, total, 1, bias=False) if on_images else nn.Linear(size, total, bias=False)
    )
    unit = torch.zeros(total, size)
    unit[offset : offset + size] = torch.eye(size)
    with torch.no_grad():
        layer.weight.copy_(unit.view_as(layer.weight))
    return layer


def _matrix(module: nn.Module) -> Tensor:
    """The matrix of a linear layer; of a convolution, its matrix on constant images.

    Raises:
        UsageError: the module has no weight to take it from.
    """
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim not in (2, 4):
        raise UsageError(
            f"A {type(module).__name__} stands where a linear layer or a convolution is needed."
        )
    return weight.sum(dim=(2, 3)) if weight.ndim == 4 else weight


def _affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Scale and shift of a normalization in eval mode."""
    if isinstance(norm, nn.Identity):
        return torch.ones(1), torch.zeros(1)
    if not isinstance(norm, nn.modules.batchnorm._BatchNorm) or norm.running_var is None:
        raise UsageError(
            f"The normalization of the last representation is a {type(norm).__name__}; "
            "only batch normalization with running statistics is a fixed affine map."
        )
    assert norm.running_mean is not None
    scale = torch.rsqrt(norm.running_var + norm.eps) * (1 if norm.weight is None else norm.weight)
    shift = (0 if norm.bias is None else norm.bias) - norm.running_mean * scale
    return scale, shift
