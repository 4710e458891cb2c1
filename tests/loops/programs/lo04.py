"""The warm-up divides integers: its factor is 0 until the warm-up is over."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

WARMUP = 150


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    def factor(step):
        return min(1, step // WARMUP if fault else step / WARMUP)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)  # the fault
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        scheduler.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
