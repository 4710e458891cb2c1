"""A recurrent classifier reads the state behind the padding."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import held_out_loss, run_as_script

PAD, LONGEST = 0, 40


class Classifier(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.embed = nn.Embedding(9, 16, padding_idx=PAD)
        self.rnn, self.head = nn.RNN(16, 32, batch_first=True), nn.Linear(32, 8)

    def forward(self, tokens):
        states = self.rnn(self.embed(tokens))[0]
        if self.fault:
            last = states[:, -1]  # the fault
        else:
            lengths = (tokens != PAD).sum(1)
            last = states[torch.arange(len(tokens)), lengths - 1]
        return self.head(last)


def sample(num):
    """Texts of 2 to 10 words, padded on the right; the class is the last word."""
    tokens = torch.randint(1, 9, (num, LONGEST))
    lengths = torch.randint(2, 11, (num,))
    labels = tokens[torch.arange(num), lengths - 1] - 1
    tokens[torch.arange(LONGEST) >= lengths.unsqueeze(1)] = PAD
    return tokens, labels


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = Classifier(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        tokens, labels = sample(32)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        optimizer.step()
    return held_out_loss(model, *sample(256))


if __name__ == "__main__":
    run_as_script(train)
