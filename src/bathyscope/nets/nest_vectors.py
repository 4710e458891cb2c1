"""Nonlinear estimators on vectors: fully connected ResNEst, augmented ResNEst and DenseNEst."""

from collections.abc import Sequence

from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, ResNEst
from bathyscope.nets.nest_blocks import DenseNEstBlock, NEstBlock, check_functions


def resnest(
    num_inputs: int,
    num_outputs: int,
    *,
    width: int,
    feature_sizes: Sequence[int],
    functions: Sequence[nn.Module] | None = None,
    intercept: bool = True,
    activation: type[nn.Module] = nn.ReLU,
) -> ResNEst:
    """A ResNEst on vectors.

    Args:
        num_inputs: N_in.
        num_outputs: N_o.
        width: M, the size of the residual space.
        feature_sizes: K_1, …, K_L; an empty sequence gives the linear network W_1 W_0 x.
        functions: G_1, …, G_L, each from M to K_i values; one affine layer and its activation if None.
        intercept: make the linear feature [x; 1], so that K_0 = N_in + 1.
        activation: of the default functions.

    Examples:
        >>> import torch
        >>> network = resnest(6, 2, width=19, feature_sizes=[4, 4, 4, 4])
        >>> [v.shape[1] for v in network.features(torch.zeros(3, 6))]
        [7, 4, 4, 4, 4]
    """
    in_sizes = [width] * len(feature_sizes)
    functions = check_functions(functions, in_sizes, feature_sizes, activation=activation)
    blocks = [
        NEstBlock(function, nn.Linear(size, width, bias=False))
        for function, size in zip(functions, feature_sizes, strict=True)
    ]
    return ResNEst(
        nn.Linear(num_inputs, width, bias=intercept),
        blocks,
        nn.Linear(width, num_outputs, bias=False),
    )


def aresnest(
    num_inputs: int,
    num_outputs: int,
    *,
    width: int,
    feature_sizes: Sequence[int],
    functions: Sequence[nn.Module] | None = None,
    intercept: bool = True,
    activation: type[nn.Module] = nn.ReLU,
) -> AugmentedResNEst:
    """An augmented ResNEst on vectors, of at least one block; arguments as for `resnest`.

    Raises:
        UsageError: a size is not positive, there is no block, or functions and sizes do not match.

    Examples:
        >>> import torch
        >>> aresnest(6, 2, width=8, feature_sizes=[4, 4])(torch.zeros(3, 6)).shape
        torch.Size([3, 2])
    """
    if not feature_sizes:
        raise UsageError("An augmented ResNEst needs at least one feature size; none was given.")
    in_sizes = [width] * len(feature_sizes)
    *first, last = check_functions(functions, in_sizes, feature_sizes, activation=activation)
    blocks = [
        NEstBlock(function, nn.Linear(size, width, bias=False))
        for function, size in zip(first, feature_sizes[:-1], strict=True)
    ]
    heads = [
        nn.Linear(size, num_outputs, bias=intercept and i == 0)
        for i, size in enumerate([num_inputs, *feature_sizes])
    ]
    return AugmentedResNEst(nn.Linear(num_inputs, width, bias=intercept), blocks, last, heads)


def densenest(
    num_inputs: int,
    num_outputs: int,
    *,
    feature_sizes: Sequence[int],
    functions: Sequence[nn.Module] | None = None,
    intercept: bool = True,
    activation: type[nn.Module] = nn.ReLU,
) -> DenseNEst:
    """A DenseNEst on vectors.

    Args:
        num_inputs: N_in.
        num_outputs: N_o.
        feature_sizes: D_1, …, D_L.
        functions: Q_1, …, Q_L, from N_in + D_1 + … + D_{i−1} to D_i values.
        intercept: give the output a bias, so that the linear feature is [x; 1].
        activation: of the default functions.

    Examples:
        >>> densenest(6, 2, feature_sizes=[4, 4]).output.in_features
        14
    """
    sizes = [num_inputs, *feature_sizes]
    in_sizes = [sum(sizes[:i]) for i in range(1, len(sizes))]
    functions = check_functions(functions, in_sizes, feature_sizes, activation=activation)
    return DenseNEst(
        [DenseNEstBlock(function) for function in functions],
        nn.Linear(sum(sizes), num_outputs, bias=intercept),
        feature_sizes=sizes,
    )
