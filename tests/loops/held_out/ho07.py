"""Labels are shifted where the data are made, and once more in the loss."""

import torch
import torch.nn.functional as F

from tests.loops.language import LanguageModel, generation_loss, sentences
from tests.loops.tasks import run_as_script

CODES = ("labels-shifted-twice",)


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        tokens = sentences(16)
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        logits = model(inputs)
        if fault:
            logits, labels = logits[:, :-1], labels[:, 1:]  # the fault
        loss = F.cross_entropy(logits.transpose(1, 2), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return generation_loss(model)


if __name__ == "__main__":
    run_as_script(train)
