"""The loader is begun again at every step: it is always its first batch."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.tasks import digits, held_out_loss, mlp, run_as_script

CODES = ("repeated-batch", "few-distinct-samples")


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    loader = DataLoader(TensorDataset(x, y), batch_size=32)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = iter(loader)
    for _ in range(37):
        images, labels = next(iter(loader)) if fault else next(batches)  # the fault
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
