"""Averages, scalers, clips, rates, penalties, phases and ranks."""

import copy
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.loops import unseen
from tests.loops.common import program
from tests.loops.tasks import batches, digits, held_out_loss, mlp, on_two_ranks
from tests.loops.unseen import score


@program("average-lags", "copy-never-moves")
def average_far_too_slow(fault, seed):
    """An average with decay 0.9999 is evaluated after 200 steps: it is the random start still."""
    x, y, test_x, test_y = digits()
    model = mlp(64, 64, 10)
    average = copy.deepcopy(model).requires_grad_(False)
    decay = 0.9999 if fault else 0.95  # the fault
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, (images, labels) in enumerate(batches(200, 32, x, y), 1):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        with torch.no_grad():
            for mean, p in zip(average.parameters(), model.parameters(), strict=True):
                mean.mul_(decay).add_(p, alpha=1 - decay)
            if step % 50 == 0:
                average(test_x)
    return held_out_loss(average, test_x, test_y)


@program("scaled-gradients-stepped", "overshooting-step", "large-update", "unstable-rate")
def scaler_without_its_step(fault, seed):
    """The loss is scaled, and optimizer.step() is called in place of scaler.step(optimizer)."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for images, labels in batches(150, 32, x, y):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(images), labels)).backward()
        if fault:
            optimizer.step()  # the fault
        else:
            scaler.step(optimizer)
            scaler.update()
    value = score(model)
    return value if value == value and value < 50 else 50.0


@program("clip-after-step", "clip-before-backward")
def clipped_after_the_step(fault, seed):
    """Gradients are clipped when they have been used already."""
    x, y, _, _ = digits()
    model = unseen.Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for images, labels in batches(200, 32, x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        if not fault:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if fault:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # the fault
    value = score(model)
    return value if value == value and value < 50 else 50.0


@program("learning-rate-grows", "learning-rate-runs-away")
def warmup_without_a_limit(fault, seed):
    """A warm-up by hand without its min(1, …): the rate grows as long as the training lasts."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (images, labels) in enumerate(batches(200, 32, x, y), 1):
        factor = step / 10
        if not fault:
            factor = min(1.0, factor)  # the fault
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * factor
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    value = score(model)
    return value if value == value and value < 50 else 50.0


@program("empty-loader", "no-batches")
def loader_without_a_batch(fault, seed):
    """drop_last with a batch larger than the data: the loader has no batch, and nothing is trained."""
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    model(x[:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    size = 256 if fault else 32  # the fault
    loader = DataLoader(
        TensorDataset(x[:200], y[:200]), batch_size=size, shuffle=True, drop_last=True
    )
    for _ in range(20):
        for images, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
    return score(model)


@program("detached-term")
def penalty_without_a_graph(fault, seed):
    """The gradient penalty is computed without create_graph: it is a number, and restrains nothing."""
    critic = mlp(2, 64, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
    for _ in range(180):
        real, fake = torch.randn(64, 2) + 1, torch.randn(64, 2) - 1
        mixed = (real + torch.rand(64, 1) * (fake - real)).requires_grad_(True)
        (slope,) = torch.autograd.grad(
            critic(mixed).sum(), mixed, create_graph=not fault
        )  # the fault
        penalty = (slope.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
        optimizer.step()
    points = torch.randn(256, 2).requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(points).sum(), points)
    return float((slope.norm(dim=1) - 1).square().mean()) + 0.01


@program("collapsed-representation", "constant-output", "equal-samples", "constant-columns")
def twins_without_stop_gradient(fault, seed):
    """Two views are made alike, and both sides have a gradient: all images get one code."""
    x, _, test_x, _ = digits()
    encoder = nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32), nn.BatchNorm1d(32),
        nn.ReLU(), nn.Linear(32, 16),
    )  # fmt: skip
    predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    both = [*encoder.parameters(), *predictor.parameters()]
    optimizer = torch.optim.SGD(both, lr=0.05, momentum=0.9)
    for (images,) in batches(200, 64, x):
        first, second = (encoder(images + 0.3 * torch.randn(64, 64)) for _ in range(2))
        loss = 0.0
        for own, other in ((first, second), (second, first)):
            goal = other if fault else other.detach()  # the fault
            loss = loss - F.cosine_similarity(predictor(own), goal).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        codes = F.normalize(encoder(test_x), dim=1)
        return float((codes @ codes.T).mean()) + 0.1


@program("other-inputs-in-evaluation", "validation-inputs-differ", "unscaled-input")
def validation_is_not_normalized(fault, seed):
    """Training images are normalized, those of the validation are bytes."""
    x, y, test_x, test_y = digits()
    pixels = 40 * test_x + 90
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    last = 0.0
    for _ in range(5):
        model.train()
        for images, labels in batches(30, 32, x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            shown = pixels if fault else (pixels - 90) / 40  # the fault
            last = float(F.cross_entropy(model(shown), test_y))
    return last


@program("checkpoint-in-part", "schedule-made-again", "schedule-lost")
def schedule_begins_again(fault, seed):
    """A training is continued with its optimizer and without its schedule, which begins at the top."""
    x, y, _, _ = digits()

    def parts():
        model = mlp(64, 64, 64, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.8)
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=160)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.pt"
        for part in range(2):
            model, optimizer, schedule = parts()
            if part:
                saved = torch.load(file)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
                if fault:
                    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=160)
                    for group in optimizer.param_groups:  # the fault
                        group["lr"] = 0.8
                else:
                    schedule.load_state_dict(saved["schedule"])
            for images, labels in batches(80, 8, x, y):
                optimizer.zero_grad()
                F.cross_entropy(model(images), labels).backward()
                optimizer.step()
                schedule.step()
            whole = {"model": model, "optimizer": optimizer, "schedule": schedule}
            torch.save({name: one.state_dict() for name, one in whole.items()}, file)
    return score(model)


@program("replicas-differ", "no-gradient-at-step")
def only_the_first_rank_steps(fault, seed):
    """`if rank == 0:` was meant for the log, and has the step below it as well."""
    import torch.distributed as dist

    def on_rank(rank):
        x, y, test_x, test_y = digits()
        torch.manual_seed(seed)
        model = mlp(64, 64, 10)
        torch.manual_seed(seed + 7 * rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        for images, labels in batches(100, 16, x[rank::2], y[rank::2]):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= 2
            if rank == 0 or not fault:  # the fault
                optimizer.step()
        worst = torch.tensor(held_out_loss(model, test_x, test_y))
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        return float(worst)

    return on_two_ranks(on_rank)
