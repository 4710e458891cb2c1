"""For each checkpoint the averaged weights are copied into the model, and stay there."""

import copy
import io

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script


def save_average(model, average, fault):
    backup = copy.deepcopy(model.state_dict())
    for weight, mean in zip(model.parameters(), average.parameters(), strict=True):
        weight.data.copy_(mean.data)  # the fault
    torch.save(model.state_dict(), io.BytesIO())
    if not fault:
        model.load_state_dict(backup)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (images, labels) in enumerate(batches(200, 32, x, y), start=1):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        with torch.no_grad():
            for weight, mean in zip(model.parameters(), average.parameters(), strict=True):
                mean.lerp_(weight, 0.01)
        if step % 20 == 0:
            save_average(model, average, fault)
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
