"""The dropout of the attention is on in eval mode too."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, run_as_script


class RowAttention(nn.Module):
    """Classifies an image from its eight rows, which attend to one another."""

    def __init__(self, always_drops):
        super().__init__()
        self.always_drops = always_drops
        self.embed, self.qkv = nn.Linear(8, 32), nn.Linear(32, 96)
        self.position = nn.Parameter(torch.randn(8, 32) * 0.1)
        self.head = nn.Linear(32 * 8, 10)

    def forward(self, x):
        x = self.embed(x.view(-1, 8, 8)) + self.position
        q, k, v = self.qkv(x).chunk(3, -1)
        drop = 0.5 if self.training or self.always_drops else 0.0
        x = x + F.scaled_dot_product_attention(q, k, v, dropout_p=drop)  # the fault
        return self.head(x.flatten(1))


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = RowAttention(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, (images, labels) in enumerate(batches(150, 32, x, y)):
        if step % 50 == 0:
            held_out_loss(model, test_x, test_y)
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return sum(held_out_loss(model, test_x, test_y) for _ in range(3)) / 3


if __name__ == "__main__":
    run_as_script(train)
