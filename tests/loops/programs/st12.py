"""The weights of an attention pool are normalized over the batch."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import held_out_loss, run_as_script


class Pool(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed = nn.Linear(6, 32)
        self.score, self.head = nn.Linear(32, 1), nn.Linear(32, 4)

    def forward(self, x):
        states = torch.relu(self.embed(x))
        weights = self.score(states).squeeze(-1).softmax(0 if self.fault else 1)  # the fault
        return self.head((weights.unsqueeze(-1) * states).sum(1))


def sample(num, length=12):
    """One element of each sequence is marked, and says the class."""
    x = torch.randn(num, length, 6)
    labels = torch.randint(4, (num,))
    x[..., 4:] = 0
    index = torch.randint(length, (num,))
    x[torch.arange(num), index, :4] += 2.5 * F.one_hot(labels, 4)
    x[torch.arange(num), index, 4] = 3.0
    return x, labels


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Pool(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        x, labels = sample(32)
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()
    parts = [sample(8) for _ in range(32)]  # another batch size than in training
    return sum(held_out_loss(model, x, y) for x, y in parts) / len(parts)


if __name__ == "__main__":
    run_as_script(train)
