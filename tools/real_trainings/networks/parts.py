"""What all networks share: activations, norms by name, and initializations."""

import math
from collections.abc import Callable

from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "silu": nn.SiLU,
    "leaky-relu": lambda: nn.LeakyReLU(0.1),
}

VECTOR_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda _: nn.Identity(),
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
}

IMAGE_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda _: nn.Identity(),
    "batch": nn.BatchNorm2d,
    "group": lambda channels: nn.GroupNorm(math.gcd(4, channels), channels),
}

INITIALIZATIONS = ("default", "he", "xavier", "orthogonal", "small", "large")
"""`small` is normal with std 0.02 at every layer, `large` is He with a gain of 2."""


def initialize_(model: nn.Module, name: str) -> None:
    """Re-initialize every weight matrix or kernel of the model; biases become 0.

    `default` leaves what each layer of PyTorch chose. Vectors (norms) are never touched.
    """
    if name == "default":
        return
    for module in model.modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.ndim < 2:
                if "bias" in key:
                    nn.init.zeros_(parameter)
                continue
            if isinstance(module, nn.Embedding):
                nn.init.normal_(parameter, std=0.02 if name == "small" else 1.0)
                continue
            _fill_(parameter, name)


def _fill_(weight: Tensor, name: str) -> None:
    fan_in = weight[0].numel()
    if name == "small":
        nn.init.normal_(weight, std=0.02)
    elif name == "xavier":
        nn.init.xavier_uniform_(weight)
    elif name == "orthogonal":
        nn.init.orthogonal_(weight)
    else:
        gain = {"he": math.sqrt(2), "large": 2.0}[name]
        nn.init.normal_(weight, std=gain / math.sqrt(fan_in))
