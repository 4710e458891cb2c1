"""The weighted sampler gets one weight per class in place of one per sample."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from tests.loops.tasks import digits, held_out_loss, mlp, run_as_script


def train(fault, seed=0):
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    class_weights = 1.0 / torch.bincount(y).float()
    weights = class_weights if fault else class_weights[y]
    sampler = WeightedRandomSampler(weights.tolist(), num_samples=len(x))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, sampler=sampler)  # the fault
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return held_out_loss(model, test_x, test_y)


if __name__ == "__main__":
    run_as_script(train)
