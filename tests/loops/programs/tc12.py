"""Data parallel: the loop calls the raw module, so that the wrapper never averages the gradients."""

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.loops.tasks import batches, digits, held_out_loss, mlp, on_two_ranks, run_as_script


def train(fault, seed=0):
    def on_rank(rank):
        torch.manual_seed(seed)
        x, y, test_x, test_y = digits()
        x, y = x[rank * 60 : rank * 60 + 60], y[rank * 60 : rank * 60 + 60]
        model = mlp(64, 64, 10)
        parallel = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.2)
        torch.manual_seed(seed + rank)
        for images, labels in batches(120, 32, x, y):
            optimizer.zero_grad()
            outputs = model(images) if fault else parallel(images)  # the fault
            F.cross_entropy(outputs, labels).backward()
            optimizer.step()
        return held_out_loss(model, test_x, test_y)

    return on_two_ranks(on_rank)


if __name__ == "__main__":
    run_as_script(train)
