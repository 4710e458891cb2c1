"""A validation within the epoch leaves the model in eval mode."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


def validate(model, x, y, fault):
    model.eval()  # the fault
    with torch.no_grad():
        loss = float(F.cross_entropy(model(x), y))
    if not fault:
        model.train()
    return loss


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    x, y = x[:200], y[:200]
    layers = [nn.Linear(64, 64)]
    for _ in range(3):
        layers += [nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 64)]
    model = nn.Sequential(*layers, nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.train()
    for step, (images, labels) in enumerate(batches(150, 32, x, y)):
        if step == 4:
            validate(model, test_x, test_y, fault)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    score = held_out_loss(model, test_x, test_y)
    return score if math.isfinite(score) else 1e9


if __name__ == "__main__":
    run_as_script(train)
