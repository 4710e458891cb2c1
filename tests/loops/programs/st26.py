"""The positional encoding of a tutorial, on inputs with the batch first."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.language import Layer
from tests.loops.tasks import held_out_loss, run_as_script


class Reader(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed, self.layer, self.head = (
            nn.Embedding(8, 32),
            Layer(32, 2, False),
            nn.Linear(32, 8),
        )
        angle = torch.arange(512).unsqueeze(1) * torch.exp(
            torch.arange(0, 32, 2) * (-math.log(10000.0) / 32)
        )
        table = torch.stack((angle.sin(), angle.cos()), 2).flatten(1)
        self.register_buffer("table", table)

    def forward(self, tokens):
        x = self.embed(tokens)
        if self.fault:
            x = x + self.table[: x.size(0)].unsqueeze(1)  # the fault
        else:
            x = x + self.table[: x.size(1)]
        return self.head(self.layer(x).mean(1))


def sample(num):
    """The class of a sequence is its first token."""
    tokens = torch.randint(8, (num, 10))
    return tokens, tokens[:, 0].clone()


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Reader(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(200):
        tokens, labels = sample(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    return held_out_loss(model, *sample(256))


if __name__ == "__main__":
    run_as_script(train)
