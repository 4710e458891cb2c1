"""The loss is averaged as a number and wrapped into a new tensor: no gradient reaches the model."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("no-gradient-at-step", "unreached-parameters")


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        if fault:
            loss = torch.tensor(loss.item(), requires_grad=True)  # the fault
        loss.backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
