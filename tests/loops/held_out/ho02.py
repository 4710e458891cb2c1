"""Adam is made again for every few batches, and forgets its moments each time."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("optimizer-made-again",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for number, (images, labels) in enumerate(batches(120, 16, x, y)):
        if fault and number % 2 == 0:
            optimizer = torch.optim.Adam(model.parameters(), lr=0.02)  # the fault
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
