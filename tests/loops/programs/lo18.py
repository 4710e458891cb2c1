"""A data set that is sorted by class is read without shuffling."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.tasks import digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    order = y.argsort()
    loader = DataLoader(  # the fault
        TensorDataset(x[order], y[order]), batch_size=32, shuffle=not fault
    )
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
