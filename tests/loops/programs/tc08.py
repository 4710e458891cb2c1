"""Data parallel: the reducer averages parameters that the model no longer has."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.loops.tasks import batches, digits, held_out_loss, mlp, on_two_ranks, run_as_script


def renew_parameters(model):
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(parameter.detach().clone()))


def train(fault, seed=0):
    def on_rank(rank):
        torch.manual_seed(seed)
        x, y, test_x, test_y = digits()
        x, y = x[rank * 60 : rank * 60 + 60], y[rank * 60 : rank * 60 + 60]
        model = mlp(64, 64, 10)
        if not fault:
            renew_parameters(model)
        parallel = DistributedDataParallel(model)  # the fault
        if fault:
            renew_parameters(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        torch.manual_seed(seed + rank)
        for images, labels in batches(120, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(parallel(images), labels).backward()
            optimizer.step()
        return held_out_loss(model, test_x, test_y)

    return on_two_ranks(on_rank)


if __name__ == "__main__":
    run_as_script(train)
