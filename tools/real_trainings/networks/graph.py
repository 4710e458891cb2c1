"""Message passing over dense, row-normalized adjacency matrices."""

import torch
from torch import Tensor, nn

from tools.real_trainings.networks.parts import ACTIVATIONS, VECTOR_NORMS


class MessagePassing(nn.Module):
    """`depth` rounds of x ← act(W₁x + W₂ A x), with or without shortcut, and a head per node."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        width: int,
        depth: int,
        norm: str,
        activation: str,
        residual: bool,
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(num_inputs, width)
        self.own = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.others = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(depth)])
        self.norms = nn.ModuleList([VECTOR_NORMS[norm](width) for _ in range(depth)])
        self.activation = ACTIVATIONS[activation]()
        self.is_residual = residual
        self.head = nn.Linear(width, num_outputs)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Outputs per node: (graphs, nodes, outputs)."""
        x = self.stem(features)
        for own, others, norm in zip(self.own, self.others, self.norms, strict=True):
            branch = self.activation(own(norm(x)) + others(torch.bmm(adjacency, x)))
            x = x + branch if self.is_residual else branch
        return self.head(x)
