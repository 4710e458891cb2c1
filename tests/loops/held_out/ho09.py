"""Gradients are clipped while they are still multiplied by the loss scale."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("clip-before-unscale",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        if not fault:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the fault
        scaler.step(optimizer)
        scaler.update()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
