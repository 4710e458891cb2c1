"""Tensor parallel: the replicas of a layer norm are clipped on rank 0 only, and drift apart."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


class Shard(nn.Module):
    """What one rank holds: half of the hidden units, and its own copy of the layer norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up, self.down = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.down(F.relu(self.up(self.norm(x))))


class TensorParallel(nn.Module):
    def __init__(self):
        super().__init__()
        self.ranks = nn.ModuleList(Shard() for _ in range(2))

    def forward(self, x):
        return self.ranks[0](x) + self.ranks[1](x)


class MergedCheckpoint(nn.Module):
    """The model as it is saved: replicated parameters are taken from rank 0 alone."""

    def __init__(self, model):
        super().__init__()
        self.ranks, self.norm = model.ranks, model.ranks[0].norm

    def forward(self, x):
        x = self.norm(x)
        return sum(rank.down(F.relu(rank.up(x))) for rank in self.ranks)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = TensorParallel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    norms = [list(rank.norm.parameters()) for rank in model.ranks]
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        for zero, one in zip(*norms, strict=True):  # all-reduce of the replicated gradients
            zero.grad = zero.grad + one.grad
            one.grad = zero.grad.clone()
        for rank, shard in enumerate(model.ranks):
            replicated = {id(p) for p in norms[rank]}
            clipped = [
                p for p in shard.parameters() if not (fault and rank and id(p) in replicated)
            ]
            nn.utils.clip_grad_norm_(clipped, 0.05)  # the fault
        if not fault:
            for zero, one in zip(*norms, strict=True):
                one.grad.copy_(zero.grad)
        optimizer.step()
    return held_out_loss(MergedCheckpoint(model), test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
