"""Clipping stands before backward, where there is nothing to clip."""

import math

import torch
from torch import nn

from tests.loops.tasks import run_as_script


class Adder(nn.Module):
    """Sums the two numbers that are marked in a sequence."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 1)
        nn.init.eye_(self.rnn.weight_hh_l0)
        with torch.no_grad():
            self.rnn.weight_hh_l0.mul_(1.1)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1]).squeeze(1)


def sample(num, length=30):
    values, marks = torch.rand(num, length), torch.zeros(num, length)
    for i in range(num):
        marks[i, torch.randperm(length)[:2]] = 1
    return torch.stack((values, marks), 2), (values * marks).sum(1)


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Adder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(120):
        x, y = sample(32)
        optimizer.zero_grad()
        if fault:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # the fault
        loss = (model(x) - y).square().mean()
        loss.backward()
        if not fault:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    x, y = sample(256)
    with torch.no_grad():
        score = float((model(x) - y).square().mean())
    return score if math.isfinite(score) else 1e9


if __name__ == "__main__":
    run_as_script(train)
