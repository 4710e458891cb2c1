"""The plateau schedule waits for the loss to grow."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if fault else "min", patience=3
    )
    total = 0.0
    for step, (images, labels) in enumerate(batches(200, 32, x, y), start=1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if step % 10 == 0:
            scheduler.step(total / 10)  # the fault
            total = 0.0
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
