"""An optimizer kernel that writes into a copy where the weight is not contiguous."""

import torch
from torch import nn

from tests.loops.tasks import batches, digits, run_as_script


class FusedSGD(torch.optim.Optimizer):
    def __init__(self, parameters, lr, fault):
        super().__init__(parameters, {"lr": lr})
        self.fault = fault

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                out = p.contiguous() if self.fault else p
                out.add_(p.grad, alpha=-group["lr"])  # the fault


class Autoencoder(nn.Module):
    """The encoder starts as the transpose of the decoder, and lies in memory as that does."""

    def __init__(self):
        super().__init__()
        self.decoder = nn.Parameter(torch.randn(64, 16) / 8)
        self.encoder = nn.Parameter(self.decoder.detach().clone().t())

    def forward(self, x):
        return torch.relu(x @ self.encoder.t()) @ self.decoder.t()


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, _, test_x, _ = digits()
    model = Autoencoder()
    optimizer = FusedSGD(model.parameters(), 0.5, fault)
    for (images,) in batches(200, 64, x):
        optimizer.zero_grad()
        (model(images) - images).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        return float((model(test_x) - test_x).square().mean())


if __name__ == "__main__":
    run_as_script(train)
