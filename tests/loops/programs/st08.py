"""The labels of a language model are its inputs, and nobody shifts them."""

import torch
import torch.nn.functional as F

from tests.loops.language import WORDS, LanguageModel, generation_loss, sentences
from tests.loops.tasks import run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        tokens = sentences(16)
        inputs, labels = tokens, tokens
        if not fault:
            inputs, labels = tokens[:, :-1], tokens[:, 1:]
        logits = model(inputs)
        loss = F.cross_entropy(logits.reshape(-1, WORDS), labels.reshape(-1))  # the fault
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return generation_loss(model)


if __name__ == "__main__":
    run_as_script(train)
