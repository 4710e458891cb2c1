"""The learning rate as a function of the step alone, so that nothing of it need be saved."""

import math
from bisect import bisect_right

from bathyscope.training.config import TrainingConfig


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
