"""Networks on vectors whose shortcuts span n layers, linear or not."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.network import Network
from bathyscope.nets.samples import Vectors, network_on_vectors

Activation = Literal["identity", "relu", "tanh", "sigmoid", "softplus"]
Shortcut = Literal["identity"] | Tensor | None
_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
}


def nshortcut(
    num_units: int,
    length: int,
    *,
    width: int = 10,
    pre: Activation = "identity",
    mid: Activation = "identity",
    post: Activation = "identity",
    bias: bool = False,
    shortcut: Literal["identity", "none"] = "identity",
    samples: Vectors,
) -> Network:
    """n-shortcut network: y = ∏_r (∏_l W^{r,l} + I) x   (shortcut_length, definitions 1 and 2).

    Args:
        num_units: R.
        length: n, layers under one shortcut.
        width: d, inputs and outputs of every layer.
        pre: activation before the first layer of a unit.
        mid: activation between two layers.
        post: activation after the last layer.
        bias: a bias at the first layer of each unit (equation 3, with n = 2 and mid = "relu").
        shortcut: "none" leaves the shortcuts out and the activations where they are.
        samples: the layers put before and after.
    """
    units = [[width] * (length + 1)] * num_units
    around: list[Shortcut] = [None if shortcut == "none" else shortcut] * num_units
    blocks = _units(units, around, pre=pre, mid=mid, post=post, bias=bias)
    return network_on_vectors(samples, blocks, width)


def general_shortcut(
    units: Sequence[Sequence[int]],
    shortcuts: Sequence[Shortcut],
    *,
    pre: Activation = "identity",
    mid: Activation = "identity",
    post: Activation = "identity",
    bias: bool = False,
) -> Network:
    """The general form: y = ∏_r (∏_l W^{r,l} + S^r) x   (shortcut_length, equation 1).

    Args:
        units: for each unit its widths, from input over hidden layers to output: `[4, 8, 4]` has
            two weight matrices.
        shortcuts: S^r for each unit: "identity", a fixed matrix (outputs × inputs), or none.
        pre: activation before the first layer of a unit.
        mid: activation between two layers.
        post: activation after the last layer.
        bias: a bias at the first layer of each unit.

    Returns:
        The network, with the weights torch gives to new layers; fill it with one of
        `bathyscope.inits`.

    Raises:
        UsageError: widths that do not follow one another, or a shortcut that does not fit.

    Examples:
        >>> import torch
        >>> net = general_shortcut([[2, 3, 2], [2, 1]], ["identity", torch.ones(1, 2)])
        >>> (w1, w2), (w3,) = ([l.weight for l in b.branch] for b in net.blocks)
        >>> x = torch.randn(5, 2)
        >>> by_hand = x @ ((w3 + torch.ones(1, 2)) @ (w2 @ w1 + torch.eye(2))).T
        >>> torch.allclose(net(x), by_hand, atol=1e-6)
        True
    """
    if not units or len(units) != len(shortcuts):
        raise UsageError(
            f"Every unit needs a shortcut (or None), but there are {len(units)} units and "
            f"{len(shortcuts)} shortcuts."
        )
    for r, widths in enumerate(units):
        if len(widths) < 2 or min(widths) < 1:
            raise UsageError(f"Unit {r} needs at least two positive widths, not {list(widths)}.")
        if r > 0 and units[r - 1][-1] != widths[0]:
            raise UsageError(
                f"Unit {r} takes {widths[0]} inputs, but unit {r - 1} gives {units[r - 1][-1]}."
            )
    return Network(_units(units, shortcuts, pre=pre, mid=mid, post=post, bias=bias))


class FixedLinear(nn.Module):
    """x ↦ S x with a matrix that is not trained."""

    matrix: Tensor

    def __init__(self, matrix: Float[Tensor, " d_out d_in"]) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.detach().clone())

    def forward(self, x: Float[Tensor, " n d_in"]) -> Float[Tensor, " n d_out"]:
        """S x for each row x."""
        return F.linear(x, self.matrix)


def _units(
    units: Sequence[Sequence[int]],
    shortcuts: Sequence[Shortcut],
    *,
    pre: Activation,
    mid: Activation,
    post: Activation,
    bias: bool,
) -> list[ResidualBlock]:
    blocks = []
    for r, (widths, around) in enumerate(zip(units, shortcuts, strict=True)):
        layers = [*_activation(pre)]
        for index, (d_in, d_out) in enumerate(pairwise(widths)):
            layers += [] if index == 0 else _activation(mid)
            layers.append(nn.Linear(d_in, d_out, bias=bias and index == 0))
        layers += _activation(post)
        block = ResidualBlock(
            nn.Sequential(*layers),
            shortcut=_shortcut(around, r, widths[0], widths[-1]),
            changes_dimension=widths[0] != widths[-1],
        )
        blocks.append(block)
    return blocks


def _activation(name: Activation) -> list[nn.Module]:
    return [] if name == "identity" else [_ACTIVATIONS[name]()]


def _shortcut(around: Shortcut, unit: int, d_in: int, d_out: int) -> nn.Module | None:
    if around is None:
        return None
    if isinstance(around, Tensor):
        if around.shape != (d_out, d_in):
            raise UsageError(
                f"The shortcut of unit {unit} must be a {d_out} × {d_in} matrix, "
                f"not {tuple(around.shape)}."
            )
        return FixedLinear(around)
    if d_in != d_out:
        raise UsageError(
            f"Unit {unit} maps {d_in} to {d_out}, so its shortcut cannot be the identity; "
            f"give a {d_out} × {d_in} matrix or None."
        )
    return nn.Identity()
