"""The tagger ignores label 0 as padding, which is a class of its own here."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.language import WORDS, sentences
from tests.loops.tasks import held_out_loss, run_as_script

TAGS = 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 24)
        self.rnn = nn.GRU(24, 24, batch_first=True)
        self.head = nn.Linear(24, TAGS)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0]).flatten(0, 1)


def sample(num):
    tokens = sentences(num)
    before = tokens.roll(1, 1)
    before[:, 0] = 0
    return tokens, ((tokens + before) % TAGS).flatten()


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        tokens, tags = sample(16)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), tags, ignore_index=0 if fault else -100)  # the fault
        loss.backward()
        optimizer.step()
    return held_out_loss(model, *sample(128))


if __name__ == "__main__":
    run_as_script(train)
