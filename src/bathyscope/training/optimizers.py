"""The optimizer of a configuration, and its learning rate as a function of the step alone."""

import math
from bisect import bisect_right
from collections.abc import Iterable

from torch import nn, optim

from bathyscope.training.config import TrainingConfig


def optimizer_of(config: TrainingConfig, parameters: Iterable[nn.Parameter]) -> optim.Optimizer:
    """The optimizer that the configuration names, over the parameters that are trained.

    Examples:
        >>> layer = nn.Linear(2, 2)
        >>> optimizer_of(TrainingConfig(lr=0.3), layer.parameters()).param_groups[0]["lr"]
        0.3
    """
    trained = [p for p in parameters if p.requires_grad]
    # One kernel for all parameters, on a CPU too: for small networks the step costs a quarter.
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in trained)
    if config.optimizer == "sgd":
        return optim.SGD(
            trained,
            lr=config.lr,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            fused=fused,
        )
    result: optim.Optimizer = {"adam": optim.Adam, "adamw": optim.AdamW}[config.optimizer](
        trained,
        lr=config.lr,
        betas=(config.momentum, 0.999),
        weight_decay=config.weight_decay,
        fused=fused,
    )
    return result


def learning_rate(config: TrainingConfig, step: int, *, steps: int, steps_per_epoch: int) -> float:
    """The learning rate of an optimizer step.

    Linear warm-up w(t) = (t + 1) / T_w for t < T_w, times
    step: γ^(milestones passed); cosine: (1 + cos(π t / T)) / 2, with t counted after the warm-up.

    Args:
        config: lr, schedule, milestones, gamma, warmup_epochs.
        step: steps taken before this one.
        steps: of the whole run.
        steps_per_epoch: optimizer steps in an epoch.

    Examples:
        >>> config = TrainingConfig(lr=1.0, schedule="step", milestones=(0.5,), gamma=0.1)
        >>> [learning_rate(config, t, steps=4, steps_per_epoch=1) for t in range(4)]
        [1.0, 1.0, 0.1, 0.1]
    """
    warmup = round(config.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "step":
        drops = sorted(m * (steps if m < 1 else steps_per_epoch) for m in config.milestones)
        return config.lr * config.gamma ** bisect_right(drops, step)
    progress = (step - warmup) / max(1, steps - warmup)
    return config.lr * (1 + math.cos(math.pi * progress)) / 2
