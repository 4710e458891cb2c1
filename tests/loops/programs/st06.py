"""A language model that sees the words it is to predict."""

import torch
import torch.nn.functional as F

from tests.loops.language import WORDS, LanguageModel, generation_loss, sentences
from tests.loops.tasks import run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = LanguageModel(causal=not fault)  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        tokens = sentences(16)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, WORDS), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return generation_loss(model)


if __name__ == "__main__":
    run_as_script(train)
