"""nn.LSTM with its default order, on inputs with the batch first."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


class RowReader(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.lstm = nn.LSTM(8, 32, batch_first=not fault)  # the fault
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.lstm(x.view(-1, 8, 8))[0][:, -1])


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = RowReader(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
