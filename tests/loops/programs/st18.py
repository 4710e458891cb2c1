"""Weights themselves are bfloat16, at a learning rate for fine-tuning."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import batches, digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    dtype = torch.bfloat16 if fault else torch.float32
    model = mlp(64, 64, 64, 10).to(dtype)  # the fault
    x, test_x = x.to(dtype), test_x.to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for images, labels in batches(300, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images).float(), labels).backward()
        optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
