"""A small convolutional network and a training loop with closures, for every optimizer."""

import torch
from torch import nn
from torch.nn import functional as F


def small_network(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 1, stride=2, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 16, 10),
    ).to(dtype)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randn(16, 3, 8, 8, generator=generator),
        torch.randint(10, (16,), generator=generator),
    )


def train(model, optimizer, steps, *, start=0):
    for step in range(start, start + steps):
        x, y = batch(step)

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
