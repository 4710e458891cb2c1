"""A network with spectral norms is put into eval mode before its first pass, and trained so."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import spectral_norm

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = nn.Sequential(
        spectral_norm(nn.Linear(64, 64)), nn.ReLU(), spectral_norm(nn.Linear(64, 64)), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if fault:
        model.eval()  # the fault
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    score = held_out_loss(model, test_x, test_y)
    return score if math.isfinite(score) else 1e9


if __name__ == "__main__":
    run_as_script(train)
