"""Unusual loops that train a classifier of small images."""

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.tasks import batches, digits, held_out_loss, mlp
from tests.loops.unusual import loop


@loop
def weights_averaged_late():
    """SWA: an average over the last epochs, its batch norms filled by a pass of their own."""
    x, y, test_x, test_y = digits()
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, drop_last=True)
    average, cosine = AveragedModel(model), torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    constant = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
    for epoch in range(8):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if epoch >= 5:
            average.update_parameters(model)
            constant.step()
        else:
            cosine.step()
    update_bn(loader, average)
    return first, held_out_loss(average, test_x, test_y)


@loop
def newton_on_minibatches():
    """LBFGS with a line search, which calls the closure several times a step."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 24, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=4, line_search_fn="strong_wolfe"
    )
    for images, labels in batches(12, 300, x, y):

        def closure(images=images, labels=labels):
            optimizer.zero_grad()
            decay = sum(p.square().sum() for p in model.parameters())
            loss = F.cross_entropy(model(images), labels) + 1e-3 * decay
            loss.backward()
            return loss

        optimizer.step(closure)
    return first, held_out_loss(model, test_x, test_y)


@loop
def one_cycle_to_the_end():
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=160, pct_start=0.2, div_factor=25, final_div_factor=1e4
    )
    for images, labels in batches(160, 32, x, y):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        optimizer.step()
        schedule.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def short_last_window():
    """Accumulation over 4; the last window of an epoch has fewer parts, and is divided by these."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    for _ in range(5):
        parts = list(loader)
        for begin in range(0, len(parts), 4):
            window = parts[begin : begin + 4]
            samples = sum(len(labels) for _, labels in window)
            optimizer.zero_grad()
            for images, labels in window:
                loss = F.cross_entropy(model(images), labels, reduction="sum") / samples
                loss.backward()
            optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def half_precision_with_overflows():
    """A loss scale that begins far too high: the scaler leaves out the first steps, and finds its way."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return first, held_out_loss(model, test_x, test_y)


@loop
def mixed_up():
    x, y, test_x, test_y = digits()
    model = mlp(64, 96, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = torch.distributions.Beta(0.4, 0.4)
    for images, labels in batches(180, 32, x, y):
        part, order = float(draw.sample()), torch.randperm(len(images))
        output = model(part * images + (1 - part) * images[order])
        loss = part * F.cross_entropy(output, labels)
        loss = loss + (1 - part) * F.cross_entropy(output, labels[order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def curriculum():
    """Easy digits first, then all of them."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for classes in (4, 7, 10):
        chosen = y < classes
        for images, labels in batches(60, 32, x[chosen], y[chosen]):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def taught_by_a_frozen_teacher():
    """Distillation: soft labels at a temperature beside the hard ones."""
    x, y, test_x, test_y = digits()
    teacher = mlp(64, 96, 10)
    training = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for images, labels in batches(120, 32, x, y):
        training.zero_grad()
        F.cross_entropy(teacher(images), labels).backward()
        training.step()
    teacher.eval().requires_grad_(False)
    student = mlp(64, 24, 10)
    first = held_out_loss(student, test_x, test_y)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
    for images, labels in batches(150, 32, x, y):
        own, wanted = student(images), teacher(images)
        soft = F.kl_div((own / 4).log_softmax(1), (wanted / 4).softmax(1), reduction="batchmean")
        optimizer.zero_grad()
        (0.7 * 16 * soft + 0.3 * F.cross_entropy(own, labels)).backward()
        optimizer.step()
    return first, held_out_loss(student, test_x, test_y)


class Tasks(nn.Module):
    """Two heads, and what the loss of each weighs, learned."""

    def __init__(self):
        super().__init__()
        self.body, self.digit, self.ink = mlp(64, 48, 48), nn.Linear(48, 10), nn.Linear(48, 1)
        self.log_variance = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        hidden = F.relu(self.body(x))
        return self.digit(hidden), self.ink(hidden)[:, 0]


@loop
def tasks_that_weigh_themselves():
    x, y, test_x, test_y = digits()
    model = Tasks()

    def losses(images, labels):
        digit, ink = model(images)
        return torch.stack([F.cross_entropy(digit, labels), F.mse_loss(ink, images.mean(1))])

    with torch.no_grad():
        first = float(losses(test_x, test_y).sum())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(150, 32, x, y):
        weighed = losses(images, labels) * (-model.log_variance).exp() + model.log_variance
        optimizer.zero_grad()
        weighed.sum().backward()
        optimizer.step()
    with torch.no_grad():
        return first, float(losses(test_x, test_y).sum())


@loop
def sharpness_aware():
    """SAM: to the worst point near by, its gradient, back, and then the step."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 48, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches(90, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        moved = []
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            for p in model.parameters():
                moved.append(0.05 * p.grad / (norm + 1e-12))
                p.add_(moved[-1])
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            for p, far in zip(model.parameters(), moved, strict=True):
                p.sub_(far)
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def trained_on_attacks():
    """FGSM: the gradient with respect to the images makes them harder before each step."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in batches(120, 32, x, y):
        shifted = images.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(F.cross_entropy(model(shifted), labels), shifted)
        optimizer.zero_grad()
        F.cross_entropy(model(images + 0.1 * slope.sign()), labels).backward()
        optimizer.step()
    return first, held_out_loss(model, test_x, test_y)


@loop
def thawed_layer_by_layer():
    """The head first, then one layer more at a time, each added to the optimizer at a lower rate."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 64, 10)
    for layer in (model[0], model[2]):
        nn.init.orthogonal_(layer.weight)
        layer.requires_grad_(False)
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.Adam(model[4].parameters(), lr=3e-3)
    for layer, lr in ((model[2], 1e-3), (model[0], 3e-4), (None, 0.0)):
        for images, labels in batches(60, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if layer is not None:
            layer.requires_grad_(True)
            optimizer.add_param_group({"params": layer.parameters(), "lr": lr})
    return first, held_out_loss(model, test_x, test_y)


@loop
def stopped_early_with_the_best():
    """The best weights are kept as a copy and loaded at the end."""
    x, y, test_x, test_y = digits()
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.3), nn.Linear(96, 10))
    first = held_out_loss(model, test_x, test_y)
    optimizer = torch.optim.RAdam(model.parameters(), lr=5e-3)
    best, kept, bad = float("inf"), None, 0
    for _ in itertools.count():
        model.train()
        for images, labels in batches(20, 32, x[:400], y[:400]):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            value = float(F.cross_entropy(model(test_x[:300]), test_y[:300]))
        bad = 0 if value < best else bad + 1
        if value < best:
            best, kept = value, copy.deepcopy(model.state_dict())
        if bad == 2:
            break
    model.load_state_dict(kept)
    return first, held_out_loss(model, test_x, test_y)


@loop
def folds():
    """Cross-validation: a model and an optimizer of its own for each fold."""
    x, y, test_x, test_y = digits()
    first, lasts = 0.0, []
    for fold in range(3):
        model = mlp(64, 32, 10)
        first = held_out_loss(model, test_x, test_y)
        optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
        inside = torch.arange(len(x)) % 3 != fold
        loader = DataLoader(TensorDataset(x[inside], y[inside]), batch_size=32, shuffle=True)
        for _ in range(3):
            for images, labels in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                optimizer.step()
        lasts.append(held_out_loss(model, x[~inside], y[~inside]))
    return first, sum(lasts) / 3
