"""Batch norms whose statistics never move, because their momentum was meant as a decay of 0."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script

CODES = ("frozen-statistics", "still-statistics")


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    x, test_x = 5 * x + 20, 5 * test_x + 20
    norm = nn.BatchNorm1d(64, momentum=0.0 if fault else 0.1)  # the fault
    model = nn.Sequential(norm, nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
