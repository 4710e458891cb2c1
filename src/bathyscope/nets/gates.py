"""Highway gates: how much of the branch and of the shortcut continues."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.nets.shortcut import Place, projection


class Gate(nn.Module):
    """σ(W x + b), a number in (0, 1) for each channel and pixel; W is a 1×1 convolution.

    The offset b is apart from W, so that initializers of layers leave it where it starts.
    """

    def __init__(self, location: Place, *, bias: float) -> None:
        super().__init__()
        self.weights = projection(location)
        self.offset = nn.Parameter(torch.full((location.out_channels, 1, 1), bias))

    def forward(self, x: Float[Tensor, " n c h w"]) -> Float[Tensor, " n d p q"]:
        """The gate's opening for an input of the block."""
        return torch.sigmoid(self.weights(x) + self.offset)


class Gates(nn.Module):
    """T(x) · branch + C(x) · shortcut   (singularity, section VII-B).

    Args:
        location: where the block stands; the gates read its input and have the size of its output.
        coupled: C = 1 - T; else C is a gate with weights of its own.
        bias: start of the transform gate's offset; an independent carry gate starts at its
            negative, so that both forms start with the same openings if the weights are zero.

    Examples:
        >>> gates = Gates(Place(2, 2), coupled=False, bias=0.0)
        >>> gates.open_()
        >>> x = torch.ones(1, 2, 3, 3)
        >>> torch.equal(gates(x, 2 * x, x), 3 * x)
        True
    """

    def __init__(self, location: Place, *, coupled: bool, bias: float) -> None:
        super().__init__()
        self.transform = Gate(location, bias=bias)
        self.carry = None if coupled else Gate(location, bias=-bias)

    def forward(
        self,
        h: Float[Tensor, " n c h w"],
        branch: Float[Tensor, " n d p q"],
        shortcut: Float[Tensor, " n d p q"],
    ) -> Float[Tensor, " n d p q"]:
        """Both paths, each through its gate."""
        opening = self.transform(h)
        if self.carry is None:
            return torch.lerp(shortcut, branch, opening)
        result: Tensor = opening * branch + self.carry(h) * shortcut
        return result

    def without_branch(
        self, h: Float[Tensor, " n c h w"], shortcut: Float[Tensor, " n d p q"]
    ) -> Float[Tensor, " n d p q"]:
        """The shortcut through its gate."""
        carry = 1 - self.transform(h) if self.carry is None else self.carry(h)
        result: Tensor = carry * shortcut
        return result

    @torch.no_grad()
    def open_(self) -> None:
        """Set independent gates to exactly one, whatever the input."""
        for gate in (self.transform, self.carry):
            assert gate is not None, "coupled gates cannot both be open"
            gate.weights.weight.zero_()
            gate.offset.fill_(torch.inf)
