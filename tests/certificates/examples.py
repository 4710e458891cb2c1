"""Data and networks that the tests of certificates share."""

import torch

from bathyscope.nets.nest_vectors import resnest


def data(seed, *, n=400, num_inputs=6, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, num_inputs, generator=g, dtype=dtype)
    y = torch.stack([torch.sin(3 * x[:, 0]) * x[:, 1], (x[:, 2] * x[:, 3]).abs()], dim=1)
    return x, y + 0.1 * torch.randn(n, 2, generator=g, dtype=dtype)


def network(width, *, seed=0, sizes=(4, 4, 4, 4), outputs=2, intercept=False):
    torch.manual_seed(seed)
    return resnest(6, outputs, width=width, feature_sizes=list(sizes), intercept=intercept).double()
