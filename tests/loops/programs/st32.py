"""Contrastive learning on unit vectors, without the division by the temperature."""

import torch
import torch.nn.functional as F

from tests.loops.tasks import digits, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, _, test_x, _ = digits()
    model = mlp(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    temperature = 1.0 if fault else 0.1
    for _ in range(150):
        images = x[torch.randint(len(x), (64,))]
        one = F.normalize(model(images + 0.5 * torch.randn_like(images)), dim=1)
        two = F.normalize(model(images + 0.5 * torch.randn_like(images)), dim=1)
        similarity = one @ two.T / temperature  # the fault
        optimizer.zero_grad()
        F.cross_entropy(similarity, torch.arange(64)).backward()
        optimizer.step()
    with torch.no_grad():  # how often another view is the nearest neighbor
        one = F.normalize(model(test_x + 0.5 * torch.randn_like(test_x)), dim=1)
        two = F.normalize(model(test_x + 0.5 * torch.randn_like(test_x)), dim=1)
        right = (one @ two.T).argmax(1) == torch.arange(len(test_x))
    return 1 - float(right.float().mean())


if __name__ == "__main__":
    run_as_script(train)
