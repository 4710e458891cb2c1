"""VAE: the divergence is summed, the reconstruction is averaged."""

import torch
from torch import nn

from tests.loops.tasks import batches, digits, mlp, run_as_script


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(64, 64, 16), mlp(8, 64, 64)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, _, test_x, _ = digits()
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for (images,) in batches(200, 32, x):
        output, mean, log_variance = model(images)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp())
        if fault:
            loss = (output - images).square().mean() + divergence.sum()  # the fault
        else:
            error = (output - images).square().sum(1).mean()
            loss = error + divergence.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((model(test_x)[0] - test_x).square().mean())


if __name__ == "__main__":
    run_as_script(train)
