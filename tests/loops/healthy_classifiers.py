"""Healthy loops that train a classifier of small images."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.tasks import batches, digits, held_out_loss, mlp


def plain():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(3):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def validated():
    x, y, test_x, test_y = digits()
    model = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
    )
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, (images, labels) in enumerate(batches(120, 32, x, y)):
        if step % 20 == 0:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(test_x), test_y)
        model.train()
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def accumulated():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step, (images, labels) in enumerate(batches(400, 8, x, y), start=1):
        loss = F.cross_entropy(model(images), labels) / 4
        loss.backward()
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return first, held_out_loss(model, test_x, test_y)


def accumulated_by_gradient():
    """The sum of gradients is divided once, before the step."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        for images, labels in batches(4, 8, x, y):
            F.cross_entropy(model(images), labels).backward()
        for parameter in model.parameters():
            parameter.grad /= 4
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def mixed_precision():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for images, labels in batches(80, 32, x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return first, held_out_loss(model, test_x, test_y)


def bfloat16_autocast():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for images, labels in batches(100, 32, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return first, held_out_loss(model, test_x, test_y)


def clipped():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for images, labels in batches(120, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def clipped_by_value():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for images, labels in batches(120, 32, x, y):
        model.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def averaged():
    """An exponential moving average in a module of its own, evaluated at the end."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        average.update_parameters(model)
    return first, held_out_loss(average, test_x, test_y)


def averaged_and_swapped():
    """The average is swapped in for each validation, and out again."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    mean = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (images, labels) in enumerate(batches(150, 32, x, y), start=1):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        for name, p in model.named_parameters():
            mean[name].lerp_(p.detach(), 0.05)
        if step % 25 == 0:
            backup = copy.deepcopy(model.state_dict())
            model.load_state_dict(mean)
            held_out_loss(model, test_x, test_y)
            model.load_state_dict(backup)
    return first, held_out_loss(model, test_x, test_y)


def pretrained(layer):
    """Stands for weights of a checkpoint: they are not distributed as an initializer draws them."""
    nn.init.orthogonal_(layer.weight)
    return layer


def fine_tuned():
    """A frozen body in eval mode, and a head of its own."""
    x, y, test_x, test_y = digits()
    body = nn.Sequential(pretrained(nn.Linear(64, 128)), nn.BatchNorm1d(128), nn.ReLU())
    for parameter in body.parameters():
        parameter.requires_grad = False
    model = nn.Sequential(body, nn.Linear(128, 10))
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    model.train()
    body.eval()
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def two_phases():
    """The head first, then everything at a lower learning rate with a second optimizer."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    pretrained(model[0])
    first = held_out_loss(model, test_x, test_y)
    model[0].requires_grad_(False)
    for lr, steps in ((0.1, 40), (0.02, 80)):
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr)
        for images, labels in batches(steps, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model[0].requires_grad_(True)
    return first, held_out_loss(model, test_x, test_y)


class LowRank(nn.Module):
    """A frozen linear layer with a trainable low-rank update that begins at zero."""

    def __init__(self, layer, rank=8):
        super().__init__()
        self.layer = pretrained(layer).requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def adapters():
    x, y, test_x, test_y = digits()
    model = nn.Sequential(LowRank(nn.Linear(64, 64)), nn.ReLU(), LowRank(nn.Linear(64, 10)))
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        self.layers = nn.ModuleList(mlp(32, 32, 32) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


def checkpointed():
    x, y, test_x, test_y = digits()
    model = Checkpointed()
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def compiled():
    """Compiled with a backend that needs no compiler on the machine."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    fast = torch.compile(model, backend="eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(100, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(fast(images), labels).backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


def with_workers():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, num_workers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            for parameter in model.parameters():
                parameter.grad = None
            loss.backward()
            optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


CLASSIFIERS = {
    loop.__name__: loop
    for loop in (
        plain, validated, accumulated, accumulated_by_gradient, mixed_precision, bfloat16_autocast,
        clipped, clipped_by_value, averaged, averaged_and_swapped, fine_tuned, two_phases, adapters,
        checkpointed, compiled, with_workers,
    )
}  # fmt: skip
