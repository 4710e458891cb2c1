"""Healthy loops with each of the common schedules."""

import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler as schedules

from tests.loops.tasks import batches, digits, held_out_loss, mlp

STEPS = 120


def scheduled(make, *, lr=0.2, every=1, takes_loss=False):
    """A plain loop whose schedule is stepped after every this many optimizer steps."""

    def loop():
        x, y, test_x, test_y = digits()
        model = mlp(64, 64, 10)
        first = held_out_loss(model, test_x, test_y)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        scheduler = make(optimizer)
        for step, (images, labels) in enumerate(batches(STEPS, 32, x, y), start=1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            if step % every == 0:
                scheduler.step(loss.item()) if takes_loss else scheduler.step()
        return first, held_out_loss(model, test_x, test_y)

    return loop


def _warmup_then_cosine(optimizer):
    warmup = schedules.LinearLR(optimizer, start_factor=0.01, total_iters=20)
    cosine = schedules.CosineAnnealingLR(optimizer, T_max=STEPS - 20)
    return schedules.SequentialLR(optimizer, [warmup, cosine], milestones=[20])


SCHEDULES = {
    "warmup_from_zero": scheduled(
        lambda o: schedules.LambdaLR(o, lambda step: min(1.0, step / 40))
    ),
    "warmup_then_cosine": scheduled(_warmup_then_cosine),
    "cosine": scheduled(lambda o: schedules.CosineAnnealingLR(o, T_max=STEPS)),
    "one_cycle": scheduled(lambda o: schedules.OneCycleLR(o, max_lr=0.3, total_steps=STEPS + 1)),
    "step_decay_by_epoch": scheduled(
        lambda o: schedules.StepLR(o, step_size=2, gamma=0.3), every=30
    ),
    "warm_restarts": scheduled(lambda o: schedules.CosineAnnealingWarmRestarts(o, T_0=40)),
    "plateau": scheduled(
        lambda o: schedules.ReduceLROnPlateau(o, patience=2), every=15, takes_loss=True
    ),
    "exponential": scheduled(lambda o: schedules.ExponentialLR(o, gamma=0.5), every=30),
}
