"""Deep networks of one shape: plain, with tailored rectifiers, with shortcuts, with normalization."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from bathyscope.inits import he_
from bathyscope.remedies import tailor_

Kind = Literal["plain", "tailored", "shortcut", "normalized"]
Form = Literal["dense", "convolutional"]
LABELS: dict[str, str] = {
    "plain": "plain, He and ReLU",
    "tailored": "plain, tailored rectifiers",
    "shortcut": "shortcuts, branches over √L",
    "normalized": "plain with BatchNorm",
}


class DeepUnit(nn.Module):
    """One layer of a deep network: a map, a norm or none, a rectifier, and a shortcut or none."""

    def __init__(self, layer: nn.Module, norm: nn.Module, *, scale: float | None) -> None:
        super().__init__()
        self.layer, self.norm, self.activation = layer, norm, nn.ReLU()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """ρ(W x), or x + scale · W ρ(x), whose branch has no mean that sums up over the depth."""
        out: Tensor
        if self.scale is None:
            out = self.activation(self.norm(self.layer(x)))
        else:
            out = x + self.scale * self.layer(self.activation(x))
        return out


def deep_network(
    kind: Kind, form: Form, *, depth: int, width: int, shape: tuple[int, ...], num_classes: int
) -> nn.Module:
    """A network of `depth` weighted layers of one width, drawn from torch's generator.

    Args:
        kind: what keeps it trainable, if anything does.
        form: linear layers, or convolutions of 3 × 3 taps and a last layer that reads all positions.
        depth: weighted layers, first and last included.
        width: units or channels.
        shape: of an image: channels, height, width.
        num_classes: outputs.
    """
    dense = form == "dense"
    scale = 1 / math.sqrt(depth - 2) if kind == "shortcut" else None

    def layer(inputs: int) -> nn.Module:
        return nn.Linear(inputs, width) if dense else nn.Conv2d(inputs, width, 3, padding=1)

    def norm() -> nn.Module:
        if kind != "normalized":
            return nn.Identity()
        return nn.BatchNorm1d(width) if dense else nn.BatchNorm2d(width)

    stem = [nn.Flatten(), layer(math.prod(shape))] if dense else [layer(shape[0])]
    read = width if dense else width * shape[1] * shape[2]
    model = nn.Sequential(
        nn.Sequential(*stem),
        nn.Sequential(*(DeepUnit(layer(width), norm(), scale=scale) for _ in range(depth - 2))),
        nn.Sequential(nn.Flatten(), nn.Linear(read, num_classes)),
    )
    he_(model)
    if kind == "tailored":
        tailor_(model, generator=torch.default_generator)
    return model
