"""Gradients are cleared between the backward pass and the step."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("no-gradient-at-step",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for images, labels in batches(100, 32, x, y):
        if not fault:
            optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        if fault:
            optimizer.zero_grad()  # the fault
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
