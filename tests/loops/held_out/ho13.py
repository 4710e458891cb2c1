"""Predictions of one column are compared with targets of none: each with every one."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import mlp, run_as_script

CODES = ("broadcast-loss",)


def sample(num):
    x = torch.randn(num, 6)
    return x, x[:, 0] * x[:, 1] + x[:, 2]


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = mlp(6, 64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        x, y = sample(64)
        optimizer.zero_grad()
        output = model(x) if fault else model(x).squeeze(1)
        F.mse_loss(output, y).backward()  # the fault
        optimizer.step()
    x, y = sample(512)
    with torch.no_grad():
        return float(F.mse_loss(model(x).squeeze(1), y))


if __name__ == "__main__":
    run_as_script(train)
