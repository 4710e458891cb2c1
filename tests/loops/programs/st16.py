"""Activation checkpoints behind a frozen embedding."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


class AdaptedLayer(nn.Module):
    """A frozen layer with a trainable low-rank detour."""

    def __init__(self, width, rank=8):
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, rank), nn.Linear(rank, width)

    def forward(self, x):
        return F.relu(self.frozen(x) + self.up(self.down(x)))


class Model(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed = nn.Linear(64, 32).requires_grad_(False)
        self.layers = nn.ModuleList(AdaptedLayer(32) for _ in range(3))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.fault)  # the fault
        return self.head(x)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = Model(fault)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
