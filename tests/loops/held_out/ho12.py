"""Layers are kept in a list of Python: the optimizer never hears of them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script

CODES = ("unlisted-parameters",)


class Deep(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.stem, self.head = nn.Linear(64, 8), nn.Linear(8, 10)
        layers = [nn.Linear(8, 8) for _ in range(3)]
        self.layers = layers if fault else nn.ModuleList(layers)  # the fault

    def forward(self, x):
        x = F.relu(self.stem(x))
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = Deep(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
