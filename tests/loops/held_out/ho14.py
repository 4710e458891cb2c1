"""The averaged weights are computed into new names: the average stays at the random start."""

import copy

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("copy-never-moves",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(120, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), model.parameters(), strict=True):
                if fault:
                    mean = 0.9 * mean + 0.1 * p  # the fault
                else:
                    mean.mul_(0.9).add_(p, alpha=0.1)
    return held_out_loss(average, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
