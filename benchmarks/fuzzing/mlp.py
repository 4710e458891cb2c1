"""A small network with room for something odd."""

from typing import Any

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """Three layers, with room for something odd in `touch`."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first, self.inner, self.last = (
            nn.Linear(4, width),
            nn.Linear(width, width),
            nn.Linear(width, 3),
        )

    def touch(self, x: Tensor) -> Tensor:
        """What is odd about it."""
        return x

    def forward(self, x: Tensor) -> Any:
        """Three outputs a sample."""
        x = torch.tanh(self.first(x))
        return self.last(self.touch(torch.tanh(self.inner(x))))
