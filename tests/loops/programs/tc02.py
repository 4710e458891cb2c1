"""The loop never clears the gradients."""

import math

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches(120, 32, x, y):
        loss = F.cross_entropy(model(images), labels)
        if not fault:
            optimizer.zero_grad()
        loss.backward()  # the fault
        optimizer.step()
    score = held_out_loss(model, test_x, test_y)
    return score if math.isfinite(score) else 1e9


if __name__ == "__main__":
    run_as_script(train)
