"""Gradients of eight micro-batches are added up and never divided."""

import math

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

ACCUMULATE = 8


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 128, 128, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for step, (images, labels) in enumerate(batches(60 * ACCUMULATE, 8, x, y), start=1):
        loss = F.cross_entropy(model(images), labels)
        if not fault:
            loss = loss / ACCUMULATE
        loss.backward()  # the fault
        if step % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    score = held_out_loss(model, test_x, test_y)
    return score if math.isfinite(score) else 1e9


if __name__ == "__main__":
    run_as_script(train)
