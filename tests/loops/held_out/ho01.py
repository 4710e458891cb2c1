"""The schedule counts micro-batches: a cosine for the whole training is over after a quarter of it."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("schedule-pace", "learning-rate-gone")
STEPS, PARTS = 80, 4


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: max(0.0, 1 - n / STEPS))
    for number, (images, labels) in enumerate(batches(STEPS * PARTS, 8, x, y), 1):
        (F.cross_entropy(model(images), labels) / PARTS).backward()
        if number % PARTS == 0:
            optimizer.step()
            optimizer.zero_grad()
        if fault or number % PARTS == 0:
            schedule.step()  # the fault
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
