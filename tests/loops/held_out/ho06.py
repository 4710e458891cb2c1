"""The network ends with a softmax, and the loss takes another one."""

import torch
from torch import nn

from tests.loops.tasks import batches, digits, held_out_error, mlp, run_as_script

CODES = ("output-misfit",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = nn.Sequential(*mlp(64, 64, 10))
    if fault:
        model.append(nn.Softmax(dim=1))  # the fault
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    return held_out_error(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
