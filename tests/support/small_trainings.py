"""A small network and its batches."""

import torch
from torch import nn


def batches(count):
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(16, 6, generator=generator), torch.randint(3, (16,), generator=generator))
        for _ in range(count)
    ]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))
