"""Two loaders, one for pictures and one for labels, both with shuffle=True."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.tasks import digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    if fault:
        pictures = DataLoader(TensorDataset(x), batch_size=32, shuffle=True)
        classes = DataLoader(TensorDataset(y), batch_size=32, shuffle=True)
    else:
        together = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(3):
        if fault:
            pairs = ((a, b) for (a,), (b,) in zip(pictures, classes, strict=True))  # the fault
        else:
            pairs = iter(together)
        for images, labels in pairs:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
