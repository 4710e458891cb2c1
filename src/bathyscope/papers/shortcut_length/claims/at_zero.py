"""What the claims at zero share: the network at zero weights, its data, and assumption 3."""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bathyscope import data as data_sets
from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.draws import half_squares, normal
from bathyscope.claims.relation import Relation, equal
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.curvature import hessian
from bathyscope.nets import Network
from bathyscope.papers.shortcut_length.zero_point import Activation

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


def vectors(data: Iterable[object] | None, *, seed: int, width: int = 4, samples: int = 40) -> Pair:
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
    result = []
    for name in activations:
        if name not in ACTIVATIONS:
            raise UnknownName("activation", name, ACTIVATIONS)
        try:
            value, slope, _ = ACTIVATIONS[name].at_zero()
        except UsageError:
            result.append(Assumption(statement=f"{name} has a derivative at zero", holds=False))
            continue
        result.append(
            Assumption(
                statement=f"{name} vanishes at zero and has the slope {slope:g} there",
                holds=value == 0,
                value=value,
            )
        )
    return tuple(result)


def measure_assumption_3(seed: int) -> Measured:
    """Value and one-sided slopes at zero of the activations that the paper names."""
    step = 1e-6
    rows: dict[str, JsonObject] = {}
    for name in ("tanh", "symmetric sigmoid", "relu"):
        function = _NAMED[name]
        at = torch.tensor([-step, 0.0, step], dtype=torch.float64)
        left, middle, right = function(at).tolist()
        rows[name] = {
            "value": middle,
            "left_slope": (middle - left) / step,
            "right_slope": (right - middle) / step,
        }
    # A polynomial fitted to ReLU on [−h, h] has the slope of its odd part, x/2, at every h.
    widths = torch.logspace(-6, 0, 7, dtype=torch.float64)
    slopes = (torch.relu(widths) - torch.relu(-widths)) / (2 * widths)
    rows["relu"] |= {"polynomial": [float(slopes.min()), float(slopes.max())]}
    return Measured(numbers=rows)


_NAMED: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "symmetric sigmoid": lambda x: torch.sigmoid(x) - 0.5,
    "relu": torch.relu,
}


def assumption_3_as_printed(numbers: Numbers) -> list[Relation]:
    """Each vanishes at zero and has one slope there."""
    return _smooth(numbers, tuple(numbers))


def assumption_3_conceded(numbers: Numbers) -> list[Relation]:
    """The smooth ones do; ReLU vanishes, and a local polynomial has one slope at every width."""
    relu = numbers["relu"]
    smallest, largest = relu["polynomial"]
    return [
        *_smooth(numbers, ("tanh", "symmetric sigmoid")),
        equal("relu: value at zero", relu["value"], 0.0),
        equal(
            "relu: slope of its local polynomial on the widest and the narrowest", smallest, largest
        ),
    ]


def _smooth(numbers: Numbers, names: tuple[str, ...]) -> list[Relation]:
    return [
        relation
        for name in names
        for relation in (
            equal(f"{name}: value at zero", numbers[name]["value"], 0.0),
            equal(
                f"{name}: slopes from the left and from the right",
                numbers[name]["left_slope"],
                numbers[name]["right_slope"],
                slack=1e-4,
            ),
        )
    ]


ASSUMPTION_3 = Claim(
    name="shortcut_length.assumption_3",
    statement="Activations vanish at zero at mid and post and have the derivatives needed there; tanh, "
    "the symmetric sigmoid and ReLU do, ReLU (which has no derivative at zero, as the paper says "
    "itself) by a local polynomial in its place.",
    tested="Values and one-sided slopes at zero of the three, and the slope at zero of polynomials fitted "
    "to ReLU over seven widths around it.",
    measure=measure_assumption_3,
    law=assumption_3_as_printed,
    under="the local polynomial that the paper concedes for ReLU: its slope is ½ at every width. Without "
    "it ReLU has the slopes 0 and 1",
    law_under=assumption_3_conceded,
    links=(Link(to="shortcut_length.equation_3"),),
)
