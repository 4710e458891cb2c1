"""A stack made by multiplying a list."""

import torch
from torch import nn

from tests.loops.tasks import mlp, run_as_script


class Encoders(nn.Module):
    """One encoder for each of three quantities, whose codes are added."""

    def __init__(self, fault):
        super().__init__()
        encoder = mlp(4, 16, 8)
        copies = [encoder] * 3 if fault else [mlp(4, 16, 8) for _ in range(3)]
        self.encoders = nn.ModuleList(copies)  # the fault
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(sum(f(x[:, i]) for i, f in enumerate(self.encoders))).squeeze(1)


def sample(num):
    x = torch.randn(num, 3, 4)
    return x, x[:, 0, 0].abs() - x[:, 1, 1].abs() + x[:, 2].mean(1)


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Encoders(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        x, y = sample(64)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    x, y = sample(512)
    with torch.no_grad():
        return float((model(x) - y).square().mean())


if __name__ == "__main__":
    run_as_script(train)
