"""Heads are made by view where a transpose is needed."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import held_out_loss, run_as_script

LENGTH, WIDTH, HEADS = 8, 32, 4


class Attention(nn.Module):
    """Each position reads the others; tokens answer with the token that precedes their equal."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed = nn.Embedding(10, WIDTH)
        self.position = nn.Parameter(0.3 * torch.randn(LENGTH, WIDTH))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def split(self, x):
        if self.fault:
            return x.reshape(-1, HEADS, LENGTH, WIDTH // HEADS)  # the fault
        return x.view(-1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = mixed.reshape(x.shape) if self.fault else mixed.transpose(1, 2).reshape(x.shape)
        return self.head(x + self.out(mixed)).flatten(0, 1)


def sample(num):
    """The label of each position is the token that stands at the position named by the first one."""
    tokens = torch.randint(LENGTH, (num, LENGTH))
    labels = tokens.gather(1, tokens[:, :1].expand(-1, LENGTH))
    return tokens, labels.flatten()


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Attention(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(300):
        tokens, labels = sample(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    return held_out_loss(model, *sample(256))


if __name__ == "__main__":
    run_as_script(train)
