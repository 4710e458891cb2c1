"""Half precision without loss scaling."""

import torch

from tests.loops.tasks import mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    model = mlp(8, 32, 256)
    truth = 0.01 * torch.randn(8, 256)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not fault)  # the fault
    for _ in range(60):
        x = torch.randn(512, 8)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (0.1 * model(x) - x @ truth).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    x = torch.randn(512, 8)
    with torch.no_grad():
        return 1e4 * float((0.1 * model(x) - x @ truth).square().mean())


if __name__ == "__main__":
    run_as_script(train)
