"""Features are detached on their way to the head: the encoder is never trained."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script

CODES = ("detached-parameters", "unreached-parameters", "cut-gradient")


class Classifier(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault
        self.encoder, self.head = mlp(64, 64, 6), nn.Linear(6, 10)

    def forward(self, x):
        features = self.encoder(x)
        if self.fault:
            features = features.detach()  # the fault
        return self.head(features)


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    model = Classifier(fault)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
