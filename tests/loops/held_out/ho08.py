"""The head is replaced after the optimizer was made: the new one is in no optimizer."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("not-in-optimizer",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 32, 1000)
    if not fault:
        model[2] = nn.Linear(32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if fault:
        model[2] = nn.Linear(32, 10)  # the fault
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
