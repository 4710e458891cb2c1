"""What the claims at zero share: the network at zero weights, its data, and assumption 3."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bathyscope import data as data_sets
from bathyscope import nets
from bathyscope.claims.draws import half_squares, normal
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Assumption
from bathyscope.curvature import Activation, hessian
from bathyscope.nets import Network

Pair = tuple[Float[Tensor, " m d"], Float[Tensor, " m d"]]
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(function=lambda x: x, slope=1.0, curvature=0.0),
    "relu": Activation(function=torch.relu),
    "tanh": Activation(function=torch.tanh),
    "sigmoid": Activation(function=torch.sigmoid),
    "softplus": Activation(function=F.softplus),
}


def at_zero(
    num_units: int,
    n: int,
    *,
    width: int,
    pre: str = "identity",
    mid: str = "identity",
    post: str = "identity",
    bias: bool = False,
) -> Network:
    """An n-shortcut network in float64 with all parameters zero."""
    network = nets.build(
        f"nshortcut-{num_units}-{n}", width=width, pre=pre, mid=mid, post=post, bias=bias
    ).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert isinstance(network, Network)
    return network


def hessian_of(network: Network, data: Pair) -> Float[Tensor, " D D"]:
    """The dense Hessian of the theme's loss, by automatic differentiation."""
    return hessian(network, data, loss=half_squares).dense()


def vectors(data: Any, *, seed: int, width: int = 4, samples: int = 40) -> Pair:
    """Inputs and targets of one dimension, in float64: those given, or drawn.

    Labels become one-hot vectors, and the inputs as many whitened principal components, as in
    the paper's experiments.

    Raises:
        UsageError: inputs and targets have different sizes.
    """
    if data is None:
        generator = torch.Generator().manual_seed(seed)
        x = normal(generator, samples, width)
        mixed = normal(generator, width, width)
        return x, x.tanh() @ mixed + normal(generator, samples, width)
    x, y = (torch.as_tensor(part) for part in data)
    if not y.is_floating_point():
        y = F.one_hot(y.long()).double()
        if x.flatten(1).shape[1] != y.shape[1]:
            x = data_sets.whiten(x.double(), y.shape[1])(x.double())
    x, y = x.flatten(1).double(), y.flatten(1).double()
    if x.shape != y.shape:
        raise UsageError(
            f"An n-shortcut network needs targets of the inputs' size, but the inputs have shape "
            f"{tuple(x.shape)} and the targets {tuple(y.shape)}."
        )
    return x, y


def assumption_3(activations: tuple[str, ...]) -> tuple[Assumption, ...]:
    """Whether each activation has a slope at zero, and vanishes there.

    Raises:
        UnknownName: there is no such activation.
    """
    found = []
    for name in activations:
        if name not in ACTIVATIONS:
            raise UnknownName("activation", name, ACTIVATIONS)
        try:
            value, slope, _ = ACTIVATIONS[name].at_zero()
        except UsageError:
            found.append(Assumption(statement=f"{name} has a derivative at zero", holds=False))
            continue
        found.append(
            Assumption(
                statement=f"{name} vanishes at zero and has the slope {slope:g} there",
                holds=value == 0,
                value=value,
            )
        )
    return tuple(found)
