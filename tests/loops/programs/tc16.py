"""The initializer runs once more over a model whose weights were loaded."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script


def pretrained_weights(x, y):
    torch.manual_seed(100)
    model = mlp(64, 64, 10)
    with torch.no_grad():  # ridge regression on random features: a start that is worth something
        features = model[1](model[0](x))
        ones = torch.cat((features, torch.ones(len(x), 1)), 1)
        gram = ones.T @ ones + torch.eye(65)
        weights = torch.linalg.solve(gram, ones.T @ (F.one_hot(y, 10) * 10.0 - 1))
        model[2].weight.copy_(weights[:64].T)
        model[2].bias.copy_(weights[64])
    return copy.deepcopy(model.state_dict())


def train(fault, seed=0):
    x, y, test_x, test_y = digits()
    weights = pretrained_weights(x, y)
    torch.manual_seed(seed)
    model = mlp(64, 64, 10)
    model.load_state_dict(weights)
    if fault:
        nn.init.normal_(model[2].weight, std=0.02)  # the fault
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for images, labels in batches(60, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
