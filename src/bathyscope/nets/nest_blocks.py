"""The parts of a nonlinear estimator: the residual block, the dense block and their functions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError


class NEstBlock(nn.Module):
    """x_i = S(x_{i−1}) + W_i G_i(x_{i−1})   (nests, equation 1).

    Args:
        function: G_i, any module; its output is the feature v_i.
        mix: W_i, a linear module from the feature to the residual space.
        shortcut: S, a linear module; the identity unless given.
        changes_dimension: whether the output differs in shape from the input.

    Examples:
        >>> block = NEstBlock(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), nn.Linear(2, 4, bias=False))
        >>> found = []
        >>> block(torch.zeros(3, 4), found).shape, found[0].shape
        (torch.Size([3, 4]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        function: nn.Module,
        mix: nn.Module,
        *,
        shortcut: nn.Module | None = None,
        changes_dimension: bool = False,
    ) -> None:
        super().__init__()
        self.function = function
        self.mix = mix
        self.shortcut = nn.Identity() if shortcut is None else shortcut
        self.changes_dimension = changes_dimension
        self.branch_dropped = False

    def forward(self, x: Tensor, features: list[Tensor] | None = None) -> Tensor:
        """The next representation; the feature v_i is added to `features` where a list is given."""
        feature = self.function(x)
        if features is not None:
            features.append(feature)
        around: Tensor = self.shortcut(x)
        return around if self.branch_dropped else around + self.mix(feature)


class DenseNEstBlock(nn.Module):
    """x_i = S(x_{i−1}) © Q_i(x_{i−1}), a concatenation along the channels   (nests, equation 8).

    With its branch dropped the new channels are zero: the shortcut in the space of the output.

    Args:
        function: Q_i, any module; its output is the feature v_i.
        shortcut: S, a linear module that keeps the channels; the identity unless given.
    """

    changes_dimension = True

    def __init__(self, function: nn.Module, *, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.function = function
        self.shortcut = nn.Identity() if shortcut is None else shortcut
        self.branch_dropped = False

    def forward(self, x: Tensor) -> Tensor:
        """The channels so far, followed by the new ones."""
        feature = self.function(x)
        if self.branch_dropped:
            feature = torch.zeros_like(feature)
        return torch.cat([self.shortcut(x), feature], dim=1)


def default_functions(
    in_sizes: Sequence[int], feature_sizes: Sequence[int], *, activation: type[nn.Module]
) -> list[nn.Module]:
    """One affine layer with its activation for each block: the plainest G_i or Q_i."""
    return [
        nn.Sequential(nn.Linear(size, features), activation())
        for size, features in zip(in_sizes, feature_sizes, strict=True)
    ]


def check_functions(
    functions: Sequence[nn.Module] | None,
    in_sizes: Sequence[int],
    feature_sizes: Sequence[int],
    *,
    activation: type[nn.Module] = nn.ReLU,
) -> list[nn.Module]:
    """The functions given, or the default ones, after the sizes have been checked.

    Raises:
        UsageError: a size is not positive, or there is not one function for each feature.
    """
    for size in (*in_sizes, *feature_sizes):
        if size < 1:
            raise UsageError(f"Every size of the network must be at least 1, but {size} was given.")
    if functions is None:
        return default_functions(in_sizes, feature_sizes, activation=activation)
    if len(functions) != len(feature_sizes):
        raise UsageError(
            f"There are {len(feature_sizes)} feature sizes but {len(functions)} functions; "
            "give one function for each block."
        )
    return list(functions)
