"""A batch norm that takes time steps for channels."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import held_out_loss, run_as_script

TIME, SENSORS = 16, 6


class Activity(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.norm = nn.BatchNorm1d(TIME if fault else SENSORS)
        self.rnn, self.head = nn.GRU(SENSORS, 24, batch_first=True), nn.Linear(24, 3)

    def forward(self, x):
        if self.fault:
            x = self.norm(x)  # the fault
        else:
            x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.head(self.rnn(x)[0].mean(1))


def sample(num):
    """Sensors of very different scales; the smallest ones say the class."""
    labels = torch.randint(3, (num,))
    x = torch.randn(num, TIME, SENSORS)
    x[..., 0] += 1.5 * (labels.unsqueeze(1) - 1)
    return x * torch.tensor([0.01, 0.02, 1.0, 5.0, 20.0, 50.0]), labels


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Activity(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        x, y = sample(32)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return held_out_loss(model, *sample(256))


if __name__ == "__main__":
    run_as_script(train)
